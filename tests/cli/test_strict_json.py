"""`--json` of every verb is JSON by the letter of its standard, whatever stands in the store."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import jsonschema
import msgspec
import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from bench.traffic import MINUTE, SERVICE, Break, Traffic, store_traffic
from ragtrace import installation
from ragtrace.cli import app
from ragtrace.cli.documents import DOCUMENTS
from ragtrace.errors import RagtraceError
from ragtrace.safe_text import dumps
from ragtrace.store import ServiceCalibration, Store
from ragtrace.triage import Window
from ragtrace.triage.labels import draw_labels, read_labels
from ragtrace.types import Feedback, SourceReport
from tests.analyze.alignment_report.explained import explain, request
from tests.gate import reported
from tests.triage.conftest import END, START
from tests.triage.test_alerts import alert, payload

NAN, INFINITE = float("nan"), float("inf")
SINCE, HALF, UNTIL = "2023-11-14T18:13:20Z", "2023-11-14T20:13:20Z", "2023-11-14T22:13:20Z"
WINDOW: Final = ("--service", SERVICE, "--since", HALF, "--until", UNTIL)
SIDES: Final = (f"window:{SINCE}..{HALF}", f"window:{HALF}..{UNTIL}")
APPLICATION: Final = """
import ragtrace
from ragtrace.probe import CallableProbe

@ragtrace.retrieve
def search(query):
    return [{"id": "c1", "text": "Theft is covered.", "score": float("nan")}, {"id": "c2", "score": float("inf")}]

@ragtrace.generate
def answer(question, hits=None):
    return "Theft is covered [1]." if search(question) else ""

probe = CallableProbe(search=lambda query, depth: search(query), contains=lambda chunk: True)
"""


def _no_number(name: str) -> Any:
    raise AssertionError(f"{name} is no JSON")


def strictly(text: str) -> Any:
    """The value of a JSON text; NaN, Infinity and a second document are errors."""
    return json.loads(text, parse_constant=_no_number)


def _nothing_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo in which nothing was affected, so that every share is undefined."""
    result = SimpleNamespace(to_json=lambda: {"scenarios": [{"first_stage_accuracy": NAN, "lift": INFINITE}]})
    monkeypatch.setattr("ragtrace.demo.runner.run", lambda *_, **__: result)


def _nothing_to_train(monkeypatch: pytest.MonkeyPatch) -> None:
    """A classifier of claims that were all of one kind."""
    fitted = SimpleNamespace(id="c", ece=NAN, claims=0, save=lambda path: None)
    verifier = SimpleNamespace(calibration=fitted, name="m", digest="d")
    report = {"model": "m", "weights": "d", "calibration": None, "held_out": [{"auroc": NAN}]}
    monkeypatch.setattr("ragtrace.engines.verifier_training.train", lambda *_, **__: None)
    monkeypatch.setattr("ragtrace.engines.encoder.packaged_encoder", lambda: "m")
    monkeypatch.setattr("ragtrace.engines.verifier_examples.read_examples", lambda *_: [])
    monkeypatch.setattr("ragtrace.engines.verifier_evaluation.some", lambda *_: [])
    monkeypatch.setattr("ragtrace.engines.verifier_evaluation.calibrate", lambda *_, **__: fitted)
    monkeypatch.setattr("ragtrace.engines.verifier_evaluation.evaluate", lambda *_, **__: [])
    monkeypatch.setattr("ragtrace.engines.verifier_evaluation.report", lambda *_: report)
    monkeypatch.setattr("ragtrace.cli.verifier._loaded", lambda *_, **__: verifier)


