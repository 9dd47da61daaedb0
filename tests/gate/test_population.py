"""Both sides of a comparison: as they are loaded from stores and files, gathered in columns, and paired."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ragtrace.analyze import analyze_record, judge_id
from ragtrace.analyze.worker import run as analyze
from ragtrace.errors import InputError
from ragtrace.gate._population import Columns, Sides, compared, load
from ragtrace.gate.selection import parse
from ragtrace.gate.types import NOWHERE, STATES, Comparison, Population
from ragtrace.store import Finished, Judge, Store
from ragtrace.types import GenerateRun, Generation, Gold, VerifiedBy, encode_record, replace, to_builtins
from tests.gate.measured import measured, recorded
from tests.gate.populations import population

METRICS = ("answer_coverage", "candidate_recall", "errors")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with five analyzed requests, two of them of another model."""
    found = f"sqlite:///{tmp_path}/gate.db"
    with Store.open(found) as store:
        store.write([recorded(f"r{at}", versions={"model": "m2" if at > 2 else "m1"}) for at in range(5)])
        analyze(store)
    return found


def _load(*selections: str, store: str | None = None, **options: Any) -> Sides:
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


def test_what_ran_beside_a_version_is_a_side(url: str, tmp_path: Path) -> None:
    """In a store and in a file: other versions of its components, and no request that carries none."""
    versions = ({"model": "m1"}, {"model": "m2"}, {"model": "m3"}, {"index": "i"}, {"model": "m2", "index": "i"})
    records = [recorded(f"v{at}", versions=each) for at, each in enumerate(versions)]
    file = _lines(tmp_path / "a.jsonl", *map(encode_record, records))
    beside, canary = _load("other:model=m2", "version:model=m2", store=url).populations
    assert (list(beside.request_ids), list(canary.request_ids)) == (["r0", "r1", "r2"], ["r3", "r4"])
    [beside] = _load(f"{file}&other:model=m2").populations
    assert list(beside.request_ids) == ["v0", "v2"]
    with pytest.raises(InputError, match="selects no request"):
        _load(f"{file}&other:model=m2,index=i")


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
    missing = f"sqlite:///{tmp_path}/none.db"
    with pytest.raises(InputError, match=r"candidate's store .*none.db is no store of ragtrace yet"):
        _load("version:model=m1", missing, store=url)
    with pytest.raises(InputError, match=r"baseline's store .*none.db is no store of ragtrace yet"):
        _load("version:model=m1", "version:model=m2", store=missing)
    assert not (tmp_path / "none.db").exists()


def test_one_store_is_known_by_its_file(url: str, tmp_path: Path) -> None:
    """The same requests of one database are no second side, however its URL is written."""
    again = f"sqlite:///{tmp_path}/../{tmp_path.name}/gate.db"
    with pytest.raises(InputError, match="both"):
        _load("version:model=m1", f"version:model=m1&{again}", store=url)
    with pytest.raises(InputError, match="3 requests stand in the baseline and in the candidate"):
        _load("version:model=m1", again, store=url)


def test_what_judged_the_claims_is_known(url: str, tmp_path: Path) -> None:
    """The judge and its model, of a store and of a file; an answer without claims tells nothing of it."""
    with Store.open(url) as store:
        store.write([recorded("v", versions={"model": "m3"})])
        [job] = store.claim("w")
        by = VerifiedBy(name="nli-small", weights="0")
        verified = replace(analyze_record(recorded("v")), verified_by=by)
        verified = replace(verified, diagnosis=replace(verified.diagnosis, judge="j1"))
        store.finish([Finished(job, verified)])
    silent = replace(verified, claims=())
    shown = [
        json.dumps({"record": to_builtins(recorded(name)), "analysis": to_builtins(each)}).encode()
        for name, each in (("f", verified), ("g", silent))
    ]
    words, model = _load("version:model=m1", "version:model=m3", store=url).populations
    assert words.judges == {Judge(judge_id())}
    assert model.judges == {Judge("j1", "nli-small")}
    [both] = _load(_lines(tmp_path / "a.jsonl", *shown)).populations
    assert both.judges == {Judge("j1", "nli-small")}
    [none] = _load(_lines(tmp_path / "b.jsonl", shown[1])).populations
    assert none.judges == frozenset()


def test_files_are_judged_by_what_both_tell(tmp_path: Path) -> None:
    """Where the baseline cites, answers of the candidate that do not are broken at citation; alone they need not."""
    plain = "The deductible of policy HX-2 is 500 EUR from 2024{0}. Policy HX-2 has a deductible of 500 EUR{0}."

    def told(name: str, answer: str) -> str:
        records = [recorded(f"{name}{at}") for at in range(4)]
        run = GenerateRun(generation=Generation(answer=answer))
        lines = (encode_record(replace(record, stages=(*record.stages[:2], run))) for record in records)
        return _lines(tmp_path / f"{name}.jsonl", *lines)

    citing, silent = told("old", plain.format(" [1]")), told("new", plain.format(""))
    before, after = _load(citing, silent).populations
    assert {STATES[code] for code in before.states["citation"]} == {"sound"}
    assert {STATES[code] for code in after.states["citation"]} == {"broken"}
    [alone] = _load(silent).populations
    assert set(alone.states["citation"]) == {NOWHERE}


