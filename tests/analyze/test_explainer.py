"""Explanations by the worker, end to end on SQLite: which requests, at what price, and what happens when it fails."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ragtrace.analyze import worker
from ragtrace.analyze.attribution import explain_record
from ragtrace.analyze.explainer import Depths, Explainer
from ragtrace.analyze.worker import WorkerSettings, WorkSummary
from ragtrace.attribution import Method
from ragtrace.engines.causal_lm import CausalLM
from ragtrace.engines.encoder import CrossEncoder
from ragtrace.errors import ConfigurationError, ModelError, ScoringStopped, ServerError
from ragtrace.explanations import GeneratorAttribution
from ragtrace.export.exposition import families, snapshot
from ragtrace.store import ATTRIBUTION, Store
from ragtrace.types import (
    Addendum,
    Candidate,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    RequestRecord,
    RetrieveRun,
    replace,
)
from tests.analyze.engines import AdditiveGenerator, LinearRetriever
from tests.analyze.examples import ANSWER, RERANK, RETRIEVE, TEXTS, packed, request
from tests.models.copying import make
from tests.models.recorded import record_of
from tests.models.test_copier import FOLDER

FLAGS_ONLY = Depths.parse(rate=0.0)
WORTH = {TEXTS["old"]: 4.0, TEXTS["water"]: 1.5}

KILLED = """
import sys
from ragtrace.analyze import worker
from ragtrace.analyze.explainer import Depths
from ragtrace.analyze.explainer import Explainer
from tests.analyze.engines import AdditiveGenerator
import time
def before():
    print("scoring", flush=True)
    time.sleep(60)
depths = Depths.parse(rate=0.0)
explainer = Explainer(AdditiveGenerator({}, before=before), depths=depths)
worker.run(sys.argv[1], worker.WorkerSettings(depths=depths, explainer=explainer, lease_seconds=1.0))
"""


def recorded(request_id: str = "r", flags: Sequence[str] = ("thumbs_down",), answer: str = ANSWER) -> RequestRecord:
    """A request with three documents, ranked water, theft, old."""
    runs = (RETRIEVE, RERANK, packed("theft", "water", "old"), GenerateRun(generation=Generation(answer=answer)))
    return replace(request(*runs, request_id=request_id, ended_at=time.time_ns()), flags=tuple(flags))


def explain(store: Store, generator: Any = None, depths: Depths = FLAGS_ONLY, **limits: Any) -> WorkSummary:
    """Work through the queue with models, by default one that uses the old edition."""
    engine = AdditiveGenerator(WORTH) if generator is None else generator
    explainer = Explainer(engine, LinearRetriever(), depths=depths, **limits)
    return worker.run(store, WorkerSettings(depths=depths, explainer=explainer))


def exposed(store: Store) -> dict[str, list[tuple[dict[str, str], float]]]:
    """The samples of the exposition, by name."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in families(snapshot(store)):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_a_flagged_request_is_explained_stored_and_shown(store: Store) -> None:
    """From the coverage job over the job for its explanation to the exposition."""
    store.write([recorded()])
    assert explain(store) == WorkSummary(done=2)
    analysis = store.get_analysis("r", ATTRIBUTION)
    assert analysis is not None
    assert analysis.explanation is not None
    assert analysis.explanation.generator is not None
    assert analysis.explanation.generator.shares == pytest.approx((0.0, 1.5, 4.0), abs=1e-9)
    assert len(analysis.explanation.retriever) == 3
    assert analysis.explanation.query is None
    assert analysis.score("warg_adjusted") == analysis.explanation.alignment.adjusted[4]  # type: ignore[union-attr]
    assert analysis.score("warg_floor") == pytest.approx(0.729)
    assert analysis.score("attribution_evaluations") == 8 + sum(
        each.evaluations for each in analysis.explanation.retriever
    )
    shown = exposed(store)
    labels = {"service": "s", "segment": "limit", "stratum": "flagged"}
    for name in ("warg_adjusted_ratio", "warg_ratio", "warg_floor_ratio", "warg_chance_ratio", "completeness_delta",
                 "attribution_evaluations", "attribution_duration_seconds"):  # fmt: skip
        assert shown[f"ragtrace_{name}_count"] == [(labels, 1.0)]
    assert shown["ragtrace_warg_adjusted_ratio_sum"] == [(labels, analysis.score("warg_adjusted"))]
    undefined = {labels["metric"]: labels["reason"] for labels, _ in shown["ragtrace_undefined_total"]}
    assert (undefined["noise_distraction"], undefined["wasted_retrieval"]) == ("few_documents", "few_documents")
    assert ({"service": "s", "job_kind": "attribution"}, 1.0) in shown["ragtrace_analyses_total"]
    assert ({"service": "s", "job_kind": "coverage"}, 1.0) in shown["ragtrace_analyses_total"]
    took = {
        labels["job_kind"]: (labels["resource"], value) for labels, value in shown["ragtrace_analysis_seconds_total"]
    }
    assert took["coverage"][1] > 0.0
    resource, seconds = took["attribution"]
    assert resource == "cpu"
    assert seconds == pytest.approx(analysis.explanation.seconds)
    assert store.spent() == pytest.approx({"cpu": analysis.explanation.seconds})


