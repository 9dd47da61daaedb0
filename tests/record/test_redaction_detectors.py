"""Detectors find what they name and leave the numbers of ordinary texts alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

from ragtrace.privacy import DETECTORS
from ragtrace.record import _redaction as redaction
from ragtrace.record._redaction import FINDERS

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq\nabc=\n-----END RSA PRIVATE KEY-----"

FOUND = [
    ("email", "write to john.doe+x@mail.example.co.uk.", "john.doe+x@mail.example.co.uk"),
    ("email", "<a.b@x.io>", "a.b@x.io"),
    ("email", "müller@exämple.de", "müller@exämple.de"),
    ("email", f"{'long' * 40}@example.com", f"{'long' * 16}@example.com"),
    ("phone", "call +49 170 1234567.", "+49 170 1234567"),
    ("phone", "+49 (0)30 901820", "+49 (0)30 901820"),
    ("phone", "+1 (555) 123-4567", "+1 (555) 123-4567"),
    ("phone", "(555) 123-4567", "(555) 123-4567"),
    ("phone", "at 555-123-4567,", "555-123-4567"),
    ("phone", "1-800-555-0199", "1-800-555-0199"),
    ("phone", "020 7946 0958", "020 7946 0958"),
    ("phone", "07700 900123", "07700 900123"),
    ("phone", "0170/1234567", "0170/1234567"),
    ("phone", "0049 170 1234567", "0049 170 1234567"),
    ("phone", "Tel. 5551234567", "5551234567"),
    ("phone", "phone: 00491701234567", "00491701234567"),
    ("phone", "+33 1 23 45 67 89", "+33 1 23 45 67 89"),
    ("phone", "01 23 45 67 89", "01 23 45 67 89"),
    ("phone", "+14155552671", "+14155552671"),
    ("card", "4111 1111 1111 1111", "4111 1111 1111 1111"),
    ("card", "4111-1111-1111-1111", "4111-1111-1111-1111"),
    ("card", "4111111111111111", "4111111111111111"),
    ("card", "3782 822463 10005", "3782 822463 10005"),
    ("card", "378282246310005", "378282246310005"),
    ("card", "6212 3456 7890 0000 003", "6212 3456 7890 0000 003"),
    ("card", "5555555555554444", "5555555555554444"),
    ("card", "6011111111111117", "6011111111111117"),
    ("card", "item 12 4111 1111 1111 1111 12/27", "4111 1111 1111 1111"),
    ("iban", "DE89 3704 0044 0532 0130 00", "DE89 3704 0044 0532 0130 00"),
    ("iban", "GB29NWBK60161331926819", "GB29NWBK60161331926819"),
    ("iban", "IBAN: NL91ABNA0417164300.", "NL91ABNA0417164300"),
    ("iban", "FR14 2004 1010 0505 0001 3M02 606 FOR RENT", "FR14 2004 1010 0505 0001 3M02 606"),
    ("iban", "AB12 DE89370400440532013000", "DE89370400440532013000"),
    ("ip", "from 192.168.0.1:8080", "192.168.0.1"),
    ("ip", "10.15.7.22", "10.15.7.22"),
    ("ip", "2001:db8::8a2e:370:7334", "2001:db8::8a2e:370:7334"),
    ("ip", "at fe80::1: done", "fe80::1"),
    ("ip", "2001:0db8:85a3:0000:0000:8a2e:0370:7334", "2001:0db8:85a3:0000:0000:8a2e:0370:7334"),
    ("ip", "::ffff:192.0.2.128", "::ffff:192.0.2.128"),
    ("key", "key sk-proj-abcdefghijklmnop1234", "sk-proj-abcdefghijklmnop1234"),
    ("key", "AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    ("key", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"),
    ("key", "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_"),
    ("key", "password = hunter2hunter", "hunter2hunter"),
    ("key", 'OPENAI_API_KEY: "a1b2c3d4e5f6"', "a1b2c3d4e5f6"),
    ("key", "password=hunter2", "hunter2"),
    ("key", "password=correcthorse&user=bob", "correcthorse&user=bob"),
    ("key", "PASSWORD=abcdefgh", "abcdefgh"),
    ("key", "password=x", "x"),
    ("key", "DB_PASSWORD=required", "required"),
    ("key", "the password: hunter2, then", "hunter2"),
    ("key", "password: sunshine", "sunshine"),
    ("key", "password: sunshine and user bob", "sunshine"),
    ("key", "**Password:** (Tr0ub4dor)", "(Tr0ub4dor)"),
    ("key", "api_key: abc", "abc"),
    ("key", "(apiKey: abc).", "abc"),
    ("key", "{'api_key': 'abc', 'user': 'bob'}", "abc"),
    ("key", '{"password":"correct horse staple","user":"bob"}', "correct horse staple"),
    ("key", r"{\"password\": \"hunter2\"}", "hunter2"),
    ("key", "passphrase => open sesame", "open"),
    ("key", "client_secret=xyz-abc", "xyz-abc"),
    ("key", "accessToken: a1", "a1"),
    ("key", "token=12345", "12345"),
    ("key", "Authorization: Bearer abcdefghijklmnop", "abcdefghijklmnop"),
    ("key", "-H 'Authorization: Basic dXNlcjpwYXNz'", "dXNlcjpwYXNz"),
    ("key", "Authorization: abc", "abc"),
    ("key", "Bearer mF_9.B5f-4.1JqM", "mF_9.B5f-4.1JqM"),
    ("key", "send Bearer abcdefghijklmnop", "abcdefghijklmnop"),
    ("key", "postgres://admin:pw@db:5432/x", "pw"),
    ("key", "https://hooks.slack.com/services/T0/B0/XX", "hooks.slack.com/services/T0/B0/XX"),
    ("key", "x8Kq2LmP0vR7tY4wZ1nB6cD3fG9hJ5sA", "x8Kq2LmP0vR7tY4wZ1nB6cD3fG9hJ5sA"),
    ("key", f"{PEM} after", PEM),
]

ORDINARY = """
$1,234,567.89 | EUR 12 345 678 | 1 234 567,89 EUR | +5 % | +1.5 million | 10,000-20,000 | 1.000.000
2024-01-15 | 15.01.2024 | 01/15/2024 | 05-12-2024 | 20240115 | 2024-01-15 10:30:00 | 2024-01-15T10:30:00+02:00
10:30-12:00 | 12:30:45 | 0930 1045 1100 | 2019-2024 | 1990–1995 | 2021 2022 2023 2024 | 1.5.2024-31.12.2024
version 1.2.3.4 | >=4.10.0.0 | v10.20.30.40 | release 10.15.7.22 | 1.10.0 | pkg@1.2.3 | Chrome 120.0.6099.109
Section 4.2.1.3 | § 10.2.1.3 | 4.2.1.3 | Art. 12 Abs. 3 | call 2024-01-15 10:30 | phone 100 times | tel quel 12 345 678
ISBN 978-3-16-148410-0 | ISBN 0-306-40615-2 | 9783161484100 | ISSN 2049-3630 | 10.1000/182 | arXiv:2301.12345
order 12345678 | 90210-1234 | HO-2024-001-123456 | 1234567890123456 | 1700000000000000000 | 4676002274784316434
555-1234 | 100-200-300
52.5200, 13.4050 | 3.141592653589793 | 00:1A:2B:3C:4D:5E | std::vector<int> | a::b | @handle | a @ b.com
550e8400-e29b-41d4-a716-446655440000 | d41d8cd98f00b204e9800998ecf8427e | AbstractSingletonProxyFactoryBean2Impl
e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 | home-se-4.0#water-exception
password: required by the policy | the password: see your letter | Password: it must have 8 signs | password policy
Your password: choose a long one | the password is required | passwords: see below | bearer of good news | Token: 5
the bearer must sign | bearer bonds | Basic cover | Secret: always add salt | Token: unit of text | token limit: 4096
the secret ingredient | Token: 2024-01-15T10:30
4111 1111 1111 1112 | DE00 3704 0044 0532 0130 00 | US12 3456 7890 1234 5678 90 | 256.1.1.1 | 1.2.3
"""


@pytest.mark.parametrize(("name", "text", "expected"), FOUND)
def test_finds(name: str, text: str, expected: str) -> None:
    """The detector finds exactly this part of the text."""
    assert [text[start:end] for start, end in FINDERS[name](text)] == [expected]


def test_both_ends_of_a_range_are_addresses() -> None:
    """Unless they are versions."""
    text = "10.0.0.5-10.0.0.9"
    assert [text[start:end] for start, end in FINDERS["ip"](text)] == ["10.0.0.5", "10.0.0.9"]
    assert FINDERS["ip"](f"versions {text}") == []


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("password", True), ("db_password", True), ("apiKey", True), ("API-KEY", True), ("Authorization", True),
        ("token", True), ("client_secret", True), ("pwd", True), ("passwords", False), ("tokens", False),
        ("token_count", False), ("key", False), ("author", False), ("password_changed", False),
    ],
)  # fmt: skip
def test_names_of_secrets(name: str, is_secret: bool) -> None:
    """What a mapping calls its value."""
    assert redaction.names_a_secret(name) is is_secret


@pytest.mark.parametrize("text", [part.strip() for part in re.split(r"[|\n]", ORDINARY) if part.strip()])
def test_leaves_ordinary_texts_alone(text: str) -> None:
    """No detector finds anything in prices, dates, times, versions, sections, ISBNs, ids and hashes."""
    assert {name: find(text) for name, find in FINDERS.items()} == {name: [] for name in FINDERS}


def test_leaves_whole_documents_alone() -> None:
    """The wordings of the demo, with their amounts, dates, versions and sections: not one find."""
    found = [
        (name, file.name, text[start:end])
        for file in files("ragtrace.demo").joinpath("wordings").iterdir()
        if file.name.endswith(".toml")
        for text in [file.read_text()]
        for name, find in FINDERS.items()
        for start, end in find(text)
    ]
    assert found == []


def test_the_settings_name_all_detectors() -> None:
    """What can be asked for is what there is, in the order in which it runs."""
    assert tuple(FINDERS) == DETECTORS


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    """Every regular expression of the detectors."""
    for module in (redaction, redaction, redaction):
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                yield f"{module.__name__}.{name}", value


def repeats(tree: Any, inside: int = 1) -> Iterator[int]:
    """How often the innermost item of each repeat that can be backtracked into may be tried from one place."""
    for operation, argument in tree:
        name = str(operation)
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            _, most, body = argument
            times = inside * int(most)
            yield times
            yield from repeats(body, times)
        elif name == "POSSESSIVE_REPEAT":
            yield from repeats(argument[2], inside)
        elif name == "BRANCH":
            for branch in argument[1]:
                yield from repeats(branch, inside)
        elif name == "SUBPATTERN":
            yield from repeats(argument[3], inside)
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from repeats(argument[1], inside)
        elif name == "ATOMIC_GROUP":
            yield from repeats(argument, inside)


@pytest.mark.parametrize(("name", "pattern"), list(patterns()))
def test_patterns_are_linear(name: str, pattern: re.Pattern[str]) -> None:
    """No repeat that can be backtracked into is unbounded: the work at each place of a text has a fixed bound."""
    import re._parser as parser  # type: ignore[import-not-found]

    assert max(repeats(parser.parse(pattern.pattern, pattern.flags)), default=0) <= 1000, name


@pytest.mark.parametrize(
    "unit",
    ["a", "1", "1 ", "+", "+1", "a@", "@a.", "a.", "1.", ":", "a:", "0123 ", "DE89 ", "sk-", "eyJ-", "eyJ.",
     "-----BEGIN ", "-----BEGIN PRIVATE KEY-----\n", "-----BEGIN PRIVATE KEY-----AAAAAAAAAAAAAAAA\n", "tel ",
      "token=", "\\n", "4111 "],
)  # fmt: skip
def test_adversarial_texts_end(unit: str) -> None:
    """A text of 200,000 characters that nearly matches everywhere: each detector comes to its end."""
    text = unit * (200_000 // len(unit)) + "!"
    for find in FINDERS.values():
        spans = find(text)
        assert all(0 <= start < end <= len(text) for start, end in spans)