def _words_grade(monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that needs no model."""
    judge = SimpleNamespace(name="words", digest="d", relevant=lambda pairs: [0.5 for _ in pairs])
    monkeypatch.setattr("ragtrace.cli.grade._relevance", lambda _: judge)


def _nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that labels decided, with a mean that is no number."""

    def decide(task: Any, *_: object) -> Any:
        return msgspec.structs.replace(task.report, cells=(reported.cell(baseline=NAN),))

    task = lambda report, _: SimpleNamespace(report=report, labels=lambda store: [])  # noqa: E731 - a stub of one line
    monkeypatch.setattr("ragtrace.gate.labels.find_task", task)
    monkeypatch.setattr("ragtrace.gate.labels.decide_with_labels", decide)


STUBS: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "demo": _nothing_to_count,
    "grade request": _words_grade,
    "grade report": _words_grade,
    "grade entities": _words_grade,
    "gate label": _nobody_to_ask,
    "verifier train": _nothing_to_train,
    "verifier calibrate": _nothing_to_train,
    "verifier evaluate": _nothing_to_train,
}
"""What takes minutes is replaced by an outcome that is undefined; what is printed of it is the verb's own."""

ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "demo": (),
    "analyze": ("--limit", "5"),
    "build": (),
    "show": ("{id}",),
    "probe": ("{id}", "--probe", "odd_application:probe"),
    "explain": ("r1",),
    "drift": (),
    "replay": ("--questions", "questions.txt", "--pipeline", "odd_application:answer", "--name", "a"),
    "import": ("records.jsonl",),
    "doctor": (),
    "triage request": ("{id}",),
    "triage segment": WINDOW,
    "triage alert": ("alert.json",),
    "triage judge": (),
    "gate run": ("--baseline", SIDES[0], "--candidate", SIDES[1], "--service", SERVICE),
    "gate selfcheck": ("--baseline", SIDES[0], "--runs", "20", "--service", SERVICE),
    "gate live": (
        "--baseline",
        "packer=p-1",
        "--candidate",
        "packer=packer-bad",
        "--service",
        SERVICE,
        "--since",
        SINCE,
        "--until",
        UNTIL,
    ),
    "gate compare": ("main.jsonl", "other.jsonl"),
    "gate label": ("{run}",),
    "gate list": (),
    "gate show": ("{run}",),
    "calibrate": ("--list",),
    "label draw": (*WINDOW, "--labels", "20"),
    "label extend": ("90",),
    "label list": (),
    "label import": ("labels.jsonl", "--labeler", "ann"),
    "label agreement": (),
    "label rates": (),
    "align report": (),
    "exposure report": WINDOW,
    "exposure experiment": (
        "--questions",
        "towns.jsonl",
        "--pipeline",
        "tests.analyze.test_exposure_experiment:answer",
        "--retriever",
        "tests.analyze.test_exposure_experiment:retrieve",
        "--samples",
        "3",
    ),
    "grade request": ("r1", "--judge", "relevant=words"),
    "grade report": WINDOW,
    "gold list": (),
    "grade entities": WINDOW,
    "release list": (),
    "source list": (),
    "citing list": (),
    "verifier train": ("--data", ".", "--out", "."),
    "verifier calibrate": (".", "--data", "."),
    "verifier evaluate": (".", "--data", "."),
    "jobs list": ("--state", "done"),
    "db upgrade": (),
    "db prune": ("--keep", "all=30d", "--dry-run"),
    "db vacuum": ("--dry-run",),
    "db erase": ("--tenant", "tenant-1", "--dry-run"),
    "db check": (),
    "db search": (),
    "db audit": (),
    "totals list": (),
    "totals forget": ("--service", SERVICE, "--dry-run"),
}


