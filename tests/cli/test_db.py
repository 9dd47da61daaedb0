"""`ragtrace db`: the schema, retention, garbage, erasure, and whether a store is whole."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from ragtrace.cli import app
from ragtrace.errors import ConfigurationError, StoreUnavailable
from ragtrace.store import Store, check
from ragtrace.types import GenerateRun, Generation, RequestRecord

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def test_makes_a_database_at_head(cli: Cli, tmp_path: Path) -> None:
    """A database that does not exist is made with the newest schema, and a second run changes nothing."""
    url = f"sqlite:///{tmp_path / 'new.db'}"
    first, second = cli("db", "upgrade", "--store", url, "--json"), cli("db", "upgrade", "--store", url, "--json")

    assert first.returncode == second.returncode == 0, first.stderr
    assert json.loads(first.stdout) == json.loads(second.stdout) == {"revision": check(url).head}
    assert check(url).current == check(url).head


def test_store_of_the_environment_is_used(cli: Cli, tmp_path: Path) -> None:
    """Without `--store` the verb works on RAGTRACE_STORE."""
    done = cli("db", "upgrade", RAGTRACE_STORE=f"sqlite:///{tmp_path / 'named.db'}")

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "named.db").is_file()
    assert not (tmp_path / "ragtrace.db").exists()


DAY = 86_400 * 1_000_000_000


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with a new request and one of forty days ago, each of its own tenant."""
    found = f"sqlite:///{tmp_path}/r.db"
    with Store.open(found) as store:
        for name, age in (("new", 0), ("old", 40)):
            run = GenerateRun(generation=Generation(answer=f"{name} answer"))
            record = RequestRecord(
                request_id=name,
                service="shop",
                tenant_id=f"{name} tenant",
                session_id="s",
                stages=(run,),
                started_at=time.time_ns() - age * DAY,
            )
            store.write([record])
        with store._database.write() as connection:
            connection.execute(sa.text("UPDATE content SET touched_at = 1"))
    return found


def run(*arguments: str, answer: str | None = None) -> tuple[str, int, BaseException | None]:
    """What was printed, the exit code, and what was raised."""
    result = CliRunner().invoke(app, ["db", *arguments], input=answer)
    return result.output, result.exit_code, result.exception


def _ids(url: str) -> list[str]:
    with Store.open(url) as store:
        return [row.request_id for row in store.find_requests()]


def test_prune_and_vacuum(url: str) -> None:
    """What is old goes with what belongs to it, then its text; a dry run says so before."""
    would = run("prune", "--keep", "random=30d", "--dry-run", "--store", url)[0]
    assert would.startswith("would be deleted: 1 job, 1 request, 1 trait")
    assert _ids(url) == ["new", "old"]
    done = json.loads(run("prune", "--keep", "random=30d", "--keep", "waiting=8w", "--store", url, "--json")[0])
    assert done == {"dry_run": False, "rows": {**done["rows"], "request": 1, "job": 1, "trait": 1}, "busy": 0}
    assert _ids(url) == ["new"]
    assert run("prune", "--keep", "all=0s", "--keep-reports", "21", "--store", url)[0].startswith("deleted: 1 job")

    assert run("vacuum", "--dry-run", "--store", url)[0] == "2 of 2 texts are not used\n"
    said = run("vacuum", "--compact", "--store", url)[0]
    assert said.startswith("2 of 2 texts were not used and are deleted, ")
    assert "the database has" in said
    assert json.loads(run("vacuum", "--store", url, "--json")[0])["texts"] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("prune",), "say what to keep"),
        (("prune", "--keep", "old=30d"), "'old=30d' is not usable; give each of all, random"),
        (("prune", "--keep", "random"), "'random' is not usable"),
        (("prune", "--keep", "random=1d", "--keep", "random=2d"), "'random=2d' is not usable"),
        (("prune", "--keep", "random=soon"), "--keep random= 'soon' is not usable; give a span"),
        (("vacuum", "--compact", "--dry-run"), "one of the two"),
        (("vacuum", "--full", "--dry-run"), "one of the two"),
        (("erase",), "say whose data"),
        (("erase", "--tenant", ""), "say whose data"),
        (("erase", "--tenant", "t", "--request", "r"), "by itself"),
        (("erase", "--tenant", "t", "--json"), "--yes or --dry-run"),
    ],
)
def test_what_cannot_be_meant_is_refused(url: str, arguments: tuple[str, ...], said: str) -> None:
    """Nothing is deleted then."""
    _, _, error = run(*arguments, "--store", url)
    assert isinstance(error, ConfigurationError)
    assert said in str(error)
    assert _ids(url) == ["new", "old"]


