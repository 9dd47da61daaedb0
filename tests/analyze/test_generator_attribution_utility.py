"""What each candidate is worth alone, by engines whose games are known; who is asked, and what it counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest

from ragtrace.analyze._exposures import valued_documents
from ragtrace.analyze._totals import attribution_deltas
from ragtrace.analyze.attribution import explain_record
from ragtrace.analyze.explainer import Depths, Explainer
from ragtrace.analyze.exposure_report import exposure_report
from ragtrace.analyze.worker import WorkerSettings, run
from ragtrace.engines.causal_lm import Generated
from ragtrace.errors import ConfigurationError
from ragtrace.explanations import Explanation, ItemUtilities
from ragtrace.store import ATTRIBUTION, Finished, Store
from ragtrace.types import (
    Analysis,
    Candidate,
    GenerateRun,
    Generation,
    Gold,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
    replace,
)
from tests.analyze.engines import AdditiveGenerator

TEXTS = {"a": "Theft is covered.", "b": "Water is covered.", "c": "Fire is not covered."}
SOURCES = {"a": "north", "b": "south", "c": "south"}
WORTH = {TEXTS["a"]: 2.0, TEXTS["b"]: 0.5, TEXTS["c"]: -1.0}
ANSWER = "Theft is covered."


def record(number: int = 0, **changes: object) -> RequestRecord:
    """Three candidates, of which a and c stand in the prompt."""
    candidates = tuple(
        Candidate(chunk_id=name, rank=rank, text=text, source=SOURCES[name])
        for rank, (name, text) in enumerate(TEXTS.items(), 1)
    )
    chunks = tuple(PackedChunk(chunk_id=name, position=at, text=TEXTS[name]) for at, name in enumerate("ac", 1))
    stages = (
        RetrieveRun(candidates=candidates),
        PackRun(packing=Packing(chunks=chunks)),
        GenerateRun(generation=Generation(answer=ANSWER)),
    )
    whole: dict[str, object] = {
        "request_id": f"u{number:04}",
        "service": "s",
        "query": Query(original="What is covered?"),
        "stages": stages,
        "started_at": 1_700_000_000_000_000_000 + number,
        "ended_at": 1_700_000_000_000_000_001 + number,
        **changes,
    }
    return RequestRecord(**whole)  # type: ignore[arg-type]


@dataclass
class Quoting:
    """Answers with the sentence about theft, where it was given one, else that it does not know."""

    kind: str = "http"
    name: str = "quoting"
    revision: str | None = None
    device: str = "remote"

    def generate_many(self, prompts: Sequence[str], *, max_new_tokens: int = 96) -> list[Generated]:
        """An answer to each prompt."""
        said = [TEXTS["a"] if TEXTS["a"] in each else "Not known." for each in prompts]
        return [Generated(text, 1, 1, "stop") for text in said]


def utility(explanation: Explanation) -> ItemUtilities:
    """It is there."""
    assert explanation.utility is not None, explanation.skipped
    return explanation.utility


def test_each_document_alone_against_none() -> None:
    """Also of the candidate that was not packed, in the place of the first, and each prompt is asked once."""
    engine = AdditiveGenerator(WORTH)
    found = utility(explain_record(record(), generator=engine, parts=["utility"]))
    assert found.chunk_ids == ("a", "b", "c")
    assert found.values == pytest.approx((2.0, 0.5, -1.0), abs=1e-12)
    assert (found.empty, found.measure, found.evaluations) == (-10.0, "log_probability", 4)
    assert found.useful() == {"a", "b"}
    assert [[text in prompt for text in TEXTS.values()] for prompt in engine.prompts] == [
        [False, False, False],
        [True, False, False],
        [False, True, False],
        [False, False, True],
    ]


def test_a_template_keeps_its_frame() -> None:
    """What stands around the documents stays around the one."""
    stages = record().stages
    framed = GenerateRun(generation=Generation(answer=ANSWER, prompt_template="Rules.\n{{chunk:a}}\n{{chunk:c}}\nGo."))
    engine = AdditiveGenerator(WORTH)
    explain_record(record(stages=(*stages[:2], framed)), generator=engine, parts=["utility"])
    assert all(prompt.startswith("Rules.") and prompt.endswith("Go.") for prompt in engine.prompts)
    assert TEXTS["b"] in engine.prompts[2]


def test_with_a_reference_answer_the_models_own_answers_count() -> None:
    """By their likeness to it; a document that changes nothing is worth nothing."""
    found = utility(
        explain_record(record(), generator=Quoting(), parts=["utility"], reference_answer="Theft is covered, always.")
    )
    assert found.measure == "rouge-l"
    assert found.values == pytest.approx((2 * 3 / 7, 0, 0))
    assert found.useful() == {"a"}


@pytest.mark.parametrize(
    ("changed", "engine", "reason"),
    [
        (record(), Quoting(), "no reference answer is known"),
        (replace(record(), stages=record().stages[1:]), AdditiveGenerator(WORTH), "there are no candidates"),
        (replace(record(), stages=(record().stages[0], record().stages[2])), AdditiveGenerator(WORTH), "no document"),
        (
            replace(
                record(),
                stages=(
                    RetrieveRun(candidates=(Candidate(chunk_id="z", rank=1),)),
                    *record().stages[1:],
                ),
            ),
            AdditiveGenerator(WORTH),
            "candidate 'z' was not kept",
        ),
        (
            replace(
                record(),
                stages=(
                    RetrieveRun(
                        candidates=tuple(Candidate(chunk_id=f"z{at}", rank=at + 1, text="x") for at in range(101))
                    ),
                    *record().stages[1:],
                ),
            ),
            AdditiveGenerator(WORTH),
            "101 candidates; at most 100",
        ),
    ],
)
def test_what_cannot_be_asked_has_a_reason(changed: RequestRecord, engine: object, reason: str) -> None:
    """In place of a figure."""
    found = explain_record(changed, generator=engine, parts=["utility"])  # type: ignore[arg-type]
    assert found.utility is None
    assert reason in found.skipped["utility"]


def test_it_is_bought_by_its_own_rate() -> None:
    """Of the random stratum alone; the others' parts stay, and who is drawn by a rate is drawn by a larger one."""
    drawn = [Depths.parse("none", 0.0, rate) for rate in (0.0, 0.3, 0.6, 1.0)]
    requests = [record(number) for number in range(300)]
    chosen = [{each.request_id for each in requests if "utility" in depths.parts_of(each)} for depths in drawn]
    assert all(few <= many for few, many in pairwise(chosen))
    assert len(chosen[0]) == 0
    assert 60 < len(chosen[1]) < 120
    assert len(chosen[3]) == 300
    assert drawn[3].parts_of(record(head_sampled=False)) == ()
    assert "utility" not in Depths.parse("none", 1.0).parts_of(record())
    assert Depths.parse("host=utility").parts_of(record(flags=("odd",))) == ("utility",)
    with pytest.raises(ConfigurationError, match="explain utility rate"):
        Depths.parse("none", 0.0, 1.5)


