"""Both sides as they are loaded from stores and files."""

from __future__ import annotations

import json
from math import nan
from pathlib import Path
from typing import Any

import pytest

from ragtrace.analyze import analyze_record
from ragtrace.analyze.worker import run as analyze
from ragtrace.errors import InputError
from ragtrace.gate.populations import Loaded, load
from ragtrace.gate.selection import parse
from ragtrace.store import Finished, Store
from ragtrace.types import GenerateRun, Generation, Gold, VerifiedBy, encode_record, replace, to_builtins
from tests.gate.measured import recorded

METRICS = ("answer_coverage", "candidate_recall", "errors")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with five analyzed requests, two of them of another model."""
    found = f"sqlite:///{tmp_path}/gate.db"
    with Store.open(found) as store:
        store.write([recorded(f"r{at}", versions={"model": "m2" if at > 2 else "m1"}) for at in range(5)])
        analyze(store)
    return found


def _load(*selections: str, store: str | None = None, **options: Any) -> Loaded:
    sides = [parse("--side", each) for each in selections]
    return load(sides, store=store, service=options.pop("service", None), metrics=METRICS, **options)


def _lines(file: Path, *lines: bytes) -> str:
    file.write_bytes(b"\n".join(lines) + b"\n")
    return str(file)


def test_versions_of_a_store_are_the_sides(url: str) -> None:
    """Each side has its requests with their scores; the only service is found by itself."""
    loaded = _load("version:model=m1", "version:model=m2", store=url)
    before, after = loaded.populations
    assert (loaded.service, before.name, len(before), len(after)) == ("shop", "version:model=m1", 3, 2)
    assert list(after.scores["answer_coverage"]) == [1.0, 1.0]
    assert after.versions == {"model": {"m2": 2}}
    assert len(after.analyzer_versions) == 1


def test_a_file_of_records_is_analyzed_here(url: str, tmp_path: Path) -> None:
    """It gives what the worker gives for the same records, and takes an analysis that stands beside a record."""
    records = [recorded(f"r{at}") for at in range(3)]
    analysis = analyze_record(records[2])
    shown = json.dumps({"record": to_builtins(records[2]), "analysis": to_builtins(analysis)}).encode()
    file = _lines(tmp_path / "a.jsonl", encode_record(records[0]), b"", encode_record(records[1]), shown)
    before, after = _load("version:model=m1", file, store=url).populations
    assert list(after.request_ids) == ["r0", "r1", "r2"]
    for metric in METRICS:
        assert list(after.scores[metric]) == pytest.approx(list(before.scores[metric]), nan_ok=True)
    assert (after.questions, after.analyzer_versions) == (before.questions, before.analyzer_versions)


def test_gold_sets_of_the_store_judge_a_file(url: str, tmp_path: Path) -> None:
    """The reference is the oracle's where the store has a gold set for the question."""
    with Store.open(url) as store:
        asked = (recorded(f"r{at}").query.original for at in range(2))
        store.put_gold(Gold(service="shop", question=each, chunk_ids=("hx-2",)) for each in asked)
    file = _lines(tmp_path / "a.jsonl", *(encode_record(recorded(f"r{at}")) for at in range(3)))
    [found] = _load(file, store=url).populations
    assert (list(found.request_ids), found.excluded) == (["r0", "r1"], {"judged without an oracle reference": 1})
    [found] = _load(file, store=url, reference="proxy").populations
    assert list(found.request_ids) == ["r2"]