def test_the_coverage_analysis_is_left_as_it_was(store: Store) -> None:
    """Lists, verdicts and the last success speak of coverage alone."""
    store.write([recorded()])
    worker.run(store, WorkerSettings(depths=FLAGS_ONLY))
    before = store.get_analysis("r"), store.find_requests(), store.last_success(), list(store.analyses())
    assert explain(store) == WorkSummary(done=1)
    assert (store.get_analysis("r"), store.find_requests(), store.last_success(), list(store.analyses())) == before
    assert [found.kind for _, found in store.analyses(kind=ATTRIBUTION)] == ["attribution"]


def test_a_worker_without_models_leaves_the_job(store: Store) -> None:
    """It waits for one that has them, counted apart; without a table of depths there is no such job."""
    store.write([recorded("r1")])
    assert worker.run(store) == WorkSummary(done=1)
    assert store.queue_depth(ATTRIBUTION)["pending"] == 0
    store.write([recorded("r2")])
    assert worker.run(store, WorkerSettings(depths=FLAGS_ONLY)) == WorkSummary(done=1)
    assert worker.run(store, WorkerSettings(depths=FLAGS_ONLY)) == WorkSummary()
    assert store.queue_depth(ATTRIBUTION)["pending"] == 1
    assert store.queue_depth()["pending"] == 0
    assert store.backlog()[ATTRIBUTION].oldest is not None
    assert "coverage" not in store.backlog()


def test_only_what_is_flagged_or_drawn_is_explained(store: Store) -> None:
    """A flag that the analysis raises counts as well; a healthy request is left alone."""
    wrong = ANSWER.replace("5,000", "7,000")
    store.write([recorded("good", flags=()), recorded("bad", flags=(), answer=wrong), recorded("odd", ("abstention",))])
    assert explain(store) == WorkSummary(done=4)
    assert store.get_analysis("bad", ATTRIBUTION) is not None
    assert store.get_analysis("good", ATTRIBUTION) is None
    assert store.get_analysis("odd", ATTRIBUTION) is None


def test_the_random_stratum_is_what_was_drawn(store: Store) -> None:
    """Of all sampled requests, flagged or not; a request that is explained for its flag alone is no part of it."""
    half = Depths.parse("vip=generator", rate=0.5)
    records = [recorded(f"r{number}", ("vip",) if number % 2 else ()) for number in range(12)]
    store.write(records)
    explain(store, depths=half)
    counts = {labels["stratum"]: value for labels, value in exposed(store)["ragtrace_warg_ratio_count"]}
    drawn = [record for record in records if half.is_drawn(record)]
    assert any(record.flags for record in drawn)
    assert counts == {
        "random": len(drawn),
        "flagged": sum(bool(record.flags) and record not in drawn for record in records),
    }


