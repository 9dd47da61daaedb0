"""Exposure of one request by provider, and what it adds to the totals."""

from __future__ import annotations

from collections import defaultdict

import pytest

from ragtrace.analyze._exposures import UNNAMED, provider_of, request_exposures, used_documents, useful_documents
from ragtrace.analyze._totals import analysis_deltas
from ragtrace.store import Finished, Store
from ragtrace.store.totals import OTHER
from ragtrace.types import Candidate, PackedChunk, Packing, PackRun, RequestRecord, RetrieveRun, replace
from tests.analyze.test_exposure_report import START, analysis, record


def totals(
    request: RequestRecord, useful: tuple[int, ...], used: tuple[int, ...], by: str = "source"
) -> dict[str, float]:
    """What an analyzed request adds by provider, as "metric provider"."""
    found: dict[str, float] = defaultdict(float)
    for delta in analysis_deltas(request, analysis(request, useful, used), now=request.ended_at, provider=by):
        labels = dict(delta.labels)
        if "provider" in labels:
            name = delta.name.removeprefix("ragtrace_provider_").removesuffix("_total")
            found[" ".join(filter(None, (name, labels["provider"], labels.get("used_by"))))] += delta.value
    return dict(found)


def test_totals_by_hand() -> None:
    """c0, c1 and c3 in the prompt, c0 and c2 useful, c0 and c1 used by claims, c1 contradicted; c2 is cited. A request
    that was kept with a chance of a half counts twice, but as one that was drawn."""
    found = totals(record(0, (0, 1, 3), head_probability=0.5), (0, 2), (0, 1))
    assert found == {
        "requests north": 1,
        "requests south": 1,
        "requests east": 1,
        "exposure north": 4,
        "exposure south": 2,
        "deserved_exposure north": pytest.approx(2.5),
        "deserved_exposure south": 1,
        "deserved_exposure east": pytest.approx(2.5),
        "attributed_exposure north claims": 2,
        "attributed_exposure south claims": 2,
        "misused south claims": 2,
    }


def test_what_is_cited_is_used_by_citations() -> None:
    """The two sources never stand in one series."""
    found = totals(record(0, (2,)), (0,), (0,))
    assert {name for name in found if "attributed" in name} == {"attributed_exposure east citations"}


def test_what_tells_nothing_of_traffic_counts_nowhere() -> None:
    """A request that a flag kept, one analyzed late, and any where no key is named."""
    assert totals(record(0, (0,), head_sampled=False), (0,), (0,)) == {}
    assert totals(record(0, (0,)), (0,), (0,), by="") == {}
    late = analysis_deltas(record(0, (0,)), analysis(record(0, (0,)), (0,), (0,)), now=START * 2, provider="source")
    assert not [delta for delta in late if "provider" in dict(delta.labels)]


@pytest.mark.parametrize(
    ("candidate", "by", "name"),
    [
        (Candidate(chunk_id="c", rank=1, source="https://wiki.example/a"), "source", "wiki.example"),
        (Candidate(chunk_id="c", rank=1, source="http://[broken"), "source", UNNAMED),
        (Candidate(chunk_id="c", rank=1), "source", UNNAMED),
        (Candidate(chunk_id="c", rank=1, metadata={"owner": 7}), "owner", "7"),
        (Candidate(chunk_id="c", rank=1, metadata={"owner": " "}), "owner", UNNAMED),
    ],
)
def test_names_of_providers(candidate: Candidate, by: str, name: str) -> None:
    """Of an address its host, since each document has another; a key of the metadata as text."""
    assert provider_of(candidate, by) == name


def test_without_a_prompt_there_is_a_reason() -> None:
    """And no sums."""
    silent = record(0, (0,))
    without = replace(silent, stages=silent.stages[:1])
    assert (
        request_exposures(without, without.candidates, "source", None, None) == "what stood in the prompt is not known"
    )
    assert useful_documents(None, ()) is None
    assert used_documents(None, "claims") is None


def test_a_thousand_providers_keep_to_the_budget(store: Store) -> None:
    """The first ones count by name and the others as one; what all have together stays the same."""
    records = []
    for number in range(50):
        candidates = tuple(
            Candidate(chunk_id=f"c{place}", rank=place + 1, source=f"p{20 * number + place:04}", text="words")
            for place in range(20)
        )
        chunks = tuple(PackedChunk(chunk_id=f"c{place}", position=place + 1) for place in range(5))
        stages = (RetrieveRun(candidates=candidates), PackRun(packing=Packing(chunks=chunks)))
        records.append(record(number, (), stages=stages))
    store.write(records)
    by_id = {each.request_id: each for each in records}
    for job in store.claim("test", limit=50):
        request = by_id[job.request_id]
        found = analysis(request, (0,), (1,))
        store.finish([Finished(job, found, analysis_deltas(request, found, now=request.ended_at, provider="source"))])
    shown: dict[str, float] = defaultdict(float)
    for total in store.totals():
        if total.name == "ragtrace_provider_exposure_total":
            shown[dict(total.labels)["provider"]] += total.value
    assert len(shown) == 5 + 1  # the first request's twenty have the places, and five of them stood in its prompt
    assert OTHER in shown
    assert sum(shown.values()) == 50 * 5
