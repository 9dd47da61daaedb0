"""The views for people are those of docs/reference/store.md, and its queries run on both databases."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy as sa

from ragtrace.explanations import Explanation, GeneratorAttribution
from ragtrace.store import ATTRIBUTION, Finished, FollowUp, Store
from ragtrace.store.tables import STAGE_NAMES, metadata
from ragtrace.types import (
    Analysis,
    Facet,
    Gold,
    RequestRecord,
    Score,
    SourceReport,
    StageFinding,
    replace,
)

MakeRecord = Callable[..., RequestRecord]
MakeFinished = Callable[..., Finished]

DOCS: Final = (Path(__file__).parents[2] / "docs" / "reference" / "store.md").read_text()
_VIEW: Final = re.compile(r"^\| `(v_\w+)` \| .* \| (.*) \|$", re.MULTILINE)
_TABLES: Final = re.compile(r"^## Tables\n(.*?)^## ", re.MULTILINE | re.DOTALL)
_QUERY: Final = re.compile(r"^```sql\n-- (.*?)\n(.*?)^```", re.MULTILINE | re.DOTALL)

SECOND: Final = 1_000_000_000
NAMES: Final = {"SQLite": "sqlite", "PostgreSQL": "postgresql"}


def _queries(dialect: str) -> list[str]:
    found = [(marks.split(", "), query) for marks, query in _QUERY.findall(DOCS)]
    assert all(NAMES.keys() >= set(marks) for marks, _ in found)
    return [query for marks, query in found if dialect in {NAMES[mark] for mark in marks}]


@pytest.fixture
def filled(store: Store, make_record: MakeRecord, make_finished: MakeFinished) -> Store:
    """A broken request with an explanation and a healthy one, a gold set, a release, reports on a source."""
    store.write(
        [
            make_record("broken", tenant_id="acme", started_at=1_500_000_000 * SECOND, ended_at=1_500_000_002 * SECOND),
            make_record("healthy", head_sampled=False, flags=("slow",), session_id="s", versions={"index": "v1"}),
        ]
    )
    for job in store.claim("w", limit=2):
        done = make_finished(job, stage="retrieval" if job.request_id == "broken" else None)
        store.finish([replace_follow_up(done)] if job.request_id == "broken" else [done])
    (job,) = store.claim("w", kinds=(ATTRIBUTION,))
    generator = GeneratorAttribution(chunk_ids=("c1", "c2"), shares=(0.75, 0.25), share_errors=(0.1, None))
    found = Analysis(
        request_id="broken",
        kind=ATTRIBUTION,
        analyzer_version="a",
        scores=(Score(metric="warg", value=0.5),),
        explanation=Explanation(generator=generator),
    )
    store.finish([Finished(job, found)])
    facets = (Facet(kind="time", value="2024"),)
    store.put_gold([Gold(service="shop", question="Wh\x00at?", chunk_ids=("c1", "ü"), facets=facets)])
    store.write([SourceReport(service="shop", source="wiki", reported_at=1 * SECOND, documents=5, delay_seconds=2.5)])
    store.write([SourceReport(service="shop", source="wiki", reported_at=2 * SECOND, newest_at=3 * SECOND)])
    return store


def replace_follow_up(done: Finished) -> Finished:
    """The outcome that asks for an explanation."""
    return Finished(done.job, done.analysis, done.deltas, FollowUp(ATTRIBUTION, "a", False))


def _rows(store: Store, query: str) -> list[dict[str, Any]]:
    with store._database.read() as connection:
        return [dict(row) for row in connection.exec_driver_sql(query.replace("%", "%%")).mappings()]


def test_the_views_have_the_documented_columns(store: Store) -> None:
    """Name by name, in order."""
    documented = {name: re.findall(r"`(\w+)`", columns) for name, columns in _VIEW.findall(DOCS)}
    with store._database.read() as connection:
        inspector = sa.inspect(connection)
        views = {name for name in inspector.get_view_names() if name.startswith("v_")}
        there = {name: [column["name"] for column in inspector.get_columns(name)] for name in views}
    assert there == documented
    assert len(documented) == 10


def test_every_table_is_documented() -> None:
    """And no other."""
    listed = _TABLES.search(DOCS)
    assert listed is not None
    first = [line.split("|")[1] for line in listed.group(1).splitlines() if line.startswith("| `")]
    assert {name for names in first for name in re.findall(r"`(\w+)`", names)} == set(metadata.tables)


def test_the_documented_queries_run(filled: Store) -> None:
    """Each on the databases that it names."""
    queries = _queries(filled._database.address.url.get_backend_name())
    assert len(queries) == 10
    for query in queries:
        _rows(filled, query.replace("policy-assistant", "shop"))


def test_what_the_views_say(filled: Store) -> None:
    """Times, strata, verdicts, shares and gold sets as they were given."""
    broken, healthy = _rows(filled, "SELECT * FROM v_request ORDER BY request_id")
    assert (broken["stratum"], healthy["stratum"]) == ("random", "flagged")
    assert (broken["verdict"], broken["stage"], broken["owner"]) == ("recall_failure", "retrieval", "search")
    assert (broken["duration_seconds"], broken["started_seconds"]) == (2.0, 1_500_000_000.0)
    assert (broken["tenant_id"], healthy["session_id"], healthy["flags"]) == ("acme", "s", '["slow"]')
    started = broken["started"] if isinstance(broken["started"], str) else broken["started"].isoformat()
    assert started.startswith("2017-07-14T02:40:00")

    of_broken = "FROM v_score WHERE request_id = 'broken' ORDER BY metric"
    scores = _rows(filled, f"SELECT kind, metric, value, reason {of_broken}")
    assert [tuple(row.values()) for row in scores] == [
        ("coverage", "answer_coverage", None, "abstained"),
        ("coverage", "query_coverage", 0.5, None),
        ("attribution", "warg", 0.5, None),
    ]
    shares = _rows(filled, "SELECT position, chunk_id, share, share_error FROM v_attribution ORDER BY position")
    assert [tuple(row.values()) for row in shares] == [(0, "c1", 0.75, 0.1), (1, "c2", 0.25, None)]
    (gold,) = _rows(filled, "SELECT * FROM v_gold")
    assert (gold["question"], gold["chunk_ids"]) == ("Wh\ufffdat?", '["c1","ü"]')
    assert '"2024"' in gold["facets"]
    (release,) = _rows(filled, "SELECT * FROM v_release")
    assert (release["component"], release["version"], release["recorded"]) == ("index", "v1", None)
    (source,) = _rows(filled, "SELECT * FROM v_source")
    assert (source["reported_seconds"], source["documents"], source["delay_seconds"]) == (2.0, 5, 2.5)
    assert len(_rows(filled, "SELECT * FROM v_source_report")) == 2


def test_the_states_of_the_stages(store: Store, make_record: MakeRecord, make_finished: MakeFinished) -> None:
    """By stage with why, which are in doubt, and what judged; null where a stage does not apply.

    Samples for triage say the same.
    """
    store.write([make_record()])
    (job,) = store.claim("w")
    done = make_finished(job)
    stages = (
        StageFinding(stage="retrieval", state="suspected", reason="low_match", doubted=True),
        StageFinding(stage="ranking", state="sound"),
        StageFinding(stage="generation", state="broken", doubted=True, distant=True),
    )
    found = replace(done.analysis, diagnosis=replace(done.analysis.diagnosis, stages=stages, judge="a1b2"))
    store.finish([Finished(job, found)])
    for view in ("v_request", "v_diagnosis"):
        (row,) = _rows(store, f"SELECT * FROM {view}")
        assert [row[f"{each.stage}_state"] for each in stages] == ["suspected", "sound", "broken"]
        assert [row[f"{each.stage}_reason"] for each in stages] == ["low_match", None, None]
        assert (row["citation_state"], row["citation_reason"], row["judge"]) == (None, None, "a1b2")
        assert row["doubted"] == "retrieval,generation,distant"
        assert list(row)[-1] == "doubted"  # behind what older queries know
    (sampled,) = store.scored(["r1"], ())
    assert sampled.states == {each.stage: each.state for each in stages}
    assert (sampled.reasons, sampled.judge) == ({"retrieval": "low_match"}, "a1b2")
    assert sampled.doubted == {"retrieval", "generation"}
    assert sampled.is_distant


@pytest.mark.parametrize(("states", "written"), [(("sound", "not_known"), ""), ((), None)])
def test_no_stage_in_doubt_is_not_the_same_as_nothing_known(
    store: Store, make_record: MakeRecord, make_finished: MakeFinished, states: Any, written: str | None
) -> None:
    """Null where a version without states judged."""
    store.write([make_record()])
    (job,) = store.claim("w")
    done = make_finished(job)
    stages = tuple(StageFinding(stage=stage, state=state) for stage, state in zip(STAGE_NAMES, states, strict=False))
    store.finish([Finished(job, replace(done.analysis, diagnosis=replace(done.analysis.diagnosis, stages=stages)))])
    assert [row["doubted"] for row in _rows(store, "SELECT doubted FROM v_request")] == [written]
    (sampled,) = store.scored(["r1"], ())
    assert (sampled.doubted, sampled.is_distant) == (frozenset(), False)


def test_shares_are_those_of_the_newest_explanation(filled: Store) -> None:
    """They are replaced by another one, and removed by one that has none."""
    with filled._database.write() as connection:
        connection.execute(sa.text("UPDATE job SET state = 'pending', attempts = 0 WHERE kind = 'attribution'"))
    (job,) = filled.claim("w", kinds=(ATTRIBUTION,))
    nothing = Analysis(request_id="broken", kind=ATTRIBUTION, analyzer_version="a", explanation=Explanation())
    filled.finish([Finished(job, nothing)])
    assert _rows(filled, "SELECT * FROM v_attribution") == []