def explained(number: int, **changes: object) -> tuple[RequestRecord, Analysis]:
    """A request and what was found of it."""
    request = record(number, **changes)
    found = explain_record(request, generator=AdditiveGenerator(WORTH), parts=["utility"])
    return request, Analysis(request_id=request.request_id, analyzer_version="v", kind=ATTRIBUTION, explanation=found)


def test_totals_count_useful_candidates_by_provider() -> None:
    """North's one is, and one of south's two; a request that was kept with a chance of a half counts twice."""
    request, analysis = explained(0, head_probability=0.5)
    found: dict[str, float] = defaultdict(float)
    for delta in attribution_deltas(request, analysis, drawn=True, provider="source"):
        labels = dict(delta.labels)
        found[f"{delta.name} {labels['provider']} {labels['useful_by']}"] += delta.value
    assert found == {
        "ragtrace_provider_valued_total north log_probability": 2,
        "ragtrace_provider_useful_total north log_probability": 2,
        "ragtrace_provider_valued_total south log_probability": 4,
        "ragtrace_provider_useful_total south log_probability": 2,
    }
    assert attribution_deltas(request, analysis, drawn=True) == ()


def test_a_worth_of_other_candidates_says_nothing() -> None:
    """As where a later round found more."""
    request, analysis = explained(0)
    more = (*request.candidates, Candidate(chunk_id="d", rank=4, text="More."))
    assert valued_documents(analysis, request.candidates) is not None
    assert valued_documents(analysis, more) is None