def test_a_file_can_be_narrowed(tmp_path: Path) -> None:
    """By service, versions, time and replay, as a store can."""
    replayed = {"ragtrace.replay.run": "n", "ragtrace.replay.question": "q"}
    records = [recorded("a"), recorded("b", versions={"model": "m2"}), recorded("c", service="other"),
               recorded("d", attributes=replayed), recorded("e", started_at=1)]  # fmt: skip
    file = _lines(tmp_path / "a.jsonl", *map(encode_record, records))

    def ids(part: str) -> list[str]:
        return list(_load(f"{part}&{file}").populations[0].request_ids)

    assert ids("version:model=m2") == ["b"]
    assert ids("service:other") == ["c"]
    assert ids("replay:n") == ["d"]
    assert ids("window:2000-01-01T00:00Z..") == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "a.jsonl, line 2: "),
        (b"[]", "a.jsonl, line 2: "),
        (b'{"request_id": 1, "service": "s"}', "not a ragtrace record: Expected `str`, got `int`"),
        (b'{"request_id": "b", "service": "s", "head_probability": NaN}', "line 2: "),
        (b'{"request_id": "b", "service": "s", "schema_version": 99}', "has schema version 99"),
        (b"\xff", "line 2: "),
    ],
)
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: bytes, complaint: str) -> None:
    """With its number, and what may stand there."""
    file = _lines(tmp_path / "a.jsonl", encode_record(recorded("a")), line)
    with pytest.raises(InputError) as caught:
        _load(file)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_score_that_is_no_number_is_refused(tmp_path: Path) -> None:
    """An analysis beside a record may be anybody's."""
    record = recorded("a")
    plain = {"record": to_builtins(record), "analysis": to_builtins(analyze_record(record))}
    for score in plain["analysis"]["scores"]:
        score["value"] = 1.5
    file = _lines(tmp_path / "a.jsonl", json.dumps(plain).encode())
    with pytest.raises(
        InputError, match=r"answer_coverage of request 'a' of the baseline is 1.5, and must be from 0 to 1"
    ):
        _load(file)


def test_a_file_with_a_request_twice_is_refused(tmp_path: Path) -> None:
    """As a store cannot hold it twice."""
    file = _lines(tmp_path / "a.jsonl", encode_record(recorded("a")), encode_record(recorded("a")))
    with pytest.raises(InputError, match="holds request 'a' twice"):
        _load(file)


@pytest.mark.parametrize(
    ("selections", "complaint"),
    [
        (
            ("version:model=m1", "version:model=m9"),
            "the candidate 'version:model=m9' selects no request of service shop",
        ),
        (("replay:x", "version:model=m1"), "the baseline 'replay:x' selects no request of service shop in sqlite:///"),
        (("version:model=m1", "version:model=m1"), "baseline and candidate are both 'version:model=m1'"),
        (("window:2000-01-01T00:00Z..", "version:model=m1"), "3 requests stand in the baseline and in the candidate"),
        (("version:model=m1", "reply:x"), "the candidate 'reply:x' cannot be read: No such file"),
        (("service:else", "version:model=m1"), "the baseline 'service:else' selects no request of service else"),
    ],
)
def test_sides_that_cannot_be_compared_are_refused(url: str, selections: tuple[str, ...], complaint: str) -> None:
    """In one line that names the side."""
    with pytest.raises(InputError) as caught:
        _load(*selections, store=url)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_service_is_chosen_where_there_are_several(url: str) -> None:
    """The message names them; the option or a part of the selection says which."""
    with Store.open(url) as store:
        store.write([recorded("x", service="other")])
        analyze(store)
    with pytest.raises(InputError, match=r"holds requests of other, shop; choose one by --service"):
        _load("version:model=m1", "version:model=m2", store=url)
    loaded = _load("version:model=m1", "version:model=m2", store=url, service="shop")
    assert (loaded.service, len(loaded.populations[0])) == ("shop", 3)
    across = _load("service:other", "version:model=m1&service:shop", store=url)
    assert (across.service, len(across.populations[0])) == (None, 1)


def test_requests_that_wait_for_their_analysis_are_said(tmp_path: Path) -> None:
    """With the command that analyzes them."""
    url = f"sqlite:///{tmp_path}/new.db"
    with Store.open(url) as store:
        store.write([recorded("a")])
    with pytest.raises(InputError, match=r"can be judged: 1 not analyzed; run ragtrace analyze$"):
        _load("version:model=m1", store=url)
    with Store.open(f"sqlite:///{tmp_path}/none.db"), pytest.raises(InputError, match=r"none.db holds no request"):
        _load("replay:x", store=f"sqlite:///{tmp_path}/none.db")


def test_replays_that_may_have_been_meant_are_named(tmp_path: Path) -> None:
    """No other selection takes their requests."""
    url = f"sqlite:///{tmp_path}/replays.db"
    with Store.open(url) as store:
        attributes = {"ragtrace.replay.question": "q"}
        names = ("main", "next")
        store.write([recorded(each, attributes={**attributes, "ragtrace.replay.run": each}) for each in names])
    for selection in (url, f"{url}&replay:mian"):
        with pytest.raises(
            InputError, match=r"selects no request .*; the store's replays are replay:main, replay:next$"
        ):
            _load(selection)


