"""Two tenants use one name for their services: each command that reads or writes by service says and does for one of
them what it would if there were no other.

Every command stands here, so that a new one cannot be forgotten: with how it is called, or as one that asks for no
service.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import promql_parser as promql
import pytest
import sqlalchemy as sa
from typer.main import get_command
from typer.testing import CliRunner

from ragtrace import config
from ragtrace.analyze.worker import run as analyze
from ragtrace.cli import app
from ragtrace.export import exposition
from ragtrace.receive._assembly import Assembler
from ragtrace.receive._otlp import parse_json, split
from ragtrace.record import conventions as names
from ragtrace.store import GateRun, PageJudgment, ServiceCalibration, SpanPart, Store
from ragtrace.store.tables import metadata
from ragtrace.triage import Window
from ragtrace.triage.labels import draw_labels, read_labels
from ragtrace.triage.service import Receiver
from ragtrace.types import Fault, GenerateRun, Generation, Gold, RequestRecord, SourceReport, encode_record
from tests.analyze.alignment_report.explained import explain, request
from tests.dashboards.asked import panels
from tests.dashboards.prometheus_client import PreviewScope
from tests.live.test_hostile_tenant import ANSWER, trace
from tests.triage.test_receiver import post, reports, until

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

NAME, ONE, OTHER = "shop", "a.me", "acme"
"""What both call their service, and the tenants: the first one is a pattern that matches the other."""
SERVICE, THEIRS = f"{ONE}/{NAME}", f"{OTHER}/{NAME}"
AT: Final = 1_700_000_000_000_000_000
MINUTE: Final = 60_000_000_000
REQUESTS: Final = 8
MINUTES: Final = tuple(
    datetime.fromtimestamp((AT + at * MINUTE) / 1e9, UTC).isoformat()[:19] + "Z" for at in (0, 30, 60)
)
BEFORE, AFTER = f"window:{MINUTES[0]}..{MINUTES[1]}", f"window:{MINUTES[1]}..{MINUTES[2]}"
OF = ("--service", SERVICE)
RELEASE = ("--component", "index", "--version", "i-1")

BY_SERVICE: dict[str, list[tuple[str, ...]]] = {
    "analyze": [("--again", *OF, "--json")],
    "show": [(*OF, "--json"), OF],
    "drift": [(*OF, "--json")],
    "postmortem": [(*OF, "--since", MINUTES[0], "--until", MINUTES[2])],
    "replay": [("--questions", "questions.jsonl", "--pipeline", "application:answer", "--name", "n", *OF)],
    "import": [("records.jsonl", *OF)],
    "triage segment": [(*OF, "--since", MINUTES[1], "--until", MINUTES[2], "--json")],
    "triage judge": [(*OF, "--json"), ("right", *OF, "--stage", "retrieval", "--at", MINUTES[1])],
    "gate run": [("--baseline", BEFORE, "--candidate", AFTER, *OF, "--json")],
    "gate selfcheck": [("--baseline", BEFORE, "--runs", "20", *OF, "--json")],
    "gate live": [
        (
            "--baseline",
            "index=i-sound-0",
            "--candidate",
            "index=i-sound-1",
            *OF,
            "--since",
            MINUTES[0],
            "--until",
            MINUTES[2],
        )
    ],
    "gate compare": [(BEFORE, AFTER, *OF, "--json")],
    "gate list": [(*OF, "--json")],
    "calibrate": [(*OF, "--list", "--json"), (*OF, "--list")],
    "label draw": [(*OF, "--since", MINUTES[0], "--until", MINUTES[2], "--labels", "4", "--json")],
    "label list": [(*OF, "--json")],
    "label agreement": [(*OF, "--json")],
    "label rates": [(*OF, "--json")],
    "align report": [(*OF, "--json")],
    "exposure report": [(*OF, "--since", MINUTES[0], "--until", MINUTES[2], "--json")],
    "release record": [(*OF, *RELEASE, "--at", MINUTES[0])],
    "release forget": [(*OF, *RELEASE)],
    "release list": [(*OF, "--json")],
    "source report": [("wiki", *OF, "--documents", "9")],
    "source list": [(*OF, "--json")],
    "source forget": [("wiki", *OF)],
    "grade report": [],  # it asks a model; it reads as `exposure report` does
    "grade entities": [],  # the same
    "citing forget": [(SERVICE,)],
    "totals forget": [(*OF, "--yes", "--json")],
    "gold forget": [("what?", *OF)],
    "gold import": [("golds.jsonl", *OF)],
    "gold list": [OF, (*OF, "--json")],
    "jobs list": [(*OF, "--json")],
    "jobs retry": [("--all", *OF)],
    "jobs drop": [("--all", "--state", "dead", *OF)],
}
"""The commands with a service, and how they are called."""

BY_OTHERS = {
    *(
        "demo",
        "build",
        "export",
        "probe",
        "explain",
        "exposure experiment",
        "serve",
        "web",
        "doctor",
        "citing list",
        "gate show",
        "gate label",
    ),
    "gate policy",
    *("triage request", "triage alert", "triage serve", "alerts render", "alerts check", "alerts test"),
    "grade request",
    *("dashboards render", "verifier train", "verifier calibrate", "verifier evaluate"),
    *("db upgrade", "db prune", "db vacuum", "db erase", "db check", "db audit", "db search"),
    *("totals list", "totals admit"),
    *("label extend", "label ask", "label import", "label export"),
}
"""Those without one: of all services, of a request, or of no store."""

ASKED = RequestRecord(request_id="i", service=NAME, stages=(GenerateRun(generation=Generation(answer="Yes.")),))
APPLICATION = """
import ragtrace