def test_a_late_flag_explains_a_request(store: Store) -> None:
    """A complaint a day later makes a new job; what was explained before is not computed again for it."""
    store.write([recorded(flags=())])
    assert explain(store).done == 1
    store.write([Addendum(request_id="r", service="s", addendum_id="a", flags=("thumbs_down",))])
    engine = AdditiveGenerator(WORTH)
    assert explain(store, engine).done == 2
    assert len(engine.prompts) == 8
    store.write([Addendum(request_id="r", service="s", addendum_id="b", flags=("vip",))])
    spent = store.spent()
    assert explain(store, engine).done == 2
    assert len(engine.prompts) == 8
    assert store.spent() == spent
    newest = store.get_analysis("r", ATTRIBUTION)
    assert newest is not None
    assert newest.record_revision == 2
    assert sum(value for _, value in exposed(store)["ragtrace_warg_ratio_count"]) == 1


def test_a_budget_is_shared_by_all_workers_for_a_day(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is used up, jobs wait for the next day, and the day is counted once."""
    store.write([recorded("r1"), recorded("r2"), recorded("r3")])
    assert explain(store, daily_seconds={"cpu": 1e-9}) == WorkSummary(done=4)  # the job at hand ends
    assert explain(store, daily_seconds={"cpu": 1e-9}) == WorkSummary()
    assert store.queue_depth(ATTRIBUTION)["pending"] == 2
    assert exposed(store)["ragtrace_attribution_budget_exhausted_total"] == [({"resource": "cpu"}, 1.0)]
    tomorrow = time.time() + 86400
    monkeypatch.setattr(time, "time", lambda: tomorrow)
    assert explain(store, daily_seconds={"cpu": 1e-9}) == WorkSummary(done=1)
    assert exposed(store)["ragtrace_attribution_budget_exhausted_total"] == [({"resource": "cpu"}, 2.0)]


def test_a_budget_that_is_used_up_is_told_once_a_day(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How much was spent, how many jobs wait for what, and by which option they go on; nothing where none waits."""
    explainer = Explainer(AdditiveGenerator(WORTH), depths=FLAGS_ONLY, daily_seconds={"cpu": 2.0})
    store.spend({"cpu": 3.0})
    assert explainer.explain_next(store, "w") is None
    assert caplog.messages == []
    store.write([recorded("r1"), recorded("r2")])
    assert worker.run(store, WorkerSettings(depths=FLAGS_ONLY)).done == 2
    for _ in range(3):
        assert explainer.explain_next(store, "w") is None
    [told] = caplog.messages
    assert "used up (3.0 of 2 cpu seconds): explanations that wait for midnight UTC" in told
    assert told.endswith("a larger --explain-cpu-seconds: 2")
    tomorrow = time.time() + 86400
    monkeypatch.setattr(time, "time", lambda: tomorrow)
    store.spend({"cpu": 2.0})
    assert explainer.explain_next(store, "w") is None
    assert len(caplog.messages) == 2


def test_no_budget_at_all_explains_nothing(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Zero seconds are used up before anything was spent."""
    store.write([recorded()])
    assert explain(store, daily_seconds={"cpu": 0.0}) == WorkSummary(done=1)
    assert "used up (0.0 of 0 cpu seconds)" in caplog.text


def test_only_what_a_workers_models_run_on_binds_it(store: Store) -> None:
    """A GPU's budget that is used up stops no worker without one; no budget stops nobody."""
    store.write([recorded("r1"), recorded("r2")])
    store.spend({"gpu": 10.0})
    assert explain(store, AdditiveGenerator(WORTH, device="cuda"), daily_seconds={"gpu": 1.0}).done == 2
    assert store.queue_depth(ATTRIBUTION)["pending"] == 2
    assert explain(store, daily_seconds={"gpu": 1.0}).done == 2


def test_evaluations_are_capped_by_request(store: Store) -> None:
    """`budget` is the most prompts of one estimate."""
    store.write([recorded()])
    engine = AdditiveGenerator(WORTH)
    explain(store, engine, budget=4)
    assert len(engine.prompts) == 4
    with pytest.raises(ConfigurationError, match="explain budget 1 is not usable"):
        Explainer(engine, budget=1)
    with pytest.raises(ConfigurationError, match="the method exact scores all prompts"):
        Explainer(engine, budget=16, method=Method("exact"))
    with pytest.raises(ConfigurationError, match="no model explains anything"):
        Explainer()


class Broken(AdditiveGenerator):
    """Raises what it is given, while there is something."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__(WORTH)
        self.errors = list(errors)

    def score(self, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
        """What is broken first, then as it should be."""
        if self.errors:
            raise self.errors.pop(0)
        return super().score(prompts, answer)


def stopped(cause: ServerError) -> ScoringStopped:
    """What an HTTP engine raises when its server fails on the way."""
    error = ScoringStopped("1 of 8 prompts were scored", np.zeros((8, 1)))
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (ServerError("too long", 400), "dead"),
        (stopped(ServerError("too long", 400)), "dead"),
        (ServerError("no route to it"), "pending"),
        (stopped(ServerError("overloaded", 503)), "pending"),
        (OSError("a disk"), "pending"),
    ],
)
def test_what_would_fail_again_is_set_aside_at_once(store: Store, error: Exception, state: Any) -> None:
    """A passing trouble is tried again; either way the time was spent."""
    store.write([recorded()])
    assert explain(store, Broken(error)) == WorkSummary(done=1, failed=1)
    assert store.queue_depth(ATTRIBUTION)[state] == 1
    assert store.spent()["cpu"] > 0
    assert store.get_analysis("r", ATTRIBUTION) is None


@pytest.mark.parametrize(
    ("error", "has_traceback"),
    [(ServerError("overloaded", 503), False), (stopped(ServerError("down", None)), False), (OSError("a disk"), True)],
)
def test_a_server_that_is_down_is_one_line(
    store: Store, caplog: pytest.LogCaptureFixture, error: Exception, has_traceback: bool
) -> None:
    """In the log: what is known to happen says what happened; a traceback is for what is not."""
    store.write([recorded()])
    explain(store, Broken(error))
    [told] = caplog.records
    assert bool(told.exc_info) == has_traceback
    assert has_traceback or "was not explained, and will be tried again: " in told.getMessage()


def test_passing_trouble_passes(store: Store) -> None:
    """The second attempt succeeds."""
    store.write([recorded()])
    engine = Broken(ServerError("overloaded", 503))
    explain(store, engine)
    [job] = store.claim("w", kinds=(ATTRIBUTION,), now=time.time() + 60)
    store.fail(job, "again", retry_in=-60)
    assert explain(store, engine) == WorkSummary(done=1)
    assert store.get_analysis("r", ATTRIBUTION) is not None


def test_poison_is_set_aside_and_stops_no_other(store: Store, tiny_causal_lm: Path, tiny_cross_encoder: Path) -> None:
    """A prompt longer than the model, with real models: dead with its reason; the request behind it is explained."""
    long = replace(recorded("long"), query=replace(recorded().query, original="the limit " * 100))
    store.write([long, recorded("short")])
    explainer = Explainer(CausalLM.load(tiny_causal_lm), CrossEncoder.load(tiny_cross_encoder), FLAGS_ONLY, budget=8)
    summary = worker.run(store, WorkerSettings(depths=FLAGS_ONLY, explainer=explainer))
    assert summary == WorkSummary(done=3, failed=1)
    assert store.queue_depth(ATTRIBUTION) == {"pending": 0, "leased": 0, "done": 1, "dead": 1}
    found = store.get_analysis("short", ATTRIBUTION)
    assert found is not None
    assert found.explanation is not None
    assert found.explanation.generator is not None
    assert found.explanation.generator.exact
    assert found.explanation.retriever
    assert found.explanation.skipped.keys() <= {"alignment"}  # a model with random weights tells no text from another


def test_a_baseline_that_the_model_lacks_sets_the_job_aside(store: Store) -> None:
    """The explainer's baseline reaches the model, and its refusal is final."""

    class Lacking(LinearRetriever):
        def gradients(self, query: str, documents: Sequence[str], *, of: Any, baseline: Any) -> Any:
            if baseline != "zero":
                raise ModelError(f"the model has no {baseline} token")
            return super().gradients(query, documents, of=of, baseline=baseline)

    store.write([recorded("r1")])
    settings = WorkerSettings(depths=FLAGS_ONLY, explainer=Explainer(retriever=Lacking()))
    assert worker.run(store, settings) == WorkSummary(1, 1)
    assert store.queue_depth(ATTRIBUTION)["dead"] == 1
    store.write([recorded("r2")])
    explainer = Explainer(retriever=Lacking(), baseline="zero", documents=2)
    assert worker.run(store, WorkerSettings(depths=FLAGS_ONLY, explainer=explainer)) == WorkSummary(2)
    found = store.get_analysis("r2", ATTRIBUTION)
    assert found is not None
    assert found.explanation is not None
    assert [each.baseline for each in found.explanation.retriever] == ["zero", "zero"]
    assert found.explanation.skipped == {"generator": "no model was given"}
    assert found.score("warg") is None
    assert "ragtrace_undefined_total" not in exposed(store) or "warg" not in {
        labels["metric"] for labels, _ in exposed(store)["ragtrace_undefined_total"]
    }


def test_a_record_whose_texts_were_not_kept_is_done_with_its_reason(store: Store) -> None:
    """Nothing is tried again, and the metrics count why there is no value."""
    record = recorded()
    runs = (RETRIEVE, RERANK, packed("water"), record.stages[-1])
    hidden = replace(runs[2].packing.chunks[0], text=None)
    pack = replace(runs[2], packing=replace(runs[2].packing, chunks=(hidden,)))
    store.write([replace(record, stages=(runs[1], pack, runs[3]))])
    assert explain(store) == WorkSummary(done=2)
    found = store.get_analysis("r", ATTRIBUTION)
    assert found is not None
    assert found.explanation is not None
    assert set(found.explanation.skipped) == {"generator", "retriever"}
    reasons = {labels["metric"]: labels["reason"] for labels, _ in exposed(store)["ragtrace_undefined_total"]}
    assert reasons["warg_adjusted"] == "not_explained"


def test_a_killed_worker_loses_its_job_to_the_next(tmp_path: Path) -> None:
    """SIGKILL in the middle of scoring: the lease was kept alive until then, and runs out after."""
    url = f"sqlite:///{tmp_path}/r.db"
    with Store.open(url) as store:
        store.write([recorded()])
        process = subprocess.Popen([sys.executable, "-c", KILLED, url], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "scoring\n"
        time.sleep(2.0)  # two leases
        assert explain(store) == WorkSummary()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        time.sleep(1.1)
        assert explain(store) == WorkSummary(done=1)
        assert store.get_analysis("r", ATTRIBUTION) is not None


def test_a_lost_lease_commits_nothing(store: Store) -> None:
    """A result that comes after another worker took the job over is dropped."""
    store.write([recorded()])
    worker.run(store, WorkerSettings(depths=FLAGS_ONLY))

    def taken_over() -> None:
        assert store.claim("other", kinds=(ATTRIBUTION,), now=time.time() + 3600)

    assert explain(store, AdditiveGenerator(WORTH, before=taken_over)) == WorkSummary(lost=1)
    assert store.get_analysis("r", ATTRIBUTION) is None


def test_another_model_of_the_same_name_explains_anew(store: Store, tiny_causal_lm: Path, tmp_path: Path) -> None:
    """A local model is known by its files: other weights in a folder of the same name are another one."""
    model = CausalLM.load(tiny_causal_lm)
    other = tmp_path / tiny_causal_lm.name
    shutil.copytree(tiny_causal_lm, other)
    model._model.lm_head.weight.data.neg_()
    model._model.save_pretrained(other)
    depths = Depths.parse("thumbs_down=generator,vip=generator", rate=0.0)
    shares: list[GeneratorAttribution] = []
    for folder, flag in ((tiny_causal_lm, "thumbs_down"), (tiny_causal_lm, "vip"), (other, "late")):
        store.write([recorded()] if not shares else [])
        store.write([Addendum(request_id="r", service="s", addendum_id=flag, flags=(flag, "vip"))])
        worker.run(store, WorkerSettings(depths=depths, explainer=Explainer(CausalLM.load(folder), depths=depths)))
        shares.append(shares_of(store))
    assert shares[0].shares == shares[1].shares
    assert shares[1].model == shares[2].model
    assert shares[1].revision != shares[2].revision
    assert shares[1].shares != shares[2].shares


def of_ten(request_id: str = "r") -> RequestRecord:
    """A flagged request whose prompt has ten documents, `text 1.` to `text 10.`."""
    texts = {f"c{number}": f"text {number}." for number in range(1, 11)}
    found = tuple(Candidate(chunk_id=name, rank=rank, text=text) for rank, (name, text) in enumerate(texts.items(), 1))
    chunks = tuple(PackedChunk(chunk_id=each.chunk_id, position=each.rank, text=each.text) for each in found)
    runs = (RetrieveRun(candidates=found), PackRun(packing=Packing(chunks=chunks)))
    record = request(*runs, GenerateRun(generation=Generation(answer="So it is.")), request_id=request_id)
    return replace(record, flags=("thumbs_down",))


CLEAR = {"text 1.": 5.0} | {f"text {each}.": 1.0 / each for each in range(2, 11)}


def shares_of(store: Store) -> GeneratorAttribution:
    """What is stored of the request's documents."""
    found = store.get_analysis("r", ATTRIBUTION)
    assert found is not None
    assert found.explanation is not None
    assert found.explanation.generator is not None
    return found.explanation.generator


@pytest.mark.parametrize(
    ("limits", "stopped"),
    [
        ({}, "settle"),
        ({"settle": None}, None),
        ({"settle": None, "target_standard_error": 0.5}, "target_standard_error"),
        ({"settle": 0.9, "budget": 20}, None),
    ],
)
def test_an_estimate_ends_once_it_is_settled(store: Store, limits: dict[str, Any], stopped: str | None) -> None:
    """By the flags and the first document, or by its errors; at the latest with the budget."""
    store.write([of_ten()])
    engine = AdditiveGenerator(CLEAR)
    explain(store, engine, **{"budget": 80} | limits)
    found = shares_of(store)
    assert found.stopped == stopped
    assert len(engine.prompts) == found.evaluations
    assert (found.evaluations < 80) == (stopped is not None or limits.get("budget") == 20)
    assert found.shares.index(max(found.shares)) == 0


def test_what_is_not_settled_uses_the_whole_budget(store: Store) -> None:
    """Documents of which none is ahead of the others."""
    store.write([of_ten()])
    draw = np.random.default_rng(0)

    class Noisy(AdditiveGenerator):
        def score(self, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
            return super().score(prompts, answer) + draw.normal(size=(len(prompts), 1))

    engine = Noisy({f"text {each}.": 1.0 for each in range(1, 11)})
    explain(store, engine)
    assert (shares_of(store).stopped, len(engine.prompts)) == (None, 80)


def test_a_worker_with_more_budget_goes_on(store: Store) -> None:
    """The prompts of the first run are not scored again; the shares are those of one run."""
    store.write([of_ten()])
    explain(store, AdditiveGenerator(CLEAR), settle=None, budget=24)
    store.write([Addendum(request_id="r", service="s", addendum_id="a", flags=("vip",))])
    engine = AdditiveGenerator(CLEAR)
    explain(store, engine, settle=None, budget=64)
    assert len(engine.prompts) == 40
    expected = explain_record(of_ten(), generator=AdditiveGenerator(CLEAR), budget=64, parts=["generator"]).generator
    assert expected is not None
    assert shares_of(store).shares == pytest.approx(expected.shares, abs=1e-5)


def test_the_copying_model_is_settled_early(store: Store) -> None:
    """Eight documents: the copied one is found with less than the whole budget."""
    example = make(random.Random(5), 8)
    store.write([record_of(example, "r", flags=("thumbs_down",), at=time.time_ns())])
    explainer = Explainer(CausalLM.load(FOLDER), depths=Depths.parse("thumbs_down=generator", rate=0.0))
    assert worker.run(store, WorkerSettings(depths=explainer.depths, explainer=explainer)) == WorkSummary(done=2)
    found = shares_of(store)
    assert found.stopped == "settle"
    assert found.evaluations < 64
    assert (found.shares.index(max(found.shares)),) == example.sources


@pytest.mark.parametrize("limits", [{"settle": 0.5}, {"settle": 1.0}, {"target_standard_error": 0.0}])
def test_limits_that_cannot_be_are_refused(limits: dict[str, Any]) -> None:
    """Before anything is explained."""
    with pytest.raises(ConfigurationError, match=r"explain (settle|error)"):
        Explainer(AdditiveGenerator({}), **limits)
