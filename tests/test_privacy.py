"""Settings of content capture, redaction, spans and baggage: modes by field, and refusals that say what to give."""

from __future__ import annotations

import re
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

import pytest

import ragtrace
from ragtrace.config import load
from ragtrace.errors import ConfigurationError
from ragtrace.privacy import Capture


def test_one_mode_is_for_all_fields() -> None:
    """The setting as it was before there were fields."""
    assert set(astuple(load(capture_content="redacted").capture_content)) == {"redacted"}
    assert load().capture_content == Capture()


@pytest.mark.parametrize("value", [{"prompt": "off", "chunks": "redacted"}, "prompt=off, chunks=redacted"])
def test_modes_by_field(value: Any) -> None:
    """What is not named is kept in full."""
    assert load(capture_content=value).capture_content == Capture(prompt="off", chunks="redacted")


def test_a_default_is_for_all_other_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the environment."""
    monkeypatch.setenv("RAGTRACE_CAPTURE_CONTENT", "default=hash,answer=full")
    capture = load().capture_content
    assert capture.answer == "full"
    assert {getattr(capture, each.name) for each in fields(Capture) if each.name != "answer"} == {"hash"}


def test_patterns_come_from_a_mapping_or_from_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are compiled at once, so that a bad one shows at the start."""
    assert load(redact_patterns={"customer": r"C-\d+"}).redact_patterns == {"customer": re.compile(r"C-\d+")}
    monkeypatch.setenv("RAGTRACE_REDACT_PATTERNS", r'{"ticket": "T-[0-9]{4}"}')
    assert load().redact_patterns == {"ticket": re.compile("T-[0-9]{4}")}


def test_names_come_in_one_order() -> None:
    """Of detectors, vocabularies and baggage; an empty list is none."""
    assert load(redact=["ip", "email"]).redact == load(redact="email, ip").redact == ("email", "ip")
    assert load(redact=()).redact == ()
    assert load(span_vocabularies="openinference,gen_ai").span_vocabularies == ("gen_ai", "openinference")
    assert load(baggage=("tenant_id", "session_id")).baggage == ("session_id", "tenant_id")


@pytest.mark.parametrize(
    ("word", "expected"),
    [("true", True), ("SPAN_ONLY", True), ("span_and_event", True), ("no_content", False), ("what", False)],
)
def test_opentelemetrys_variable_for_content(monkeypatch: pytest.MonkeyPatch, word: str, expected: bool) -> None:
    """It is honored where ours is not set; a word that is unknown is no reason to send content."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", word)
    assert load().span_content is expected
    monkeypatch.setenv("RAGTRACE_SPAN_CONTENT", "no" if expected else "yes")
    assert load().span_content is not expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"capture_content": "some"}, "capture_content 'some' is not usable; give 'full', 'redacted', 'hash' or 'off'"),
        ({"capture_content": {"prompt": "none"}}, "'full', 'redacted', 'hash' or 'off', or one of them by field"),
        ({"capture_content": {"prompts": "off"}}, "fields among query, chunks, metadata, prompt, answer, error"),
        ({"capture_content": 5}, "'full', 'redacted', 'hash' or 'off'"),
        ({"capture_content": {"prompt": ["off"]}}, "'full', 'redacted', 'hash' or 'off'"),
        ({"redact": ["emails"]}, "names among key, email, iban, card, ip, phone"),
        ({"redact": 5}, "names among key, email"),
        ({"redact_patterns": "C-"}, "a JSON object"),
        ({"redact_patterns": ["C-"]}, "regular expressions by name"),
        ({"redact_patterns": {"customer": "("}}, r"redact_patterns\['customer'\] '\(' is not usable.*missing \)"),
        ({"redact_patterns": {"customer": 5}}, "a regular expression"),
        ({"redact_patterns": {"customer": "x*"}}, "does not match the empty text"),
        ({"redact_patterns": {"email": "x"}}, "none of key, email"),
        ({"redact_patterns": {"my name": "x"}}, "a name of letters, digits"),
        ({"redactor": "presidio"}, "a function that takes a text and returns a text"),
        ({"span_vocabularies": ["genai"]}, "names among gen_ai, openinference"),
        ({"span_content": "some"}, "true or false"),
        ({"baggage": ["user_id"]}, "names among session_id, tenant_id"),
    ],
)
def test_bad_values_are_refused(arguments: dict[str, Any], message: str) -> None:
    """The message gives the value and what is allowed."""
    with pytest.raises(ConfigurationError, match=message):
        load(**arguments)


def test_nothing_unredacted_reaches_the_disk(tmp_path: Path) -> None:
    """Records, flagged ones on the host's thread too, and feedback: what waits in the spool has no address in it."""
    (tmp_path / "file").write_text("no folder")
    ragtrace.configure(
        store=f"sqlite:///{tmp_path}/file/unreachable.db", spool=tmp_path / "spool", capture_content="redacted"
    )
    try:
        for flag in (None, "vip"):
            with (
                ragtrace.request(query="of ann@example.com", flag=flag) as request,
                ragtrace.retrieve(query="q") as run,
            ):
                run.candidates([{"id": "a", "text": "by ann@example.com", "page": {"by": "ann@example.com"}}])
            ragtrace.feedback(request.request_id, comment="from ann@example.com")
    finally:
        ragtrace.shutdown()
    written = b"".join(path.read_bytes() for path in (tmp_path / "spool").rglob("*") if path.is_file())
    assert written.count(b"of [EMAIL]") == written.count(b"from [EMAIL]") == 2
    assert b"ann@example.com" not in written
