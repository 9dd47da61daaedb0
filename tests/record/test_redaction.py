"""Redaction: placeholders, the host's own patterns and function, applied twice, and a function that fails."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from ragtrace.privacy import DETECTORS
from ragtrace.record._redaction import Redactor

PIECES = [
    "john@example.com", "+49 170 1234567", "4111 1111 1111 1111", "DE89370400440532013000", "192.168.0.1", "fe80::1",
    "sk-proj-abcdefghijklmnop1234", "C-123456", "[EMAIL]", "[CUSTOMER]", " ", ", ", ":", "[", "]", "Tel. ",
    "v", "7", "x", "password: ", "password=", "token: ", "Bearer ", "see ", '"', "\\", ")", "://a:",
    "10.0.0.5-", "2024-01-15", "ä",
]  # fmt: skip


def redactor(
    *,
    detectors: tuple[str, ...] = DETECTORS,
    patterns: dict[str, str] | None = None,
    function: Callable[[str], str] | None = None,
    faults: list[str] | None = None,
) -> Redactor:
    """A redactor with these parts; faults of its function go into the list."""
    compiled = {name: re.compile(pattern) for name, pattern in (patterns or {}).items()}
    return Redactor(detectors, compiled, function, (faults if faults is not None else []).append)


def test_placeholders_name_what_stood_there() -> None:
    """Each find becomes the name of its detector in brackets."""
    text = (
        "Mail john@example.com, call +49 170 1234567, card 4111 1111 1111 1111, IBAN DE89 3704 0044 0532 0130 00, "
        "host 192.168.0.1, key AKIAIOSFODNN7EXAMPLE; 12 EUR from 2024-01-15."
    )
    assert redactor().redact(text) == (
        "Mail [EMAIL], call [PHONE], card [CARD], IBAN [IBAN], host [IP], key [KEY]; 12 EUR from 2024-01-15."
    )


def test_the_key_of_a_mapping_says_what_its_value_is() -> None:
    """Texts, numbers, and all that is inside; what is no secret is looked through as ever."""
    own = redactor()
    given = {
        "password": "Sommer2024!",
        "db": {"api_key": "abc", "host": "a@b.io", "port": 5432},
        "Authorization": ["Bearer x", 7],
        "client_secret": {"value": "v", "is_set": True},
        "token": None,
    }
    kept = {
        "password": "[KEY]",
        "db": {"api_key": "[KEY]", "host": "[EMAIL]", "port": 5432},
        "Authorization": ["[KEY]", "[KEY]"],
        "client_secret": {"value": "[KEY]", "is_set": True},
        "token": None,
    }
    assert own.redact_value(given) == own.redact_value(kept) == kept
    assert redactor(detectors=("email",)).redact_value({"password": "x"}) == {"password": "x"}


def test_only_the_chosen_detectors_run() -> None:
    """What is not asked for stays."""
    assert redactor(detectors=("email",)).redact("a@b.io at 192.168.0.1") == "[EMAIL] at 192.168.0.1"
    assert redactor(detectors=()).redact("a@b.io") == "a@b.io"


def test_the_hosts_patterns_run_after_the_detectors() -> None:
    """They see the placeholders, may take a whole one in, and never change a part of one."""
    own = redactor(patterns={"customer": r"C-\d{6}", "words": r"[A-Z]{4,}", "name": r"Name: .*"})
    assert own.redact("C-123456 wrote from a@b.io") == "[CUSTOMER] wrote from [EMAIL]"
    assert own.redact("Name: Ann, a@b.io\nnext") == "[NAME]\nnext"


def test_the_function_runs_last() -> None:
    """Its result is looked through again."""
    assert redactor(function=lambda text: text.replace("Ann", "ann@b.io")).redact("Ann, a@b.io") == "[EMAIL], [EMAIL]"


@pytest.mark.parametrize(
    ("function", "kind"),
    [(lambda text: text[10_000], "IndexError"), (lambda text: None, "returned NoneType"), (len, "returned int")],
)
def test_a_failing_function_drops_the_content(function: Callable[[str], str], kind: str) -> None:
    """Nothing of a text leaves when it could not be redacted, and the fault is told without its message."""
    faults: list[str] = []
    own = redactor(function=function, faults=faults)
    assert (own.redact("secret"), own.redact("secret")) == (None, None)
    assert faults == [kind, kind]


def test_a_function_that_recovers_is_asked_again() -> None:
    """A failure is not remembered."""
    faults = [ValueError("busy")]

    def sometimes(text: str) -> str:
        if faults:
            raise faults.pop()
        return "fine"

    own = redactor(function=sometimes)
    assert (own.redact("text"), own.redact("text")) == (None, "fine")


def test_the_same_text_is_redacted_once() -> None:
    """A chunk that is retrieved again costs nothing; a long text is not remembered."""
    seen: list[str] = []

    def noted(text: str) -> str:
        seen.append(text)
        return text

    own = redactor(function=noted)
    for text in ("short", "short", "long" * 1000, "long" * 1000):
        own.redact(text)
    assert [len(text) for text in seen] == [5, 4000, 4000]


@given(st.lists(st.sampled_from(PIECES), max_size=7).map("".join))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    """Whatever stands beside whatever, the second time finds nothing more."""
    own = redactor(patterns={"customer": r"C-\d{6}", "letters": r"\b[A-Z]+\b"})
    once = own.redact(text)
    assert once is not None
    assert own.redact(once) == once
