"""A password in a URL is nowhere in what ragtrace says, logs, stores or exports."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from ragtrace import config
from ragtrace.analyze._executor_work import Work
from ragtrace.analyze.worker import run as analyze
from ragtrace.cli import app
from ragtrace.engines.model_names import load_generator
from ragtrace.errors import ConfigurationError, RagtraceError
from ragtrace.export import exposition
from ragtrace.export.exporter import PushFailed
from ragtrace.export.push import OtlpTarget, RemoteWriteTarget
from ragtrace.gate.selection import Selection
from ragtrace.safe_text import masked, without_login
from ragtrace.store import Store
from ragtrace.triage.service import Forward
from ragtrace.types import Candidate, GenerateRun, Generation, RequestRecord, RetrieveRun, encode_record

SECRET: Final = "s3cret"
NOBODY: Final = "127.0.0.1:1"  # nobody listens there
STORES: Final = (
    f"postgresql://user:{SECRET}@{NOBODY}/shop",
    f"postgresql://user:{SECRET}/x@{NOBODY}/shop",
    f"postgresql://user:{SECRET} x@{NOBODY}/shop",
    f"postgresql://user:a@{SECRET}@{NOBODY}/shop",
    f"postgresql://user@{NOBODY}/shop?password={SECRET}",
    f"mysql://user:{SECRET}@{NOBODY}/shop",
    f"user:{SECRET}@{NOBODY}/shop",
)
VERBS: Final = (
    ("doctor", "--json"),
    ("doctor",),
    ("show", "r1"),
    ("analyze", "--limit", "1"),
    ("analyze", "--limit", "1", "--workers", "2"),
    ("export", "--once"),
    ("db", "check"),
    ("db", "erase", "--tenant", "t", "--yes"),
    ("totals", "list", "--json"),
    ("serve", "--port", "0"),
    ("triage", "segment", "--service", "s", "--since", "1h"),
)
SERVERS: Final = (
    f"http://user:{SECRET}@{NOBODY}",
    f"http://user:{SECRET}/x@{NOBODY}",
    f"ftp://user:{SECRET}@{NOBODY}",
    f"http://user:{SECRET}@[",
)


def words(error: BaseException | None) -> str:
    """What it says, and what those say that it came from; not the lines of source."""
    return "" if error is None else f"{error!r} {error} {words(error.__cause__)}"


@pytest.mark.parametrize("url", STORES)
def test_a_stores_password(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Every verb that opens the store says where it is, and not the password."""
    caplog.set_level(logging.DEBUG)
    for verb in VERBS if url == STORES[0] else VERBS[:2]:
        result = CliRunner().invoke(app, [*verb, "--store", url])
        assert result.exit_code != 0, verb
        assert SECRET not in f"{result.output} {words(result.exception)} {caplog.text}", verb
    result = CliRunner().invoke(
        app, ["gate", "run", "--baseline", f"{url}&window:1h", "--candidate", "version:index=2"]
    )
    assert SECRET not in f"{result.output} {words(result.exception)}"


def opened(make: Callable[[str], Any], url: str) -> str:
    """What is said where a server cannot be used, or is not reached."""
    try:
        return repr(make(url))
    except (RagtraceError, PushFailed, OSError) as error:
        return words(error)


def _generator(prefix: str) -> Callable[[str], Any]:
    def make(url: str) -> Any:
        model = load_generator(f"{prefix}{url}/v1#name")
        assert SECRET not in f"{model!r} {model.name}"
        return model.generate("question")

    return make


def _remote_write(url: str) -> Any:
    target = RemoteWriteTarget(url)
    assert SECRET not in target.shown
    target._post(b"")


def _otlp(url: str) -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        return OtlpTarget(url)


@pytest.mark.parametrize("url", SERVERS)
@pytest.mark.parametrize(
    "make",
    [_generator("chat:"), _generator(""), _remote_write, OtlpTarget, _otlp, Forward],
    ids=["chat", "generator", "remote write", "otlp", "otlp over gRPC", "forward"],
)
def test_a_servers_password(make: Callable[[str], Any], url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Nor that of a model's server, or of a receiver of metrics or reports."""
    caplog.set_level(logging.DEBUG)
    assert SECRET not in f"{opened(make, url)} {caplog.text}"


def test_what_is_stored_and_exported(tmp_path: Path) -> None:
    """A source may be a URL: it is stored without its password, by import, by report and by the recorder's verbs."""
    url, file = f"sqlite:///{tmp_path}/r.db", tmp_path / "records.jsonl"
    source = f"https://user:{SECRET}@wiki.example/page"
    found = Candidate(chunk_id="c1", rank=1, text="Theft is covered.", source=source)
    answer = GenerateRun(generation=Generation(answer="Theft is covered."))
    record = RequestRecord(request_id="r1", service="shop", stages=(RetrieveRun(candidates=(found,)), answer))
    file.write_bytes(encode_record(record) + b"\n")
    for verb in (("import", str(file)), ("source", "report", source, "--service", "shop", "--documents", "3")):
        result = CliRunner().invoke(app, [*verb, "--store", url])
        assert result.exit_code == 0, words(result.exception)
        assert SECRET not in result.output
    with Store.open(url) as store:
        analyze(store)
        assert "wiki.example" in repr(store.get_record("r1"))
        assert SECRET not in repr(store.get_record("r1"))
        assert SECRET not in exposition(store).decode()
    assert not any(SECRET.encode() in each.read_bytes() for each in tmp_path.glob("r.db*"))


def test_what_settings_show_of_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that logs them, or a traceback with its values, tells no password."""
    url = STORES[0]
    monkeypatch.setenv("RAGTRACE_STORE", url)
    shown = [config.load(), Work(store=url, generator=f"chat:{SERVERS[0]}#n"), Selection("window:1h", url=url)]
    assert SECRET not in repr(shown)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (f"chat:http://user:{SECRET}@host#name", "chat:http://***@host#name"),
        (f"postgresql://user:{SECRET}/x y@host/db", "postgresql://***@host/db"),
        (f"user:{SECRET}@host", "***@host"),
        ("sqlite:///home/me/r.db", "sqlite:///home/me/r.db"),
        ("{'window': '1h'}", "{'window': '1h'}"),
        ("somebody@example.com", "somebody@example.com"),
    ],
)
def test_a_value_as_a_message_shows_it(value: str, shown: str) -> None:
    """What may be a user or a password goes; what is none stays."""
    assert masked(value) == shown
    assert SECRET not in str(ConfigurationError.of("store", value, "another"))


def test_a_text_with_urls() -> None:
    """Each keeps its host; an @ in a path stays."""
    assert without_login(f"see http://a:{SECRET}@h/x and https://h/@me") == "see http://h/x and https://h/@me"