def test_a_policy_for_oracles_leaves_nothing_of_proxies(url: str) -> None:
    """The side that is left empty is named, with the reason."""
    with pytest.raises(InputError, match=r"'version:model=m1' can be judged: 3 judged without an oracle reference"):
        _load("version:model=m1", "version:model=m2", store=url, reference="oracle")


def test_two_stores_may_number_their_requests_alike(url: str, tmp_path: Path) -> None:
    """Only in one store the same id is the same request."""
    other = f"sqlite:///{tmp_path}/other.db"
    with Store.open(other) as store:
        store.write([recorded(f"r{at}") for at in range(5)])
        analyze(store)
    assert [len(each) for each in _load(url, other).populations] == [5, 5]


@pytest.mark.parametrize("other", ["./{}", "{}&service:shop", "../{folder}/{}"])
def test_one_file_is_not_compared_with_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    """However its path is written: it would always pass."""
    monkeypatch.chdir(tmp_path)
    file = _lines(tmp_path / "a.jsonl", *(encode_record(recorded(f"r{at}")) for at in range(3)))
    with pytest.raises(InputError, match=r"both|stand in the baseline and in the candidate"):
        _load(file, other.format("a.jsonl", folder=tmp_path.name))


def test_a_store_that_is_not_there_is_not_made(url: str, tmp_path: Path) -> None:
    """A slip in a URL leaves no empty database behind."""
    with pytest.raises(InputError, match=r"candidate .*none.db' is no store of ragtrace yet"):
        _load("version:model=m1", f"sqlite:///{tmp_path}/none.db", store=url)
    assert not (tmp_path / "none.db").exists()


def test_one_store_is_known_by_its_file(url: str, tmp_path: Path) -> None:
    """The same requests of one database are no second side, however its URL is written."""
    again = f"sqlite:///{tmp_path}/../{tmp_path.name}/gate.db"
    with pytest.raises(InputError, match="both"):
        _load("version:model=m1", f"version:model=m1&{again}", store=url)
    with pytest.raises(InputError, match="3 requests stand in the baseline and in the candidate"):
        _load("version:model=m1", again, store=url)


@pytest.mark.parametrize("answer", ["", "I am sorry, I cannot answer that question.", "Hello!"])
def test_an_answer_that_states_nothing_is_counted(tmp_path: Path, answer: str) -> None:
    """Its coverage is undefined, so that only this tells of it: in a store, and in a file."""
    said = recorded("r0")
    silent = replace(recorded("r1"), stages=(*said.stages[:2], GenerateRun(generation=Generation(answer=answer))))
    unknown = replace(recorded("r2"), stages=said.stages[:2])
    url = f"sqlite:///{tmp_path}/gate.db"
    with Store.open(url) as store:
        store.write([said, silent, unknown])
        analyze(store)
    file = _lines(tmp_path / "a.jsonl", *map(encode_record, (said, silent, unknown)))
    for source in (url, file):
        [found] = load([parse("--side", source)], store=None, service=None, metrics=["unanswered"]).populations
        assert list(found.scores["unanswered"]) == pytest.approx([0.0, 1.0, nan], nan_ok=True)


def test_claims_are_judged_alike(url: str, tmp_path: Path) -> None:
    """By one model, or by words alone, on both sides: two judges are two scales."""
    with Store.open(url) as store:
        store.write([recorded("v", versions={"model": "m3"})])
        [job] = store.claim("w")
        verified = replace(analyze_record(recorded("v")), verified_by=VerifiedBy(name="nli-small", weights="0"))
        store.finish([Finished(job, verified)])
    told = r"not judged alike \(baseline: words alone; candidate: nli-small\); replay both sides"
    with pytest.raises(InputError, match=told):
        _load("version:model=m1", "version:model=m3", store=url)
    shown = json.dumps({"record": to_builtins(recorded("f")), "analysis": to_builtins(verified)}).encode()
    with pytest.raises(InputError, match=told):
        _load("version:model=m1", _lines(tmp_path / "a.jsonl", shown), store=url)
    assert len(_load("version:model=m3", _lines(tmp_path / "a.jsonl", shown), store=url).populations[1]) == 1
