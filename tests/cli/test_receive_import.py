"""`ragtrace import` and `ragtrace gold import`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragtrace.cli import app
from ragtrace.store import ChunkSeen, Store
from ragtrace.types import Query, RequestRecord, encode_record, replace

RECORDED = Path(__file__).parents[1] / "receive" / "recorded"
ROW = {
    "question": "Who won?",
    "contexts": ["Ann won the race."],
    "answer": "Ann won.",
    "reference_contexts": ["Ann won the race."],
}


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store that is not there yet."""
    return f"sqlite:///{tmp_path}/imported.db"


def run(*arguments: str) -> tuple[int, str, BaseException | None]:
    """Exit code, what was printed, and what was raised."""
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output, result.exception


def test_spans(url: str) -> None:
    """Spans of another tool become requests, once, however often they are imported."""
    for _ in range(2):
        code, output, _ = run("import", str(RECORDED / "openinference.json"), "--store", url)
        assert code == 0
        assert "2 requests, read as spans" in output
    with Store.open(url) as store:
        assert len(store.find_requests(service="tariff-assistant")) == 2
        assert store.queue_depth()["pending"] == 2


def test_evaluations(url: str, tmp_path: Path) -> None:
    """An evaluation set brings its gold sets along."""
    path = tmp_path / "set.json"
    path.write_text(json.dumps([ROW]), encoding="utf-8")
    code, output, _ = run("import", str(path), "--service", "race", "--store", url, "--json")

    assert code == 0
    assert json.loads(output) == {
        str(path): {
            "kind": "evaluations",
            "requests": 1,
            "golds": 1,
            "rejected": [],
            "read": {name: [name] for name in ("question", "contexts", "answer", "reference_contexts")},
            "left_out": [],
            "warnings": [],
        }
    }
    with Store.open(url) as store:
        assert store.find_golds([("race", "Who won?")])


def test_it_says_which_columns_it_read_and_which_it_left_out(url: str, tmp_path: Path) -> None:
    """Numbered ones by the first and the last; a request with fewer contexts than the others is named."""
    lines = ["Question," + ",".join(f"Context_{number}" for number in range(1, 10)) + ",response,ground_truth,score_a"]
    for asked in ("Who won?", "Who lost?", "Who ran?"):
        texts = [f"Runner {number} ran in race {number}." for number in range(1, 10)]
        texts[4:] = texts[4:] if asked != "Who lost?" else [""] * 5
        lines.append(f"{asked},{','.join(texts)},Ann.,Bob.,0.5")
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    code, output, _ = run("import", str(path), "--store", url)

    assert code == 0
    assert output.splitlines() == [
        f"{path}: 3 requests, read as evaluations",
        "  read: question from Question, contexts from Context_1 … Context_9, answer from response",
        "  columns left out: ground_truth, score_a",
        "  warning: row 2 has 4 contexts, where 2 of 3 rows have 9",
    ]
    with Store.open(url) as store:
        found = store.get_records(row.request_id for row in store.find_requests())
    assert sorted(len(record.candidates) for record in found.values()) == [4, 9, 9]


CITES: dict[str, dict[str, bool]] = {"old": {}, "not": {"cites": False}, "does": {"cites": True}}


