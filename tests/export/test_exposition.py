"""From a recorded request, through the analyzer, to the exposition."""

from __future__ import annotations

import time
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from ragtrace.analyze import worker
from ragtrace.export import exposition
from ragtrace.registry.instruments import INSTRUMENTS
from ragtrace.store import Store
from ragtrace.types import (
    Candidate,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
)

TEXT = "The limit in France in 2024 is 30 days."


def _record() -> RequestRecord:
    now = time.time_ns()
    return RequestRecord(
        request_id="a" * 32,
        service="shop",
        segment="limits",
        trace_id="b" * 32,
        started_at=now,
        ended_at=now,
        query=Query(original="What is the limit in France in 2024?"),
        versions={"index": "v1"},
        stages=(
            RetrieveRun(candidates=(Candidate(chunk_id="c1", rank=1, text=TEXT),)),
            PackRun(packing=Packing(chunks=(PackedChunk(chunk_id="c1", position=1, text=TEXT),))),
            GenerateRun(generation=Generation(answer="The limit in France in 2024 is 30 days [1].")),
        ),
    )


def _labels(labels: dict[str, str]) -> frozenset[tuple[str, str]]:
    """Labels as a key; bounds by their value, not by their spelling."""
    return frozenset((name, str(float(value)) if name == "le" else value) for name, value in labels.items())


def test_everything_that_is_counted_is_exposed(tmp_path: Path) -> None:
    """Each total that recording and analysis write is in the exposition, with its value and labels."""
    url = f"sqlite:///{tmp_path / 'ragtrace.db'}"
    with Store.open(url) as store:
        store.write([_record()])
        worker.run(url)
        totals = store.totals()
        families = list(text_string_to_metric_families(exposition(store).decode()))
    shown = {(s.name, _labels(s.labels)): s.value for family in families for s in family.samples}
    assert totals
    for total in totals:
        assert shown[total.name, _labels(dict(total.labels))] == total.value
    assert {family.name for family in families} <= {one.name.removesuffix("_total") for one in INSTRUMENTS.values()}
    released = [sample for family in families for sample in family.samples if sample.labels.get("version") == "v1"]
    assert [(sample.name, sample.labels["component"]) for sample in released] == [
        ("ragtrace_release_timestamp_seconds", "index"),
        ("ragtrace_version_info", "index"),
    ]