COLUMNS = (
    "answer_coverage",
    *(f"{state}_{stage}" for stage in ("retrieval", "ranking") for state in ("broken", "suspected", "not_known")),
    "errors",
    "latency",
    "output_tokens",
)


def _population(*requests: Any, reference: Any = None, metrics: tuple[str, ...] = COLUMNS) -> Population:
    columns = Columns("candidate", "replay:b", metrics)
    for request in requests:
        columns.add(request)
    return columns.population(reference)


def _values(**fields: Any) -> dict[str, float | None]:
    found = _population(measured(values=(0.5,), **fields))
    return {metric: None if isnan(found.scores[metric][0]) else float(found.scores[metric][0]) for metric in COLUMNS}


def test_a_healthy_request_has_every_value() -> None:
    """Scores as they were analyzed, every stage sound, its time in seconds, its tokens."""
    sound = dict.fromkeys(COLUMNS[1:7], 0.0)
    assert _values(output_tokens=7) == {
        "answer_coverage": 0.5, **sound, "errors": 0.0, "latency": 1.0, "output_tokens": 7.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("state", "values"),
    [
        ("sound", (0.0, 0.0, 0.0)),
        ("broken", (1.0, 0.0, 0.0)),
        ("suspected", (None, 1.0, 0.0)),
        ("not_known", (None, 0.0, 1.0)),
        (None, (None, None, None)),
    ],
)
def test_a_state_has_its_values(state: Any, values: tuple[float | None, ...]) -> None:
    """Broken or not only where that was judged; suspected and not known wherever the stage applies; of every stage,
    whatever broke before it."""
    found = _values(states={"retrieval": "broken", "ranking": state})
    assert tuple(found[f"{name}_ranking"] for name in ("broken", "suspected", "not_known")) == values
    assert found["broken_retrieval"] == 1.0


def test_states_stand_beside_the_scores() -> None:
    """In the rows that are kept; what an earlier version judged has none, and is counted."""
    requests = [
        measured("a", states={"citation": None}, values=(1.0,)),
        measured("b", reference="proxy", values=(1.0,)),
        measured("c", states={"retrieval": "suspected"}, values=(1.0,)),
        dataclasses.replace(measured("d", values=(1.0,)), states={}),
        dataclasses.replace(measured("e", values=(1.0,)), states={}, verdict="no_retrieval_needed"),
    ]
    found = _population(*requests, reference="oracle")
    assert [STATES[code] if code != NOWHERE else None for code in found.states["retrieval"]] == [
        "sound", "suspected", None, None,
    ]  # fmt: skip
    assert list(found.states["citation"]) == [NOWHERE, STATES.index("sound"), NOWHERE, NOWHERE]
    assert found.stateless == 1


def test_values_that_nobody_counted_are_undefined() -> None:
    """No tokens are not zero tokens."""
    assert _values()["output_tokens"] is None


@pytest.mark.parametrize(
    "fields", [{"status": "error"}, {"ended_at": 0}, {"ended_at": 999_999_999}], ids=["failed", "no end", "backwards"]
)
def test_a_time_that_says_nothing_is_undefined(fields: dict[str, Any]) -> None:
    """A request that failed was quick, and a clock that runs backwards measures nothing."""
    assert _values(**fields)["latency"] is None
    assert _values(**fields)["errors"] == float(fields.get("status") == "error")


def test_what_cannot_be_judged_is_counted() -> None:
    """Requests that wait for their analysis, flagged ones outside the sample, and impossible probabilities."""
    found = _population(
        measured("a", values=(0.5,)),
        measured("b", analyzer_version=None),
        measured("c", head_sampled=False, values=(0.5,)),
        measured("d", head_sampled=False, analyzer_version=None),
        measured("e", head_probability=0.0, values=(0.5,)),
    )
    assert list(found.request_ids) == ["a"]
    assert found.excluded == {
        "not analyzed": 1, "outside the random sample": 2, "without a usable sampling probability": 1,
    }  # fmt: skip


def test_requests_weigh_what_they_stand_for() -> None:
    """One that was kept with probability 0.1 stands for ten."""
    assert list(_population(measured(head_probability=0.1, values=(1.0,))).weights) == [pytest.approx(10.0)]


def test_references_are_never_mixed() -> None:
    """What was judged by the other kind of reference is left out, and counted."""
    requests = [
        measured("a", values=(1.0,)),
        measured("b", reference="proxy", values=(0.5,), cluster="s", versions={"model": "m2"}),
        measured("c", reference="none", values=(0.25,), cause="x"),
    ]
    oracle, proxy = _population(*requests, reference="oracle"), _population(*requests, reference="proxy")
    assert (list(oracle.request_ids), oracle.excluded) == (["a"], {"judged without an oracle reference": 2})
    assert (list(proxy.request_ids), proxy.excluded) == (["b", "c"], {"judged without a proxy reference": 1})
    assert (list(proxy.clusters), list(proxy.causes)) == (["s", "c"], ["", "x"])
    assert list(proxy.scores["answer_coverage"]) == [0.5, 0.25]
    assert proxy.versions == {"model": {"m1": 1, "m2": 1}}
    assert len(_population(*requests)) == 3