@pytest.mark.parametrize(("option", "variable"), [("--no-cites", ""), ("", "false")])
def test_answers_that_are_not_meant_to_cite(
    url: str, tmp_path: Path, option: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluation sets and spans alike, said by the option or the environment; the option goes before."""
    path = tmp_path / "set.json"
    path.write_text(json.dumps([ROW]), encoding="utf-8")
    monkeypatch.setenv("RAGTRACE_CITES", variable)
    files = [str(path), str(RECORDED / "openinference.json")]
    run("import", *files, *filter(None, [option]), "--store", url)
    path.write_text(json.dumps([{**ROW, "question": "Who lost?"}]), encoding="utf-8")
    run("import", str(path), "--cites", "--store", url)
    monkeypatch.delenv("RAGTRACE_CITES")
    path.write_text(json.dumps([{**ROW, "question": "Who ran?"}]), encoding="utf-8")
    run("import", str(path), "--store", url)

    with Store.open(url) as store:
        found = store.get_records(row.request_id for row in store.find_requests())
    said = {"Who lost?": True, "Who ran?": None}
    assert len(found) == 5
    assert {each.query.original: each.cites for each in found.values()}.items() >= said.items()
    assert [each.cites for each in found.values() if each.query.original not in said] == [False] * 3


def test_what_a_record_says_of_its_citations_stays(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the import says nothing; a record of version 7, which has no such field, says nothing either."""
    monkeypatch.delenv("RAGTRACE_CITES", raising=False)
    path = tmp_path / "records.jsonl"
    lines = [{"request_id": name, "service": "s", "stages": [], **said} for name, said in CITES.items()]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    run("import", str(path), "--store", url)
    with Store.open(url) as store:
        found = store.get_records(CITES)
    assert {name: record.cites for name, record in found.items()} == {"old": None, "not": False, "does": True}


def test_evaluations_of_another_time(url: str, tmp_path: Path) -> None:
    """A file that was copied, or checked out anew, adds the rows that are not stored yet."""
    path = tmp_path / "set.json"
    for rows, time in (([ROW], 10**9), ([ROW, {**ROW, "question": "Who lost?"}], 10**9 + 1)):
        path.write_text(json.dumps(rows), encoding="utf-8")
        os.utime(path, (time, time))
        run("import", str(path), "--store", url)

    with Store.open(url) as store:
        assert [row.started_at // 10**9 for row in store.find_requests()] == [10**9 + 1, 10**9]


def test_records_of_a_wrong_clock(url: str, tmp_path: Path) -> None:
    """They are known by what they say, so that the same file again changes nothing; the odd numbers are counted."""
    path = tmp_path / "records.jsonl"
    odd = [(0, 0, 1.0), (2**63 + 5, 2**63 + 7, 5e-324), (10**18, 10**9, 0.5), (10**18 + 1, 2**64 - 1, 1.0)]
    records = [
        RequestRecord(request_id=f"r{place}", service="s", started_at=start, ended_at=end, head_probability=kept)
        for place, (start, end, kept) in enumerate(odd)
    ]
    path.write_bytes(b"\n".join(map(encode_record, records)))
    for _ in range(2):
        run("import", str(path), "--kind", "records", "--store", url)

    with Store.open(url) as store:
        stored = store.get_records(record.request_id for record in records)
        assert len(store.find_requests()) == len(stored) == 4
        counted = {each.kind: each.count for each in store.faults() if each.where == "bounds"}
    assert counted == {"started_at": 2, "ended_at": 3, "head_probability": 1}
    assert [stored[f"r{place}"].stated.get("started_at") for place in range(4)] == [0, 2**63 + 5, None, None]


def test_records(url: str, tmp_path: Path) -> None:
    """ragtrace's own records, one in each line."""
    path = tmp_path / "records.jsonl"
    record = RequestRecord(request_id="r1", service="assistant")
    path.write_bytes(encode_record(record) + b"\n\n")
    code, _, _ = run("import", str(path), "--kind", "records", "--store", url)

    assert code == 0
    with Store.open(url) as store:
        assert store.get_record("r1") is not None


def test_golds(url: str, tmp_path: Path) -> None:
    """Gold sets of a service."""
    path = tmp_path / "gold.jsonl"
    path.write_text(json.dumps({"question": "Who won?", "chunk_ids": ["d1"]}) + "\n", encoding="utf-8")
    code, output, _ = run("gold", "import", str(path), "--service", "race", "--store", url)

    assert code == 0
    assert "1 gold set of service race" in output
    with Store.open(url) as store:
        assert store.find_golds([("race", "Who won?")])[("race", "Who won?")].chunk_ids == ("d1",)


def test_golds_are_listed_and_forgotten(url: str, tmp_path: Path) -> None:
    """By service and question; what was forgotten is none any more, and asking again is told."""
    path = tmp_path / "gold.jsonl"
    rows = [
        {"question": "Who won?", "chunk_ids": ["d1", "d2"], "facets": [{"kind": "time", "value": "2024"}]},
        {"question": "Who slept?", "chunk_ids": []},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run("gold", "import", str(path), "--service", "race", "--store", url)
    _, shown, _ = run("gold", "list", "--store", url)
    assert [line.split("  ")[0] for line in shown.splitlines()] == ["service", "race", "race"]
    assert "no chunk answers" in shown
    assert "d1, d2, time=2024" in shown
    _, shown, _ = run("gold", "list", "--service", "race", "--limit", "1", "--store", url, "--json")
    assert [one["question"] for one in json.loads(shown)["golds"]] == ["Who slept?"]
    code, said, _ = run("gold", "forget", "who  WON?", "--service", "race", "--store", url)
    assert (code, "ragtrace analyze --again --service race" in said) == (0, True)
    assert "Who won?" not in run("gold", "list", "--store", url)[1]
    _, _, raised = run("gold", "forget", "Who won?", "--service", "race", "--store", url)
    assert "ragtrace gold list --service race" in str(raised)
    assert "no gold set of service 'walk' is stored" in run("gold", "list", "--service", "walk", "--store", url)[1]


def test_slips_in_golds_are_told(url: str, tmp_path: Path) -> None:
    """Questions that nobody asked, ids that no request got where that is known, and how to judge what is stored."""
    path = tmp_path / "gold.csv"
    path.write_text("question,chunk_ids\nWho won?,d1\nwho  lost?,d2\nWho ran?,d3\n", encoding="utf-8")
    record = RequestRecord(request_id="r1", service="race", query=Query(original="Who won?"))
    with Store.open(url) as store:
        store.write([record, replace(record, request_id="r2", query=Query(original="Who lost?"))])
    code, told, _ = run("gold", "import", str(path), "--service", "race", "--store", url)
    assert code == 0
    assert "ragtrace analyze --again --service race judges the stored requests by them" in told
    assert "no stored request asked 'Who ran?'\n" in told
    assert "got d" not in told  # no index version, so no chunk is known

    with Store.open(url) as store:
        store.write([replace(record, request_id="r3", versions={"index": "1"})])
        store.note_chunks([ChunkSeen("race", "1", "d1", "h")])
    _, told, _ = run("gold", "import", str(path), "--service", "race", "--store", url)
    assert "no request of it got d2, d3; where an id is spelled wrong, retrieval is called broken" in told


def test_golds_of_a_service_without_requests(url: str, tmp_path: Path) -> None:
    """They are stored, with a warning that names the services that have requests; ids stand between semicolons or
    white space."""
    path = tmp_path / "gold.csv"
    path.write_text("question,chunk_ids\nWho won?,d1; d2\nWho lost?,d3 d4\n", encoding="utf-8")
    code, told, _ = run("gold", "import", str(path), "--service", "race", "--store", url)
    assert code == 0
    assert "warning" not in told  # a store without requests: nothing to compare with

    with Store.open(url) as store:
        store.write([RequestRecord(request_id="r1", service="assistant")])
        golds = store.find_golds([("race", "Who won?"), ("race", "Who lost?")])
    assert [golds["race", asked].chunk_ids for asked in ("Who won?", "Who lost?")] == [("d1", "d2"), ("d3", "d4")]

    code, told, _ = run("gold", "import", str(path), "--service", "race", "--store", url)
    assert code == 0
    assert "no request of service 'race' is stored; the store has 'assistant': name it by --service" in told


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["import", "nowhere.json"], "nowhere.json cannot be read: No such file or directory"),
        (["import", "nowhere.json", "--kind", "traces"], "--kind is 'traces'; it can be records, spans, evaluations"),
        (["import", "nowhere.json", "--column", "answer"], "--column is 'answer'; give WHAT=NAME"),
        (
            ["import", "nowhere.json", "--column", "contexts=a", "--column", "contexts=b"],
            "--column contexts is given twice, as 'a' and 'b'; give one",
        ),
        (["gold", "import", "nowhere.json"], "nowhere.json cannot be read"),
    ],
)
def test_bad_input(url: str, arguments: list[str], reason: str) -> None:
    """One line that names the value and the remedy."""
    _, _, error = run(*arguments, "--store", url)

    assert reason in str(error)