def work(store: Store, engine: object, **changes: object) -> None:
    """Record sixty requests, and explain them as a worker does."""
    requests = [record(number) for number in range(60)]
    store.write(requests)
    judged = [
        Finished(job, Analysis(request_id=job.request_id, analyzer_version="v")) for job in store.claim("w", limit=60)
    ]
    store.finish(judged)
    for each in requests:
        store.ask(each.request_id, ATTRIBUTION, "v")
    depths = Depths.parse("none", 0.0, 1.0)
    explainer = Explainer(generator=engine, depths=depths, provider="source", **changes)  # type: ignore[arg-type]
    while explainer.explain_next(store, "test") is not None:
        pass


def test_the_report_goes_by_it(store: Store) -> None:
    """With its measure named: south has half of the places, and one of the two useful documents; of its candidates one
    in two is useful, and the mean worth is a quarter of a nat below none."""
    work(store, AdditiveGenerator(WORTH))
    since = record().started_at
    found = exposure_report(store, "s", since=since, until=since + 100, useful_by="utility")
    assert found.useful_by == {"log_probability": 60}
    by_name = {each.provider: each for each in found.providers}
    assert by_name["south"].deserved.value == pytest.approx(0.5)
    assert (by_name["north"].useful.value, by_name["south"].useful.value) == (1, 0.5)
    assert (by_name["north"].worth.value, by_name["south"].worth.value) == pytest.approx((2.0, -0.25))
    assert exposure_report(store, "s", since=since, until=since + 100).useful_by == {}
    totals = {(each.name, dict(each.labels).get("provider")): each.value for each in store.totals()}
    assert totals["ragtrace_provider_valued_total", "south"] == 120
    assert totals["ragtrace_provider_useful_total", "south"] == 60


def test_a_job_that_was_drawn_for_it_asks_nothing_else_until_somebody_does(store: Store) -> None:
    """The draw takes a prompt for each candidate; who asks for an explanation gets all of it, and the worth stays."""
    request = record(0)
    store.write([request])
    depths = Depths.parse("none", 0.0, 1.0)
    run(store, WorkerSettings(depths=depths, owner="w"))
    explainer = Explainer(generator=AdditiveGenerator(WORTH), depths=depths)
    explainer.explain_next(store, "w")
    drawn = store.get_analysis(request.request_id, ATTRIBUTION)
    assert drawn is not None
    assert drawn.explanation is not None
    assert drawn.explanation.is_utility_alone
    store.ask(request.request_id, ATTRIBUTION, "v2")
    explainer.explain_next(store, "w")
    asked = store.get_analysis(request.request_id, ATTRIBUTION)
    assert asked is not None
    assert asked.explanation is not None
    assert asked.explanation.generator is not None
    assert utility(asked.explanation).values == drawn.explanation.utility.values  # type: ignore[union-attr]


def test_the_reference_answer_is_that_of_the_gold_set(store: Store) -> None:
    """By the question's words."""
    store.put_gold([Gold(service="s", question="what is  covered?", chunk_ids=("a",), answer="Theft is covered.")])
    work(store, Quoting())
    found = store.get_analysis("u0000", ATTRIBUTION)
    assert found is not None
    assert found.explanation is not None
    assert utility(found.explanation).measure == "rouge-l"
    assert utility(found.explanation).useful() == {"a"}
