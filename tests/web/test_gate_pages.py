"""The gate's pages: its runs, their reports, and two replays side by side; and the end of a session."""

from __future__ import annotations

import logging
import re
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest

from ragtrace.analyze import worker
from ragtrace.gate.types import CellChanges, ChangedPair
from ragtrace.safe_text import dumps
from ragtrace.store import FaultFigures, GateRun, ServiceCalibration, Store
from ragtrace.types import GenerateRun, Generation, PackedChunk, Packing, PackRun, Query, RequestRecord
from ragtrace.web._access import People, Sessions
from tests.gate.reported import blocked, passed
from tests.web.gated import COMPARED, RIVALS, RUN
from tests.web.stored import ALTERED, EVIL, LOST, OTHER, SECRET, SERVICE, store_of
from tests.web.test_pages import FILE, TOKENS, client


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The store of all pages."""
    with Store.open(store_of(tmp_path_factory.mktemp("gate"))) as opened:
        yield opened


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of people."""
    file = tmp_path_factory.mktemp("tokens") / "people"
    file.write_text(FILE, encoding="utf-8")
    return file


def test_two_replays_stand_side_by_side(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Each question whose answer changed, with both; who read it is written down."""
    with caplog.at_level(logging.INFO, "ragtrace.web.reading"):
        page = client(store).get(COMPARED).text
    assert "case 1, to acme" in page
    assert "19,500 is paid." in page
    assert "91,500" in page
    assert "3 questions of the replays acme before and acme after" in caplog.text
    assert '<a href="/requests/acme-1-0" class="mono">acme-1-0</a>' in page
    assert '<a href="/requests/acme-0-0" class="mono">acme-0-0</a>' in page
    assert "ragtrace show" not in page
    assert f'href="/triage?service={quote("acme/tried", safe="")}"' in page


def test_a_run_is_its_report(store: Store) -> None:
    """As the terminal has it, with the list that leads there."""
    me = client(store)
    assert f'href="/gate/{RUN}"' in me.get("/gate").text
    page = me.get(f"/gate/{RUN}").text
    assert "Stages by segment" in page
    assert "may replace the baseline" in page or "pass" in page


def test_another_tenants_runs_and_replays_do_not_exist(store: Store, tokens: Path) -> None:
    """Neither in the list, nor by their names, nor as one side of a comparison."""
    ours, rival = client(store, tokens, "acme"), client(store, tokens, "rival")
    assert "rival" not in ours.get("/gate").text
    assert "acme" not in rival.get("/gate").text
    mixed = f"/compare?a={quote('acme before')}&b={quote('rival after')}"
    for path in (*RIVALS, mixed, "/compare", "/gate/0199"):
        assert ours.get(path).status_code == 404
    assert ours.get(COMPARED).status_code == 200
    assert rival.get(RIVALS[0]).status_code == 200


def test_other_services_runs_crowd_none_out(tmp_path: Path, tokens: Path) -> None:
    """A tenant's list holds its own newest runs, however many newer ones others have."""
    with Store.open(f"sqlite:///{tmp_path / 'runs.db'}") as store:
        store.add_gate_run(GateRun("ours", "acme/tried", 1, "pass", "a", "b"), b"{}")
        for number in range(1_000):
            store.add_gate_run(GateRun(f"theirs-{number}", "rival/tried", 2 + number, "pass", "a", "b"), b"{}")
        page = client(store, tokens, "acme").get("/gate").text
    assert 'href="/gate/ours"' in page


def _replay(store: Store, name: str, service: str, at: int) -> None:
    """One question of it."""
    attributes = {"ragtrace.replay.run": name, "ragtrace.replay.question": "q"}
    chunk = PackedChunk(chunk_id="c", position=1, text="Theft is paid.")
    record = RequestRecord(
        request_id=f"{service}-{name}",
        service=service,
        started_at=at,
        ended_at=at + 1,
        query=Query(original="Is theft paid?"),
        attributes=attributes,
        stages=(PackRun(packing=Packing(chunks=(chunk,))), GenerateRun(generation=Generation(answer=f"At {at}."))),
    )
    store.write([record])


def test_replays_are_offered_by_service_and_by_time(tmp_path: Path) -> None:
    """The newest two are chosen; what is offered can be compared, also a name with two spaces, or of two services."""
    at = 1_760_000_000_000_000_000
    with Store.open(f"sqlite:///{tmp_path / 'replays.db'}") as store:
        for place, (name, service) in enumerate(
            [("z  first", "one"), ("a\x1blater", "one"), ("b", "two"), ("z  first", "two"), ("alone", "three")]
        ):
            _replay(store, name, service, at + place * 1_000)
        worker.run(store)
        me = client(store)
        page = me.get("/gate").text
        forms = re.findall(r"<form method=\"get\" action=\"/compare\".*?</form>", page, flags=re.DOTALL)
        offered = [re.findall(r'<option value="([^"]*)"( selected)?', form) for form in forms]
        services = [re.findall(r'name="service" value="([^"]*)"', form)[0] for form in forms]
        assert services == ["two", "one"]
        chosen = [(next(name for name, is_second in each if is_second), each[0][0]) for each in offered]
        for service, (earlier, later) in zip(services, chosen, strict=True):
            answer = me.get("/compare", params={"service": service, "a": earlier, "b": later})
            assert answer.status_code == 200, answer.text
            assert "Is theft paid?" in answer.text
        assert chosen[0] == ("b", "z  first")
        assert chosen[1][0] == "z  first"
        mixed = me.get("/compare", params={"a": "b", "b": "alone"})
    assert mixed.status_code == 400
    assert "not of one service" in mixed.text


@pytest.mark.parametrize("name", ["file.jsonl", "sqlite:////etc/x.db", "acme before&service:rival/tried", "../x"])
def test_a_side_is_the_name_of_a_replay_and_nothing_else(store: Store, name: str) -> None:
    """No file and no other store is opened."""
    assert client(store).get(f"/compare?a={quote('acme before')}&b={quote(name, safe='')}").status_code == 404


def test_what_means_nothing_is_said_to(store: Store) -> None:
    """The same replay twice, a change that there is none of, replays without a common question."""
    me = client(store)
    one = quote("acme before")
    assert me.get(f"/compare?a={one}&b={one}").status_code == 400
    assert me.get(f"{COMPARED}&only=prettier").status_code == 400
    assert me.get(f"{COMPARED}&only=worse").status_code == 200


def test_a_report_that_names_a_file_opens_none(store: Store, tmp_path: Path) -> None:
    """Whoever may store a run does not so choose what the server of the pages reads."""
    secret = tmp_path / "secret.jsonl"
    secret.write_text("{", encoding="utf-8")
    report = passed()
    side = msgspec.structs.replace(report.baseline, name=str(secret))
    made = msgspec.structs.replace(report, run_id="filed", service=SERVICE, baseline=side)
    run = GateRun("filed", SERVICE, 1, "pass", "a", "b")
    store.add_gate_run(run, dumps(msgspec.to_builtins(made)).encode())
    answer = client(store).get("/gate/filed")
    assert answer.status_code == 200
    assert "cannot be read" not in answer.text


@pytest.mark.parametrize(("baseline", "is_here"), [("replay:acme before", True), ("store:other.db", False)])
def test_a_report_leads_to_requests_of_this_store_alone(store: Store, baseline: str, is_here: bool) -> None:
    """Of another store the command stands there that shows one in a terminal."""
    report = blocked()
    known = {one for each in report.breaks for pair in each.requests for one in pair if one}
    assert known
    sides = {
        "baseline": msgspec.structs.replace(report.baseline, name=baseline),
        "candidate": msgspec.structs.replace(report.candidate, name="replay:acme after"),
    }
    made = msgspec.structs.replace(report, run_id=baseline, service="acme/tried", **sides)
    run = GateRun(baseline, "acme/tried", 1, "block", "a", "b")
    store.add_gate_run(run, dumps(msgspec.to_builtins(made)).encode())
    page = client(store).get(f"/gate/{quote(baseline, safe='')}").text
    links = set(re.findall(r'href="/requests/([^"?]+)"', page))
    assert links == (known if is_here else set())
    assert ("<code>ragtrace show" in page) is not is_here


def test_a_report_shows_no_text_of_another_service(store: Store) -> None:
    """Whoever may store a run does not so choose whose requests a reader of this service sees."""
    report = passed()
    pairs = tuple(ChangedPair(baseline="", candidate=id_, before=1.0, after=0.0) for id_ in ("acme-1-1", OTHER))
    cell = CellChanges(metric="answer_coverage", stage=None, segment=None, pairs=pairs)
    sides = {
        "baseline": msgspec.structs.replace(report.baseline, name="replay:acme before"),
        "candidate": msgspec.structs.replace(report.candidate, name="replay:acme after"),
    }
    made = msgspec.structs.replace(report, run_id="mixed", service="acme/tried", changes=(cell,), **sides)
    store.add_gate_run(GateRun("mixed", "acme/tried", 1, "pass", "a", "b"), dumps(msgspec.to_builtins(made)).encode())
    page = client(store).get("/gate/mixed").text
    assert "case 1, to acme" in page
    assert "4711" in SECRET
    assert "4711" not in page


def test_a_signed_out_session_is_over_for_every_copy(store: Store, tokens: Path) -> None:
    """The cookie is gone, and good for nothing; a form of another site ends none."""
    visitor = client(store, tokens)
    visitor.post("/signin", data={"token": TOKENS["acme"]})
    copy = {"Cookie": f"ragtrace={visitor.cookies['ragtrace']}"}
    assert "Sign out" in visitor.get("/gate").text
    assert visitor.post("/signout", headers={"Origin": "https://evil.example"}).status_code == 403
    assert visitor.get("/gate").status_code == 200
    ended = visitor.post("/signout")
    assert (ended.status_code, ended.headers["location"]) == (303, "/signin")
    assert client(store, tokens).get("/gate", headers=copy).status_code == 401
    assert "Sign out" not in client(store).get("/gate").text


def test_sessions_that_end_at_once_all_end(tokens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is lost, however slowly the list of ended ones is written."""
    sessions = Sessions(People(tokens))
    cookies = [cookie for token in TOKENS.values() if (cookie := sessions.begin(token))]
    real = time.time

    def slow() -> float:
        time.sleep(0.001)
        return real()

    monkeypatch.setattr("ragtrace.web._access.time.time", slow)
    for _ in range(5):
        with ThreadPoolExecutor(len(cookies)) as threads:
            list(threads.map(sessions.end, cookies))
        assert [sessions.viewer(None, cookie) for cookie in cookies] == [None] * len(TOKENS)
        sessions = Sessions(People(tokens))
        cookies = [cookie for token in TOKENS.values() if (cookie := sessions.begin(token))]


def test_a_damaged_record_hides_no_other(tmp_path: Path) -> None:
    """The list shows its row without words, and its own pages say that it is damaged; the others are whole."""
    url = store_of(tmp_path)
    with closing(sqlite3.connect(tmp_path / "pages.db")) as database, database:
        database.execute("UPDATE request SET payload = x'00' WHERE request_id = ?", [ALTERED])
    with Store.open(url) as store:
        answer = client(store).get(f"/requests?service={quote(SERVICE)}")
        for path in ("/requests/", "/testcases/"):
            own = client(store).get(f"{path}{quote(ALTERED, safe='')}")
            assert (own.status_code, "ragtrace db check" in own.text) == (500, True)
        for path in (f"/?service={quote(SERVICE)}", f"/requests/{quote(LOST, safe='')}"):
            assert client(store).get(path).status_code == 200
        triage = client(store).get(f"/triage?service={quote(SERVICE)}")
        assert triage.status_code == 200
    assert answer.status_code == 200
    assert "its record cannot be read" in answer.text
    assert quote(LOST, safe="") in answer.text
    assert "What is the most paid" in answer.text


def test_the_overview_says_what_the_calibration_promises(store: Store, tokens: Path) -> None:
    """To whose service it is."""
    faults = (FaultFigures("retrieval", 10, 7, 1, 2),)
    own = ServiceCalibration(
        calibration_id="c", service=SERVICE, judge="j", blamed=0.01, blamed_high=0.03, faults=faults
    )
    store.propose_calibration(own)
    store.accept_calibration("c", 1)
    page = client(store, tokens, "acme").get(f"/?service={quote(SERVICE)}").text
    assert "On this service, by words: names 70% of 10 injected losses" in page
    assert EVIL not in page