def test_erase_asks_first(url: str) -> None:
    """It shows what it found; only a yes deletes it."""
    said, code, _ = run("erase", "--tenant", "old tenant", "--store", url, answer="n\n")
    assert said.startswith("1 request (old)\nwould be deleted")
    assert (code, _ids(url)) == (1, ["new", "old"])
    dry = json.loads(run("erase", "--tenant", "old tenant", "--dry-run", "--json", "--store", url)[0])
    assert (dry["dry_run"], dry["requests"], dry["rows"]["job"]) == (True, 1, 1)
    said, code, _ = run("erase", "--tenant", "old tenant", "--store", url, answer="y\n")
    assert "deleted: 1 content, 1 counted, 1 job, 1 request, 1 trait" in said
    assert "not touched: gold sets, reports of the gate, backups" in said
    assert "of shop, which others may have sent to as well, all that is kept by service stays" in said
    assert (code, _ids(url)) == (0, ["new"])
    done = json.loads(run("erase", "--session", "s", "--yes", "--no-rewrite", "--json", "--store", url)[0])
    assert (done["requests"], done["first"], done["rewritten"]) == (1, ["new"], False)
    assert _ids(url) == []


def test_what_an_erasure_proves(url: str) -> None:
    """Whose data went from where and when, and that a second look finds nothing; 1 where there was nothing to erase."""
    said, code, _ = run("erase", "--tenant", "old tenant", "--yes", "--store", url)
    assert (code, "deleted: 1 content, 1 counted, 1 job" in said) == (0, True)
    assert re.search(rf"\n\d{{4}}-\d\d-\d\d \S+.*: nothing is left of tenant 'old tenant' in {re.escape(url)}\n$", said)
    for options in ((), ("--yes",), ("--dry-run",)):
        said, code, _ = run("erase", "--tenant", "old tenant", *options, "--store", url)
        assert (code, said.splitlines()[0]) == (1, f"nothing is stored of tenant 'old tenant' in {url}")
        assert ("the output of that run is its proof" in said) == ("--dry-run" not in options)
        assert "deleted" not in said
    out, code, _ = run("erase", "--session", "s", "--tenant", "new tenant", "--yes", "--store", url, "--json")
    done = json.loads(out)
    assert (code, done["left"], done["store"]) == (0, {}, url)
    assert done["subject"] == {"tenant": "new tenant", "session": "s", "requests": []}
    assert re.match(r"\d{4}-\d\d-\d\d", done["at"])
    out, code, _ = run("erase", "--request", "new", "--dry-run", "--store", url, "--json")
    assert (code, json.loads(out)["rows"], json.loads(out)["left"]) == (1, {}, None)


def test_an_erasure_is_in_the_audit(url: str) -> None:
    """With its reference and without a name; a reference that names whose data it was is refused."""
    whose = ("--tenant", "old tenant", "--yes", "--no-rewrite", "--store", url)
    _, _, error = run("erase", "--reference", "demand of old tenant", *whose)
    assert "--reference stays in the store" in str(error)
    assert _ids(url) == ["new", "old"]
    assert run("erase", "--reference", "DSR-17", *whose)[1] == 0
    said = run("audit", "--store", url)[0]
    assert re.search(r"\S+@\S+: db erase of a tenant, reference 'DSR-17': .*1 request", said)
    assert "old tenant" not in said