def test_the_last_attempt_of_a_replay_counts() -> None:
    """Whatever the order in which attempts come; earlier ones are counted."""
    again = {"replay": "n", "question": "q", "values": (1.0,)}
    found = _population(*(measured(f"r{each}", attempt=each, **again) for each in (2, 1, 3)))
    assert (list(found.request_ids), found.excluded) == (["r3"], {"an earlier attempt": 2})


def test_one_attempt_is_made_once() -> None:
    """The same question twice in a replay cannot be told apart."""
    again = {"replay": "n", "question": "q", "values": (1.0,)}
    with pytest.raises(InputError, match=r"the candidate 'replay:b' asked question 'q' twice"):
        _population(measured("a", **again), measured("b", **again))


def test_a_request_stands_there_once() -> None:
    """Twice, it would count twice."""
    with pytest.raises(InputError, match=r"the candidate 'replay:b' holds request 'a' twice; give each request once"):
        _population(measured("a", values=(1.0,)), measured("a", values=(1.0,)))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1, 1.1])
def test_an_impossible_score_is_said(value: float) -> None:
    """With its request: undefined is None, never NaN."""
    with pytest.raises(
        InputError, match=r"answer_coverage of request 'b' of the candidate is .*, and must be from 0 to 1"
    ):
        _population(measured("a", values=(1.0,)), measured("b", values=(value,)))


def test_many_requests_take_little_memory() -> None:
    """Words that repeat are one object, and versions are counted by their release."""
    versions = {"model": "m1"}
    segment = "".join(["se", "gment"])
    requests = (measured(f"r{at}", segment=segment, versions=versions, values=(1.0,)) for at in range(1_000))
    found = _population(*requests)
    assert len({id(each) for each in found.segments}) == 1
    assert found.versions == {"model": {"m1": 1_000}}


def _compared(baseline: Sequence[str], candidate: Sequence[str], pairing: str = "auto", **options: bool) -> Comparison:
    before, after = (
        population({"answer_coverage": [1.0] * len(questions)}, name=name, questions=questions)
        for name, questions in (("old", baseline), ("new", candidate))
    )
    return compared(before, after, pairing, **options)  # type: ignore[arg-type]  # one of its words


def _rows(comparison: Comparison) -> list[tuple[int, int]]:
    assert comparison.pairs is not None
    return [(int(one), int(other)) for one, other in comparison.pairs]


def test_the_same_questions_are_paired_in_any_order() -> None:
    """Both sides have them all."""
    found = _compared("abc", "cab")
    assert (_rows(found), found.unmatched) == ([(0, 1), (1, 2), (2, 0)], (0, 0))


def test_what_has_no_partner_is_counted() -> None:
    """On each side by itself; a request without a question has none."""
    found = _compared(["a", "b", ""], ["b", "a", "c", ""], "paired")
    assert (_rows(found), found.unmatched) == ([(0, 1), (1, 0)], (1, 2))


def test_a_question_that_was_asked_often_is_paired_in_order() -> None:
    """The first with the first, and nobody twice."""
    found = _compared("aba", "aaab")
    assert (_rows(found), found.unmatched) == ([(0, 0), (1, 3), (2, 1)], (0, 1))


def test_traffic_of_other_questions_is_not_paired() -> None:
    """Fewer than half of a side's requests have a partner: the few popular ones would speak for all."""
    assert not _compared("abcdef", "abxyzu").paired
    assert _compared("abcd", "abcx").paired
    assert _compared("abcdef", "abxyzu", expected=True).paired


def test_nobody_is_paired_against_the_policy() -> None:
    """`unpaired` holds whatever the questions are."""
    found = _compared("abc", "abc", "unpaired", expected=True)
    assert (found.paired, found.unmatched) == (False, (0, 0))


@pytest.mark.parametrize(("pairing", "expected"), [("paired", False), ("auto", True)])
def test_disjoint_questions_are_refused(pairing: str, expected: bool) -> None:
    """Where pairs are demanded, or both sides were given their questions."""
    with pytest.raises(
        InputError, match=r"no question of the baseline 'old' \(2 questions\) stands in the candidate 'new'"
    ):
        _compared("ab", "c", pairing, expected=expected)


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abcd")))
def test_pairs_are_as_many_as_there_can_be(baseline: list[str], candidate: list[str]) -> None:
    """Each row stands in at most one pair, and partners asked the same."""
    if not (set(baseline) & set(candidate)):
        return
    rows = _rows(_compared(baseline, candidate, "paired"))
    assert all(baseline[one] == candidate[other] for one, other in rows)
    assert len({one for one, _ in rows}) == len({other for _, other in rows}) == len(rows)
    assert len(rows) == sum(min(baseline.count(each), candidate.count(each)) for each in "abc")
