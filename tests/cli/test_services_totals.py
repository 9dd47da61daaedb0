"""What counts under which name is shown, admitted and forgotten by command."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragtrace.cli import app
from ragtrace.errors import ConfigurationError
from ragtrace.store import Store, totals
from ragtrace.types import RequestRecord


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A store with a service that is meant and three that somebody made up, with room for two of these."""
    found = f"sqlite:///{tmp_path}/r.db"
    with pytest.MonkeyPatch.context() as patched, Store.open(found) as store:
        patched.setattr(totals, "LIMITS", {**totals.LIMITS, "service": 3})
        for number, service in enumerate(["shop", "shop", "made-up-1", "made-up-2", "made-up-3"]):
            versions = {"model": "m"} if service == "made-up-1" else {}
            store.write(
                [RequestRecord(request_id=f"r{number}", service=service, segment=f"s{number % 2}", versions=versions)]
            )
        yield found


def run(*arguments: str, answer: str | None = None) -> tuple[str, int, BaseException | None]:
    """What was printed, the exit code, and what was raised."""
    result = CliRunner().invoke(app, arguments, input=answer)
    return result.output, result.exit_code, result.exception


def names(url: str) -> list[str]:
    """The services that are listed."""
    listed = json.loads(run("totals", "list", "--json", "--store", url)[0])["services"]
    return [each["service"] for each in listed]


def test_services_are_listed_by_their_series(url: str) -> None:
    """The one with most totals first; those that count as `other` are one."""
    (first, *_) = json.loads(run("totals", "list", "--json", "--store", url)[0])["services"]
    assert first == {"service": "shop", "series": 2, "segments": 2, "requests": 2, "has_place": True}
    said = run("totals", "list", "--store", url)[0]
    assert re.search(r"^other +1 +1 +1 +shared", said, re.MULTILINE)
    assert re.search(r"^made-up-1 +1 +1 +1 +its own", said, re.MULTILINE)


def test_forgetting_asks_first(url: str) -> None:
    """It shows the names of a pattern; only a yes deletes them, and who did so is written down."""
    said, code, _ = run("totals", "forget", "--service", "made-up-*", "--store", url, answer="n\n")
    assert said.startswith(f"2 services of {url}: made-up-1, made-up-2\n")
    assert (code, names(url)) == (1, ["shop", "made-up-1", "made-up-2", "other"])
    assert run("db", "audit", "--store", url)[0] == "nothing was erased or forgotten yet\n"
    said, code, _ = run("totals", "forget", "--service", "made-up-*", "--store", url, answer="y\n")
    assert "deleted: 4 exposed, 1 release, 2 total; ragtrace db audit shows it\n" in said
    assert (code, names(url)) == (0, ["shop", "other"])
    (first, second) = run("db", "audit", "--store", url)[0].splitlines()
    assert re.search(r"\S+@\S+: totals forget of service 'made-up-1': 1 release, 2 exposed, 1 total$", first)
    assert "service 'made-up-2'" in second
    with Store.open(url) as store:
        assert len(store.find_requests()) == 5


def test_a_proof_as_json(url: str) -> None:
    """Of what and where, how many rows, and what is left; a dry run deletes nothing."""
    arguments = ("totals", "forget", "--service", "shop", "--segment", "s1", "--json", "--store", url)
    dry = json.loads(run(*arguments, "--dry-run")[0])
    assert (dry["dry_run"], dry["services"], dry["rows"]) == (True, ["shop"], {})
    done, code, _ = run(*arguments, "--yes")
    proof = json.loads(done)
    assert (code, proof["rows"], proof["left"], proof["store"]) == (0, {"exposed": 1, "total": 1}, [], url)
    assert (proof["services"], proof["segment"]) == (["shop"], "s1")
    audit = json.loads(run("db", "audit", "--json", "--store", url)[0])["audit"]
    assert [each["subject"] for each in audit] == [{"service": "shop", "segment": "s1"}]
    done, code, _ = run(*arguments, "--yes")
    assert (code, json.loads(done)["services"]) == (1, [])


def test_a_name_that_is_not_known(url: str) -> None:
    """It says so, with where the names are; exit code 1."""
    said, code, _ = run("totals", "forget", "--service", "shops", "--yes", "--store", url)
    assert (code, "nothing is exported under such a name" in said, "ragtrace totals list" in said) == (1, True, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--service", ""), "say whose totals"),
        (("--service", "shop", "--segment", ""), "say whose totals"),
        (("--service", "shop", "--json"), "--yes or --dry-run"),
    ],
)
def test_what_cannot_be_meant_is_refused(url: str, arguments: tuple[str, ...], said: str) -> None:
    """Nothing is forgotten then."""
    _, _, error = run("totals", "forget", *arguments, "--store", url)
    assert isinstance(error, ConfigurationError)
    assert said in str(error)
    assert names(url) == ["shop", "made-up-1", "made-up-2", "other"]


def test_a_service_is_admitted(url: str) -> None:
    """It counts under its own name from then on."""
    assert "made-up-3 counts under its own name" in run("totals", "admit", "made-up-3", "--store", url)[0]
    assert "made-up-3 does so already" in run("totals", "admit", "made-up-3", "--store", url)[0]
    with Store.open(url) as store:
        store.write([RequestRecord(request_id="later", service="made-up-3")])
    assert "made-up-3" in names(url)