def _verbs(command: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """The verbs that have `--json`, from the parser itself."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from _verbs(inner, (*path, name))
    if any("--json" in parameter.opts for parameter in command.params):
        yield " ".join(path)


VERBS: Final = sorted(_verbs(get_command(app)))


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store as an older version may have left it: weights and scores without bounds, and a kept run of the gate."""
    file = tmp_path_factory.mktemp("odd") / "odd.db"
    with Store.open(f"sqlite:///{file}") as store:
        store_traffic(store, Traffic(240, START, END, (Break("ranking", 0.6, 0.5, component="packer"),)))
        explain(store, request("r1", started_at=START + MINUTE))
        first = store.find_request_ids("", 1)[0]
        store.write(
            [
                Feedback(request_id=first, score=-1.0, created_at=1),
                SourceReport(service=SERVICE, source="wiki", reported_at=END, delay_seconds=1e308),
            ]
        )
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE request SET head_probability = 5e-324 WHERE rowid % 3 = 0")
        connection.execute("UPDATE request SET head_probability = 9e999 WHERE rowid % 7 = 0")
        connection.execute("UPDATE source_report SET delay_seconds = 9e999")
        connection.execute("UPDATE feedback SET score = 9e999")
    connection.close()
    with Store.open(f"sqlite:///{file}") as store:
        drawing = draw_labels(store, SERVICE, Window(START, END, START), 120)
        drawn = [each.request_id for each in store.drawn_requests(drawing.drawing_id)]
        rows = "".join(json.dumps({"request_id": each, "first_broken": "none"}) + "\n" for each in drawn)
        moved: dict[str, float | None] = {"ranking": NAN}
        store.propose_calibration(
            ServiceCalibration(
                calibration_id="c", service=SERVICE, judge="j", blamed=NAN, blamed_high=INFINITE, raised=moved
            )
        )
        for labeler in ("ann", "bob"):
            store.put_labels(read_labels(rows, labeler=labeler))
    return file


@pytest.fixture
def here(odd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a copy of that store, and what verbs are given."""
    shutil.copy(odd, tmp_path / "odd.db")
    (tmp_path / "odd_application.py").write_text(APPLICATION)
    (tmp_path / "questions.txt").write_text("Is theft covered?\n")
    town = {"question": "Which harbor opened in 1900?", "answer": "The harbor of Oslo opened."}
    (tmp_path / "towns.jsonl").write_text(json.dumps(town))
    (tmp_path / "alert.json").write_bytes(payload(alert(segment="limit")))
    (tmp_path / "labels.jsonl").write_text('{"request_id": "r1", "first_broken": "ranking"}\n')
    (tmp_path / "records.jsonl").write_text(
        '{"request_id": "new", "service": "s", "stages": [], "head_probability": 5e-324}\n'
    )
    for name in ("main", "other"):
        asked = {"request_id": name, "service": "s", "query": {"original": "Is theft covered?"}}
        (tmp_path / f"{name}.jsonl").write_text(f"{json.dumps(asked)}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "odd_application", raising=False)
    return tmp_path


def _run(verb: str, url: str, **places: str) -> Result:
    given = [word.format(**places) for word in ARGUMENTS[verb]]
    store = [] if verb.startswith(("verifier", "exposure experiment")) else ["--store", url]
    return CliRunner().invoke(app, [*verb.split(), *given, *store, "--json"])


def test_every_verb_is_tried() -> None:
    """A verb that gets `--json` gets its arguments here and its document in the schema, or this fails."""
    assert sorted(ARGUMENTS) == sorted(DOCUMENTS) == VERBS


def _closed(part: Any) -> Any:
    """The schema with nothing beside what it names."""
    if isinstance(part, list):
        return list(map(_closed, part))
    if not isinstance(part, dict):
        return part
    changed = {key: _closed(value) for key, value in part.items()}
    is_object = changed.get("type") == "object" and "properties" in changed
    return changed | {"additionalProperties": False} if is_object and "additionalProperties" not in changed else changed


@cache
def _validator(verb: str) -> jsonschema.Draft202012Validator:
    root = installation.checkout()
    assert root is not None
    whole = json.loads((root / "docs/reference/cli.schema.json").read_text("utf-8"))
    definitions = _closed(whole["$defs"])
    return jsonschema.Draft202012Validator({"$defs": definitions, **_closed(whole["properties"][verb])})


@pytest.mark.parametrize("verb", VERBS)
def test_whatever_the_store_holds(verb: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny probabilities, infinite scores and delays: each verb prints one document that a strict parser reads, and
    that has what the schema says and nothing else."""
    if verb in STUBS:
        STUBS[verb](monkeypatch)
    url = f"sqlite:///{here}/odd.db"
    with Store.open(url) as store:
        first = store.find_request_ids("", 1)[0]
    run = ""
    if "{run}" in ARGUMENTS[verb]:
        _run("gate run", url)
        run = strictly(_run("gate list", url).stdout)["runs"][0]["run_id"]

    done = _run(verb, url, id=first, run=run)

    assert not isinstance(done.exception, Exception), done.exception
    said = strictly(done.stdout)
    assert said is not None
    _validator(verb).validate(said)
    assert not _validator(verb).is_valid({"another": said})


def test_of_an_empty_store(here: Path) -> None:
    """Without a request a verb prints such a document, or says in an error what is missing."""
    url = f"sqlite:///{here}/empty.db"
    Store.open(url).close()

    for verb in sorted(set(VERBS) - STUBS.keys() - {"doctor"}, key=lambda each: (each in ("import", "replay"), each)):
        done = _run(verb, url, id="r", run="r")
        if isinstance(done.exception, RagtraceError):
            assert done.stdout == "", verb
        else:
            assert not isinstance(done.exception, Exception), (verb, done.exception)
            assert strictly(done.stdout) is not None, verb


def test_what_json_lacks_is_null() -> None:
    """At any depth; what can be said is said as it is."""
    said = {"a": [1.5, NAN, (INFINITE, -INFINITE)], "b": {"c": True, "d": None, "e": "NaN"}}
    assert strictly(dumps(said)) == {"a": [1.5, None, [None, None]], "b": {"c": True, "d": None, "e": "NaN"}}
    assert dumps([0.1, NAN], indent=None) == "[0.1,null]"


def test_what_commands_a_terminal_is_escaped() -> None:
    """Escapes, marks of direction and half characters say the same and can be printed anywhere."""
    said = "a\x1b[2J\x9b1m\u202e\ud800 é"
    text = dumps(said)
    assert text == '"a\\u001b[2J\\u009b1m\\u202e\\ud800 é"'
    assert strictly(text) == said
    assert text.encode()