def test_a_dry_run_erases_nothing(url: str) -> None:
    """Whatever else is said."""
    said, code, _ = run("erase", "--tenant", "old tenant", "--yes", "--dry-run", "--store", url)
    assert said.startswith("1 request (old)\nwould be deleted")
    assert (code, _ids(url)) == (0, ["new", "old"])


def test_what_comes_while_it_is_erased(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told, with what to do."""
    erase = Store.erase

    def slowly(store: Store, *arguments: Any, **named: Any) -> Any:
        found = erase(store, *arguments, **named)
        store.write([RequestRecord(request_id="late", service="shop", tenant_id="old tenant")])
        return found

    monkeypatch.setattr(Store, "erase", slowly)
    said, code, _ = run("erase", "--tenant", "old tenant", "--yes", "--store", url)
    assert (code, "came meanwhile of tenant 'old tenant'" in said, "1 request, 1 trait" in said) == (1, True, True)


def test_a_reader_keeps_what_was_erased(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write-ahead log holds it until nobody reads: erase and vacuum say so, with the remedy."""
    monkeypatch.setattr("ragtrace.store._space._LOG_SECONDS", 0.0)
    remedy = "somebody reads the database; run `ragtrace db vacuum --compact`"
    with Store.open(url) as store, store._database.read() as reader:
        reader.execute(sa.text("SELECT count(*) FROM request"))
        assert (
            f"still holds copies of deleted rows: {remedy}"
            in run("erase", "--request", "old", "--yes", "--store", url)[0]
        )
        done = json.loads(run("erase", "--request", "new", "--yes", "--json", "--store", url)[0])
        assert (done["rewritten"], done["emptied"]) == (True, False)
        said = run("vacuum", "--compact", "--store", url)[0]
        assert f"could not be emptied, and may hold copies of deleted rows: {remedy}" in said
    assert remedy not in run("vacuum", "--compact", "--store", url)[0]


def test_check(url: str) -> None:
    """A whole store gives 0; each damage is a line, and 1."""
    said, code, _ = run("check", "--all", "--store", url)
    assert (code, "2 payloads were read; no problems" in said, "2 request" in said) == (0, True, True)
    damages: dict[str, Any] = {
        "UPDATE request SET payload = x'00' WHERE request_id = 'new'": "request new: record 'new' cannot be read",
        "DELETE FROM content": "request old: 1 of its 1 texts are missing; restore",
        "DELETE FROM request WHERE request_id = 'new'": "job: 1 rows without a request; ragtrace jobs drop",
    }
    for statement, problem in damages.items():
        with Store.open(url) as store, store._database.write() as connection:
            connection.execute(sa.text(statement))
        for options in ((), ("--all",)):
            said, code, _ = run("check", *options, "--store", url)
            assert (code, problem in said) == (1, True), said
    found = json.loads(run("check", "--json", "--store", url)[0])
    assert (found["revision"], len(found["problems"]), found["rows"]["request"]) == (check(url).head, 2, 1)


def test_check_of_a_damaged_file(url: str) -> None:
    """Pages that are overwritten are found; a store that is not there gives 2."""
    file = Path(url.removeprefix("sqlite:///"))
    index = "SELECT rootpage FROM sqlite_master WHERE name = 'ix_request_started_at'"
    with Store.open(url) as store:
        store.compact()
        with store._database.read() as connection:
            page = connection.scalar(sa.text(index))
    body = bytearray(file.read_bytes())
    body[4096 * (page - 1) : 4096 * page] = b"\xff" * 4096
    file.write_bytes(body)
    said, code, _ = run("check", "--store", url)
    assert (code, "SQLite: " in said) == (1, True), said
    _, _, error = run("check", "--store", f"{url}.none")
    assert isinstance(error, StoreUnavailable)
