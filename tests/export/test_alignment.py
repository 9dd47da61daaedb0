"""An alignment report as text and as plots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ragtrace.analyze.alignment_report import AlignmentReport, alignment_report
from ragtrace.export.alignment import ReportTable, plots, sections
from ragtrace.store import Store
from ragtrace.types import Packing, PackRun, replace
from tests.analyze.alignment_report.explained import GENERATOR, explain, request, write
from tests.analyze.engines import AdditiveGenerator, LinearRetriever


class _Nouns:
    """Everything is a noun."""

    name = "nouns"

    def tagged(self, text: str) -> list[tuple[int, int, str]]:
        """One token."""
        return [(0, len(text), "NOUN")]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    with Store.open(f"sqlite:///{tmp_path / 'kept.db'}") as opened:
        yield opened


def _text(report: AlignmentReport) -> str:
    return "\n".join(
        "\n".join([each.title, *(" | ".join(row) for row in (each.columns, *each.rows)), *each.notes])
        for each in sections(report)
    )


def _section(report: AlignmentReport, title: str) -> ReportTable:
    return next(each for each in sections(report) if each.title.startswith(title))


def test_tables_hold_rates_beside_chance(store: Store) -> None:
    """Failure rates with their number, WARG with floor and chance at each p, and whom they speak of."""
    explain(store, *(request(f"r{at}", "abcde") for at in range(3)), request("q", "abc"))
    report = alignment_report(store)
    failures, warg = _section(report, "Failure rates"), _section(report, "WARG")

    assert failures.rows[0] == (
        "m-1", "original", "all", "3-5 mixed", "4", "100 % [100, 100] of 3", "40 %", "100 % [100, 100] of 3", "40 %",
    )  # fmt: skip
    assert failures.rows[1][3:] == ("3", "1", "undefined", "-", "undefined", "-")
    assert "4 requests drawn at random, weighted by inverse probability (stored explanations)" in failures.notes[0]
    assert "undefined: with three documents or fewer none can be ranked low" in failures.notes
    assert any("mind the number" in note for note in failures.notes)
    assert [row[6] for row in warg.rows[10:15]] == ["0.5", "0.6", "0.7", "0.8", "0.9"]
    assert warg.rows[14][8:10] == ("0.590", "0.771")
    assert any(note.startswith("mixed: ") for note in warg.notes)


def test_equal_rankings_stand_at_the_floor(store: Store) -> None:
    """To the last printed digit, also where the floor (0.0625 for four documents at p = 0.5) lies between two."""
    follower = AdditiveGenerator({f"text {name}.": -float(place) for place, name in enumerate("abcd")}, name="m-1")
    explain(store, *(request(f"r{at}") for at in range(3)), generator=follower)
    for row in _section(alignment_report(store), "WARG").rows:
        assert row[5] in ("1.000 [1.000, 1.000]", "")
        assert row[7] == f"{row[8]} [{row[8]}, {row[8]}]"
        assert row[10] == "0.000 [0.000, 0.000]"


def test_only_undefined_flags_are_clear_output(store: Store) -> None:
    """Three documents in one request: WARG without an interval, and no rate."""
    explain(store, request("q", "abc"))
    report = alignment_report(store)

    assert _section(report, "Failure rates").rows[0][4:] == ("1", "undefined", "-", "undefined", "-")
    assert "[" not in _section(report, "WARG").rows[0][7]
    assert set(plots(report)) == {"failure_rates.svg", "warg_m-1_k3.svg", "places_m-1_k3.svg"}
    assert any("--explain-rate explains a larger share" in note for note in _section(report, "Failure").notes)


def test_an_empty_report_says_what_mends_it(store: Store) -> None:
    """No table, no plot, one line for each part."""
    text = _text(alignment_report(store))

    assert "no request has a stored explanation of what its answer used; ragtrace analyze --generator MODEL" in text
    assert "no retrieval was explained; --retriever MODEL" in text
    assert plots(alignment_report(store)) == {}


def test_explanations_of_the_other_stratum_are_pointed_to(store: Store) -> None:
    """With the option that shows them."""
    explain(store, request("r"), drawn=False)
    text = _text(alignment_report(store))

    assert (
        "none of the explained requests were chosen at random; 1 were chosen by flags (--stratum flagged shows them)"
        in text
    )
    assert "speak for no others" in _text(alignment_report(store, stratum="flagged"))


def test_skipped_requests_are_listed_with_their_reason(store: Store) -> None:
    """How many, and why."""
    write(
        store, request("r1"), request("r2", template="Alpha: {chunk:a} Beta: {chunk:b} Gamma: {chunk:c} D: {chunk:d}")
    )
    text = _text(alignment_report(store, generator=GENERATOR, conditions=("original", "shuffled")))

    assert "1 without: the prompt says of each document more than its number" in text


def test_deduplication_that_changes_nothing_is_told(store: Store) -> None:
    """Rows that repeat the original ones look like a mistake; with a duplicate k falls, and nothing is said."""
    told = "deduplicated is the same as original: no prompt holds two documents with the same text"
    write(store, request("r1"))
    found = alignment_report(store, generator=GENERATOR, conditions=("original", "deduplicated"))
    assert told in _text(found)
    twin = request("r2", "abcde")
    chunks = twin.packing.chunks if twin.packing is not None else ()
    doubled = (*chunks[:4], replace(chunks[4], text=chunks[0].text))
    retrieved, _, answered = twin.stages
    write(store, replace(twin, stages=(retrieved, PackRun(packing=Packing(chunks=doubled)), answered)))
    found = alignment_report(store, generator=GENERATOR, conditions=("original", "deduplicated"))
    assert told not in _text(found)
    assert told not in _text(alignment_report(store, generator=GENERATOR))


def test_every_part_has_a_table_and_a_plot(store: Store) -> None:
    """All of it, with models; each plot is an SVG that parses and shows chance."""
    write(store, request("r1", "abcde"), request("r2", "abcde"))
    report = alignment_report(
        store,
        generator=GENERATOR,
        retriever=LinearRetriever(),
        tagging=_Nouns(),
        conditions=("original", "shuffled"),
        stability=32,
    )
    drawn = plots(report)

    assert [each.title.split()[0] for each in sections(report)] == [
        "Failure",
        "WARG",
        "Share",
        "Stability",
        "Query",
        "Attribution",
    ]
    assert all(each.rows for each in sections(report))
    assert set(drawn) == {
        "failure_rates.svg",
        "warg_m-1_k5.svg",
        "places_m-1_k5.svg",
        "stability_top1_m-1_k5.svg",
        "stability_ranking_m-1_k5.svg",
        "stability_warg_m-1_k5.svg",
        "token_overlap.svg",
        "pos_linear_original_query_tags.svg",
        "pos_linear_original_document_tags.svg",
    }
    for svg in drawn.values():
        assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert all(
        "random order" in drawn[name] for name in ("failure_rates.svg", "warg_m-1_k5.svg", "stability_top1_m-1_k5.svg")
    )


def test_another_scorer_is_named(store: Store) -> None:
    """What answered is not what its use of documents was measured with."""
    write(store, request("r1", versions={"model": "gpt"}, stages=request("r1").stages))
    other = type(GENERATOR)(GENERATOR.worth, name="org/surrogate 1")
    report = alignment_report(store, generator=other)

    assert _section(report, "Failure rates").rows[0][0] == "m-1 (by org/surrogate 1)"
    assert "warg_m-1_org-surrogate-1_k4.svg" in plots(report)