def test_content_as_configured(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The capture policy holds for what is imported, too."""
    monkeypatch.setenv("RAGTRACE_CAPTURE_CONTENT", "hash")
    run("import", str(RECORDED / "openinference.json"), "--store", url)
    with Store.open(url) as store:
        record = store.get_record(store.find_requests()[0].request_id)

    assert record is not None
    assert all(each.text is None and each.content_hash for each in record.candidates)


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        ("notes.txt", b"Who won, and when?\n", "holds neither records, spans nor an evaluation set; give JSON"),
        ("set.xlsx", b"PK\x03\x04\0\0", "holds neither records, spans nor an evaluation set; give JSON"),
        ("set.csv", "question;answer\n".encode("utf-16"), "is no table in UTF-8"),
        ("set.csv", b"question\n", None),
        ("set.json", b"\n", "is empty; give JSON"),
    ],
)
def test_unknown_content(url: str, tmp_path: Path, name: str, body: bytes, reason: str | None) -> None:
    """A file that is nothing of what is read is not called broken spans; a table is a table by its name."""
    path = tmp_path / name
    path.write_bytes(body)
    _, output, error = run("import", str(path), "--store", url)

    assert reason in str(error) if reason else output == f"{path}: 0 requests, read as evaluations\n"


def test_counts_one(url: str, tmp_path: Path) -> None:
    """One request, not one requests."""
    path = tmp_path / "set.json"
    path.write_text(json.dumps(ROW), encoding="utf-8")

    said = run("import", str(path), "--store", url)[1]
    assert said.splitlines()[0] == f"{path}: 1 request and 1 gold set, read as evaluations"