ragtrace.configure(service="shop", store="sqlite:////nowhere/production.db")

@ragtrace.generate
def answer(question):
    return "Theft is covered [1]."
"""


def commands(command: Any, *path: str) -> Iterator[tuple[str, click.Command]]:
    """Every command of the command line, by its words."""
    if not hasattr(command, "commands"):
        yield " ".join(path), command
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, *path, name)


def test_every_command_is_known() -> None:
    """A new command with a service must be called below, and one without must be named."""
    found = dict(commands(get_command(app)))
    of_service = {name for name, each in found.items() if "service" in {param.name for param in each.params}}
    assert of_service == BY_SERVICE.keys()
    assert found.keys() - of_service == BY_OTHERS


class _Numbered:
    """Ids and times of requests."""

    def __init__(self, first: int) -> None:
        self.numbers: Iterator[int] = count(first)
        self.started_at = AT


def fill(store: Store, tenant: str, answer: str, version: str) -> None:
    """An hour of a tenant's requests, as the receiver stores them, and all that an operator says of its service."""
    numbered, service = _Numbered(1), f"{tenant}/{NAME}"
    for place in range(2 * REQUESTS):
        own = {f"{names.VERSION}.index": f"{version}-{place // REQUESTS}", names.REQUEST_SEGMENT: "policy"}
        body = trace(numbered, NAME, answer=answer, own=own, after=place * 60 * MINUTE // (2 * REQUESTS))
        (part,) = split(parse_json(body)[0]).parts
        store.add_spans([SpanPart(tenant, part.trace_id, part.body, part.ended)], now=1.0)
    Assembler(store, config.load(capture_content="full")).step(now=1e9)
    analyze(store)
    store.write([SourceReport(service=service, source="wiki", reported_at=AT, documents=3)])
    store.write([Fault(service=service, where="span", kind="late", message=version, at=AT)])
    store.record_release(service, "index", "i-1", AT + MINUTE)
    store.put_gold([Gold(service=service, question="What?", chunk_ids=(version,))])
    judged: dict[str, Any] = {
        "segment": "policy",
        "stage": "retrieval",
        "severity": "page",
        "judgment": "right",
        "judged_at": AT,
    }
    store.judge_page(PageJudgment(alert_id=f"{tenant}-1", service=service, comment=version, **judged))
    drawing = draw_labels(store, service, Window(AT, AT + 60 * MINUTE, AT), REQUESTS)
    for place, each in enumerate(store.drawn_requests(drawing.drawing_id)):
        said = "none" if place or tenant == ONE else "generation"
        rows = json.dumps({"request_id": each.request_id, "first_broken": said})
        store.put_labels([*read_labels(rows, labeler="ann", now=AT), *read_labels(rows, labeler="bob", now=AT)])
    store.propose_calibration(ServiceCalibration(calibration_id=f"c-{tenant}", service=service, judge="j"))
    store.add_gate_run(GateRun(f"run-{tenant}", service, AT, "pass", BEFORE, AFTER), b"{}")
    explain(store, request(f"{tenant}:explained", service=service, started_at=AT - MINUTE), parts=("generator",))
    with store._database.write() as connection:
        jobs, last = metadata.tables["job"], f"{tenant}:%"
        newest = sa.select(sa.func.max(jobs.c.id)).where(jobs.c.request_id.like(last)).scalar_subquery()
        connection.execute(sa.update(jobs).where(jobs.c.id == newest).values(state="dead", error="boom"))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A store of one tenant alone, and one of both, in which the other one's answers are wrong."""
    folder = tmp_path_factory.mktemp("tenants")
    files = {"alone": folder / "alone.db", "both": folder / "both.db"}
    with Store.open(f"sqlite:///{files['alone']}") as store:
        fill(store, ONE, ANSWER, "i-sound")
        store.compact()
    shutil.copy(files["alone"], files["both"])
    with Store.open(f"sqlite:///{files['both']}") as store:
        fill(store, OTHER, "Policy QT-9 covers 9 kayaks from 1931", "i-evil")
        store.compact()
    return files


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what commands read."""
    (tmp_path / "application.py").write_text(APPLICATION)
    (tmp_path / "questions.jsonl").write_text(json.dumps({"id": "q1", "question": "Is theft covered?"}) + "\n")
    (tmp_path / "golds.jsonl").write_text(json.dumps({"question": "What?", "chunk_ids": ["c9"]}) + "\n")
    (tmp_path / "records.jsonl").write_bytes(encode_record(ASKED) + b"\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def use(filled: dict[str, Path], which: str, here: Path) -> str:
    """The URL of a copy of one of the stores, always at one place."""
    shutil.copy(filled[which], here / "store.db")
    for each in ("store.db-wal", "store.db-shm"):
        (here / each).unlink(missing_ok=True)
    return "sqlite:///store.db"


def of_service(url: str, service: str) -> list[tuple[str, dict[str, Any]]]:
    """All rows that are kept of a service, and of its requests."""
    with Store.open(url) as store, store._database.read() as connection:
        of = metadata.tables["request"]
        ids = set(connection.scalars(sa.select(of.c.request_id).where(of.c.service == service)))
        label = json.dumps(["service", service], separators=(",", ":"))
        return [
            (table.name, dict(row))
            for table in metadata.sorted_tables
            for row in connection.execute(sa.select(table)).mappings()
            if row.get("service") in (service, json.dumps(service))
            or row.get("request_id") in ids
            or label in row.get("labels", "")
        ]


_MOMENT: Final = re.compile(
    r"\d{4}-\d\d-\d\d[T ][\d:.]+(?: ?[A-Z]+)?Z?|\b[0-9a-f]{32}\b|\d+(?:\.\d+)? (?:s|ms|seconds)\b"
)
_VARIES: Final = frozenset(
    {"made_at", "run_id", "drawing_id", "drawn_at", "created_at", "seconds", "judged_at", "computed_at"}
)


def same(said: str) -> Any:
    """What was said, without what differs from run to run."""
    said = _MOMENT.sub("*", said)
    try:
        return _settled(json.loads(said))
    except ValueError:
        return said


def _settled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _settled(each) for name, each in value.items() if name not in _VARIES}
    return [_settled(each) for each in value] if isinstance(value, list) else value


CALLS = [(command, call) for command, calls in BY_SERVICE.items() for call in calls]


@pytest.mark.parametrize(("command", "call"), CALLS, ids=[f"{command} {call[0]}" for command, call in CALLS])
def test_a_command_of_one_service(
    filled: dict[str, Path], here: Path, cli: Cli, command: str, call: tuple[str, ...]
) -> None:
    """It says the same whether there is another tenant with such a service or not, does the same to what is kept, and
    touches nothing of the other one."""
    said, done, theirs = [], [], []
    for which in ("alone", "both"):
        url = use(filled, which, here)
        before = of_service(url, SERVICE), of_service(url, THEIRS)
        words = (*command.split(), *call, "--store", url)
        if command == "replay":  # it configures the process
            output, code = (ended := cli(*words)).stdout, ended.returncode
        else:
            result = CliRunner().invoke(app, words)
            output, code = result.output, result.exit_code
            assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        after = of_service(url, SERVICE), of_service(url, THEIRS)
        said.append((same(output), code))
        done.append([each[0] for each in after[0]])
        theirs.append((before[1], after[1]))
        is_of_it = SERVICE in output or after[0] != before[0] or re.search(f'"requests": (1|{REQUESTS}),', output)
        assert is_of_it, f"it says and does nothing of {SERVICE}: {output}"
    assert said[0] == said[1]
    assert done[0] == done[1]
    assert theirs[0] == ([], [])
    assert theirs[1][0] == theirs[1][1] != []


def test_the_dashboards_of_one_service() -> None:
    """Each query of the dashboards that selects a service asks Prometheus for this one alone."""
    scope = PreviewScope(0, 600, service=re.escape(SERVICE))
    queries = [scope.filled(target.expr, panel) for _, panel in panels() for target in panel.targets]
    matched = [each for query in queries for each in matchers(promql.parse(query)) if each.name == "service"]
    assert len(matched) > 50
    assert all(re.fullmatch(each.value, SERVICE) and not re.fullmatch(each.value, THEIRS) for each in matched)


def matchers(node: Any) -> Iterator[Any]:
    """The matchers of a query."""
    if isinstance(node, promql.VectorSelector):
        yield from node.matchers.matchers
    for name in ("vector_selector", "expr", "lhs", "rhs", "args"):
        below = getattr(node, name, None)
        for each in below if isinstance(below, list) else [below] * (below is not None):
            yield from matchers(each)


def test_the_exposition(filled: dict[str, Path], here: Path) -> None:
    """The route /metrics of the exporter, and `ragtrace export --once`: a service's series are the same."""
    shown = []
    for which in ("alone", "both"):
        with Store.open(use(filled, which, here)) as store:
            lines = exposition(store).decode().splitlines()
        shown.append([each for each in lines if f'service="{SERVICE}"' in each and "_seconds" not in each])
        assert (f'service="{THEIRS}"' in "".join(lines)) == (which == "both")
    assert shown[0] == shown[1] != []


def test_an_alert_of_one_service(filled: dict[str, Path], here: Path) -> None:
    """The route /alerts of triage, and `ragtrace triage alert`: the report is the same."""
    labels = {"alertname": "RagtraceEvidencePage", "severity": "page", "service": SERVICE, "stage": "retrieval"}
    alert = {"status": "firing", "labels": labels, "annotations": {}, "startsAt": MINUTES[2]}
    body = json.dumps({"version": "4", "alerts": [alert]}).encode()
    (here / "alert.json").write_bytes(body)
    said = []
    for which in ("alone", "both"):
        url = use(filled, which, here)
        result = CliRunner().invoke(app, ["triage", "alert", "alert.json", "--store", url, "--json"])
        with Receiver(url, here / which) as receiver:
            assert post(receiver.port, body)[0] == 200
            (path,) = until(partial(reports, here / which))
        said.append((same(result.stdout), same(path.read_text())))
        assert SERVICE in result.stdout
    assert said[0] == said[1]


def test_who_cites(filled: dict[str, Path], here: Path) -> None:
    """What is known of a service is in the list as if the other one's were not."""
    said = []
    for which in ("alone", "both"):
        result = CliRunner().invoke(app, ["citing", "list", "--store", use(filled, which, here)])
        said.append([line for line in result.output.splitlines() if SERVICE in line])
    assert said[0] == said[1] != []
