"""Requests are drawn from one window and one set of versions, labels of several people count, and rates follow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from ragtrace.errors import ConfigurationError
from ragtrace.store import RequestLabel, Store
from ragtrace.store.tables import request
from ragtrace.triage import Window, corrected_shares_of, corrected_text, markdown, triage_segment
from ragtrace.triage.labels import (
    CANNOT_TELL,
    agreement,
    draw_labels,
    extend_drawing,
    find_drawing,
    first_broken_of,
    judged_requests,
    label_rates,
    read_labels,
    undrawn,
    unlabeled,
    written_labels,
)
from tests.triage.labeled import SECOND, WINDOW, fill, is_broken, label, record


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """600 requests of one release, 40 of another one, and some that no draw may touch."""
    file = tmp_path_factory.mktemp("labels") / "traffic.db"
    others = [record(2_000 + number, versions={"model": "m-2"}) for number in range(40)]
    flagged = [record(3_000 + number, head_sampled=False, flags=("slow",)) for number in range(20)]
    replayed = [record(4_000, attributes={"ragtrace.replay.run": "x", "ragtrace.replay.question": "q"})]
    with Store.open(f"sqlite:///{file}") as store:
        fill(store, [*(record(number) for number in range(600)), *others, *flagged, *replayed])
        store.write([record(5_000)])  # not analyzed
    return file


@pytest.fixture
def labeled(traffic: Path, tmp_path: Path) -> Iterator[Store]:
    """A copy of the traffic."""
    copy = tmp_path / "copy.db"
    shutil.copy(traffic, copy)
    with Store.open(f"sqlite:///{copy}") as store:
        yield store


def test_a_draw_is_of_one_window_one_set_of_versions_and_the_random_stratum(labeled: Store) -> None:
    """The set with the most requests, or the one that is asked for; nothing flagged, replayed, or not analyzed."""
    drawing = draw_labels(labeled, "shop", WINDOW, 150)
    requests = labeled.drawn_requests(drawing.drawing_id)
    assert drawing.versions == {"model": "m-1"}
    assert drawing.judge == "j1"
    judged = judged_requests(labeled, "shop", WINDOW.since, WINDOW.until)
    assert undrawn(drawing, judged) == [(40, {"model": "m-2"})]
    assert len(requests) == 150
    assert all(int(each.request_id[1:]) < 600 for each in requests)
    assert [each.place for each in requests] == list(range(150))
    small = draw_labels(labeled, "shop", WINDOW, 150, versions={"model": "m-2"})
    assert len(labeled.drawn_requests(small.drawing_id)) == 40
    with pytest.raises(ConfigurationError, match="no analyzed request"):
        draw_labels(labeled, "shop", WINDOW, 150, versions={"model": "m-3"})


def test_a_lack_of_an_inferred_prompt_hash_is_no_other_version(tmp_path: Path) -> None:
    """The first requests of a service have none: they are drawn with the others, and extended, and counted with them.
    With two hashes nobody knows whose they are."""
    hashed = [record(number, versions={"model": "m-1", "prompt_hash": "a"}) for number in range(9, 30)]
    with Store.open(f"sqlite:///{tmp_path / 'few.db'}") as store:
        fill(store, [*(record(number) for number in range(9)), *hashed])
        drawing = draw_labels(store, "shop", WINDOW, 20)
        judged = judged_requests(store, "shop", WINDOW.since, WINDOW.until)
        assert (drawing.population, drawing.versions) == (30, {"model": "m-1", "prompt_hash": "a"})
        assert undrawn(drawing, judged) == []
        extend_drawing(store, drawing, 30)
        assert len(store.drawn_requests(drawing.drawing_id)) == 30
        fill(store, [record(40, versions={"model": "m-1", "prompt_hash": "b"})])
        judged = judged_requests(store, "shop", WINDOW.since, WINDOW.until)
        assert undrawn(drawing, judged) == [(9, {"prompt_hash": "none"}), (1, {"prompt_hash": "b"})]


def test_more_is_drawn_where_the_verdict_is_unsure(labeled: Store) -> None:
    """What is suspected has a greater probability than what is named, and that than what is sound; a fifth at least is
    drawn evenly."""
    drawing = draw_labels(labeled, "shop", WINDOW, 120, uniform=0.2)
    probabilities = {each.stratum: each.probability for each in labeled.drawn_requests(drawing.drawing_id)}
    assert probabilities["sound"] == pytest.approx(0.2 * 120 / 600)
    assert probabilities["suspected"] > probabilities["open"] == probabilities["named"] > probabilities["sound"]
    with pytest.raises(ConfigurationError, match="--uniform"):
        draw_labels(labeled, "shop", WINDOW, 120, uniform=0.1)


def test_a_drawing_can_be_extended(labeled: Store) -> None:
    """What was drawn stays drawn, with its new probability; labels stay."""
    drawing = draw_labels(labeled, "shop", WINDOW, 60)
    before = {each.request_id: each.probability for each in labeled.drawn_requests(drawing.drawing_id)}
    labeled.put_labels(label(request_id) for request_id in before)
    extend_drawing(labeled, drawing, 180)
    after = {each.request_id: each.probability for each in labeled.drawn_requests(drawing.drawing_id)}
    assert before.keys() < after.keys()
    assert len(after) == 180
    assert all(after[each] > before[each] for each in before)
    assert {each.request_id for each in unlabeled(labeled, drawing, "ada")} == after.keys() - before.keys()
    with pytest.raises(ConfigurationError, match="180 or more: so many are drawn already"):
        extend_drawing(labeled, drawing, 60)
    assert len(labeled.drawn_requests(drawing.drawing_id)) == 180


def test_work_goes_on_where_each_labeler_has_stopped(labeled: Store) -> None:
    """Each labeler gets all drawn requests, in the order of the draw."""
    drawing = draw_labels(labeled, "shop", WINDOW, 30)
    order = [each.request_id for each in labeled.drawn_requests(drawing.drawing_id)]
    labeled.put_labels(label(each) for each in order[:10])
    assert [each.request_id for each in unlabeled(labeled, drawing, "ada")] == order[10:]
    assert [each.request_id for each in unlabeled(labeled, drawing, "bob")] == order


def test_rates_are_corrected(labeled: Store) -> None:
    """Retrieval broke in a fifth of the requests, of which the verdict names half; the interval holds the truth, and
    the rates are kept for the exporter. No other stage broke, and none is said to have."""
    drawing = draw_labels(labeled, "shop", WINDOW, 200)
    labeled.put_labels(label(each.request_id) for each in labeled.drawn_requests(drawing.drawing_id))
    found = label_rates(labeled, drawing)
    assert (found.requests, found.drawn, found.labeled) == (600, 200, 200)
    rates = {each.stage: each for each in found.stages}
    retrieval = rates["retrieval"].correction
    assert retrieval is not None
    assert retrieval.verdict == pytest.approx(0.1)
    assert retrieval.low < 0.2 < retrieval.high
    assert abs(retrieval.rate - 0.2) < abs(0.1 - 0.2)
    assert retrieval.tuning > 0.8
    generation = rates["generation"].correction
    assert generation is not None
    assert (generation.rate, generation.low) == (0.0, 0.0)
    assert rates["any"].correction == retrieval
    kept = labeled.drawings()[0].rates
    assert [each.stage for each in kept] == ["retrieval", "ranking", "generation", "citation", "any"]
    assert kept[0].rate == retrieval.rate


def test_rates_are_unbiased_over_many_draws_whatever_was_drawn(labeled: Store) -> None:
    """An uneven draw and an even one both lead to the true rate: 0.2 within the interval of each."""
    for uniform in (0.2, 0.5, 1.0):
        drawing = draw_labels(labeled, "shop", WINDOW, 250, uniform=uniform)
        labeled.put_labels(label(each.request_id) for each in labeled.drawn_requests(drawing.drawing_id))
        correction = label_rates(labeled, drawing).stages[0].correction
        assert correction is not None
        assert correction.low < 0.2 < correction.high


def test_too_few_labels_give_no_rate_but_how_many_are_lacking(labeled: Store) -> None:
    """And what was kept for the exporter before is gone: the labels may have been taken back."""
    drawing = draw_labels(labeled, "shop", WINDOW, 150)
    first = labeled.drawn_requests(drawing.drawing_id)[:70]
    labeled.put_labels(label(each.request_id) for each in first)
    rate = label_rates(labeled, drawing).stages[0]
    assert (rate.labels, rate.lacking, rate.correction) == (70, 30, None)
    assert labeled.drawings()[0].rates == ()


def test_labels_of_requests_that_were_not_drawn_count_in_no_rate(labeled: Store) -> None:
    """Who chooses requests by hand chooses the bad ones: their labels are kept for other uses."""
    drawing = draw_labels(labeled, "shop", WINDOW, 120)
    drawn = {each.request_id for each in labeled.drawn_requests(drawing.drawing_id)}
    chosen = [f"r{number:04}" for number in range(600) if f"r{number:04}" not in drawn and is_broken(f"r{number:04}")]
    labeled.put_labels(label(each) for each in [*drawn, *chosen])
    found = label_rates(labeled, drawing)
    assert found.labeled == 120
    assert found.stages[0].labels == 120


def test_who_cannot_tell_leaves_the_request_to_its_stratum(labeled: Store) -> None:
    """Requests that a labeler cannot judge count in no rate; that all suspected ones are such moves the rate less than
    leaving their weight out would."""
    drawing = draw_labels(labeled, "shop", WINDOW, 300)
    requests = labeled.drawn_requests(drawing.drawing_id)
    unsure = [each.request_id for each in requests if each.stratum == "suspected"][::2]
    labels = {each.request_id: label(each.request_id) for each in requests}
    labels |= {each: RequestLabel(each, "ada", CANNOT_TELL, {"retrieval": CANNOT_TELL}) for each in unsure}
    labeled.put_labels(labels.values())
    rate = label_rates(labeled, drawing).stages[0]
    assert rate.labels == 300 - len(unsure)
    assert rate.correction is not None
    assert rate.correction.low < 0.2 < rate.correction.high


def test_what_a_label_says_of_a_later_stage(labeled: Store) -> None:
    """A break of generation where nobody can tell of retrieval tells of generation alone."""
    drawing = draw_labels(labeled, "shop", WINDOW, 150)
    stages = {"retrieval": CANNOT_TELL, "ranking": "sound", "generation": "broken"}
    requests = labeled.drawn_requests(drawing.drawing_id)
    labeled.put_labels(RequestLabel(each.request_id, "ada", "generation", stages) for each in requests)
    rates = {each.stage: each for each in label_rates(labeled, drawing).stages}
    assert (rates["retrieval"].labels, rates["ranking"].labels, rates["citation"].labels) == (0, 150, 150)
    assert rates["generation"].correction is not None
    assert rates["generation"].correction.rate == 1.0


def test_several_labelers_count_as_their_mean(labeled: Store) -> None:
    """Where one of two says broken, the request is half a break."""
    drawing = draw_labels(labeled, "shop", WINDOW, 150)
    requests = [each.request_id for each in labeled.drawn_requests(drawing.drawing_id)]
    labeled.put_labels(replace(label(each), first_broken="none", stages={}) for each in requests)
    labeled.put_labels(RequestLabel(each, "bob", "ranking") for each in requests)
    rates = {each.stage: each for each in label_rates(labeled, drawing).stages}
    assert rates["ranking"].labels == 150
    assert rates["ranking"].correction is not None
    assert rates["ranking"].correction.rate == pytest.approx(0.5)


def test_requests_that_are_judged_anew_by_other_rules_leave_the_rates(labeled: Store) -> None:
    """A drawing speaks of the verdicts of one judge; labels stay for a new drawing."""
    drawing = draw_labels(labeled, "shop", WINDOW, 150)
    requests = [each.request_id for each in labeled.drawn_requests(drawing.drawing_id)]
    labeled.put_labels(map(label, requests))
    known = label_rates(labeled, drawing)
    other = replace(drawing, judge="j2")
    for use in (label_rates, partial(extend_drawing, expected=160)):
        with pytest.raises(ConfigurationError, match="0 are there as they were judged then"):
            use(labeled, other)
    assert label_rates(labeled, drawing) == known
    assert labeled.drawn_requests(drawing.drawing_id)


def test_what_retention_leaves_of_a_window_gives_no_rate(labeled: Store) -> None:
    """Labeled requests that outlive the others are no fair sample; the rates from before stay as they are."""
    drawing = draw_labels(labeled, "shop", WINDOW, 150)
    requests = [each.request_id for each in labeled.drawn_requests(drawing.drawing_id)]
    labeled.put_labels(map(label, requests))
    label_rates(labeled, drawing)
    (before,) = labeled.drawings("shop")
    with labeled._database.write() as connection:
        connection.execute(sa.delete(request).where(request.c.request_id.not_in(requests)))
    with pytest.raises(ConfigurationError, match=r"the others were pruned, or judged anew\. Its last rates stay"):
        label_rates(labeled, before)
    assert labeled.drawings("shop") == [before]
    assert before.rates
    assert before.population > len(requests)


def test_a_drawing_is_found_by_the_beginning_of_its_id(labeled: Store) -> None:
    """The newest one where none is named; an unknown one is refused with those there are."""
    with pytest.raises(ConfigurationError, match="nothing is drawn yet"):
        find_drawing(labeled, None)
    first, second = (draw_labels(labeled, "shop", WINDOW, 10) for _ in range(2))
    assert find_drawing(labeled, None).drawing_id == second.drawing_id
    assert find_drawing(labeled, first.drawing_id[:8]).drawing_id == first.drawing_id
    with pytest.raises(ConfigurationError, match=second.drawing_id):
        find_drawing(labeled, "zz")
    with pytest.raises(ConfigurationError, match="2 drawings begin"):
        find_drawing(labeled, "")


def test_agreement_of_labelers() -> None:
    """By pairs and over all; what one cannot tell is no word, and a request with one label says nothing."""
    said = {"ada": "retrieval none none ranking none", "bob": "retrieval none ranking ranking cannot_tell"}
    labels = [
        RequestLabel(f"r{number}", labeler, word)
        for labeler, words in said.items()
        for number, word in enumerate(words.split())
    ]
    found = agreement([*labels, RequestLabel("r9", "cy", "none")])
    assert found.requests == 4
    (pair,) = found.pairs
    assert (pair.first, pair.second, pair.requests, pair.same) == ("ada", "bob", 4, 0.75)
    assert pair.kappa == pytest.approx((0.75 - 5 / 16) / (1 - 5 / 16))
    assert found.alpha == pytest.approx(1 - 7 * 2 / 42)
    assert agreement([]).pairs == ()


@pytest.mark.parametrize(
    ("stages", "first"),
    [
        ({"retrieval": "sound", "ranking": "sound", "generation": "sound"}, "none"),
        ({"retrieval": "sound", "ranking": "sound"}, CANNOT_TELL),  # of generation nothing is said
        ({"generation": "sound"}, CANNOT_TELL),
        ({"generation": "broken", "ranking": "sound", "retrieval": "sound"}, "generation"),
        ({"generation": "broken", "retrieval": "sound"}, CANNOT_TELL),  # ranking may have broken before it
        ({"generation": "broken", "ranking": "broken", "retrieval": "sound"}, "ranking"),
        ({"retrieval": CANNOT_TELL, "ranking": "sound", "generation": "sound"}, CANNOT_TELL),
        ({"retrieval": "sound", "ranking": "sound", "generation": "sound", "citation": "broken"}, "citation"),
        ({}, CANNOT_TELL),
    ],
)
def test_the_first_broken_stage(stages: dict[str, str], first: str) -> None:
    """In the order of the path."""
    assert first_broken_of(stages) == first


@pytest.mark.parametrize("as_csv", [False, True])
def test_labels_are_written_and_read_again(as_csv: bool) -> None:
    """All that labelers say comes back; JSON lines keep times and verdicts too."""
    labels = [
        RequestLabel("r1", "ada", "ranking", {"retrieval": "sound", "ranking": "broken"}, ("c1", "c 2"), "2, or 3", 5),
        RequestLabel("r2", "ada", "none", {}, (), None, 5),
        RequestLabel("r3", "bob", CANNOT_TELL, {"retrieval": CANNOT_TELL}, None, "?", 5),
    ]  # fmt: skip
    assert read_labels(written_labels(labels, as_csv=as_csv), now=5) == labels


def test_a_sheet_has_a_row_for_what_is_to_do() -> None:
    """Empty rows are passed over when it is read."""
    text = written_labels([RequestLabel("r1", "ada", "none")], as_csv=True, todo=["r2", "r3"])
    assert [line.split(",")[0] for line in text.splitlines()] == ["request_id", "r1", "r2", "r3"]
    assert [each.request_id for each in read_labels(text, now=5)] == ["r1"]


def test_a_file_with_ids_and_stages_is_enough() -> None:
    """The words that people use are understood; who labeled may be said once."""
    text = "request_id,first_broken\nr1,Retrieval\nr2,healthy\nr3,?\n"
    found = read_labels(text, labeler="ada", now=7)
    assert [(each.request_id, each.first_broken) for each in found] == [
        ("r1", "retrieval"),
        ("r2", "none"),
        ("r3", CANNOT_TELL),
    ]
    assert {(each.labeler, each.labeled_at) for each in found} == {("ada", 7)}
    stages = read_labels("request_id,labeler,retrieval,ranking\nr1,bob,sound,broken\n", now=7)
    assert (stages[0].first_broken, stages[0].stages) == ("ranking", {"retrieval": "sound", "ranking": "broken"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,stage\nr1,retrieval\n", "no column request_id; it has id, stage"),
        ("request_id,labeler,first_broken\nr1,ada,everything\n", "line 2: first_broken 'everything' is not usable"),
        ("request_id,first_broken\nr1,none\n", "line 2 names no labeler"),
        ("request_id,labeler,first_broken\n,ada,none\n", "line 2 names no request_id"),
        ("request_id,labeler,first_broken,ranking\nr1,ada,none,broken\n", "line 2 says first_broken none"),
        ('{"request_id": "r1"\n', "line 1 is no JSON object"),
        ('{"request_id": "r1", "labeler": "a", "first_broken": "none"}\n[]\n', "line 2 is no JSON object"),
    ],
)
def test_a_file_that_cannot_be_used_names_the_line(text: str, message: str) -> None:
    """And what would do."""
    with pytest.raises(ConfigurationError, match=message):
        read_labels(text)


def test_corrected_rates_stand_in_a_report(labeled: Store) -> None:
    """A report has those of the last window with labels; a set of versions has its own, once they are computed."""
    drawing = draw_labels(labeled, "shop", WINDOW, 300)
    labeled.put_labels(label(each.request_id) for each in labeled.drawn_requests(drawing.drawing_id))
    assert triage_segment(labeled, "shop", None, WINDOW).corrected == ()
    rate = label_rates(labeled, drawing).stages[0].correction
    report = triage_segment(labeled, "shop", None, WINDOW)
    found = {each.stage: each for each in report.corrected}
    assert rate is not None
    assert (found["retrieval"].share, found["retrieval"].low) == (rate.rate, rate.low)
    assert f"retrieval {rate.rate:.1%} (" in markdown(report)
    assert f"retrieval {rate.rate:.1%} (" in corrected_text(found["retrieval"])
    later = Window.of(WINDOW.until + 31 * 86_400 * SECOND - 1, WINDOW.until + 31 * 86_400 * SECOND)
    assert triage_segment(labeled, "shop", None, later).corrected == ()
    own = corrected_shares_of(labeled, "shop", {"model": "m-1"})
    assert (own["retrieval"].share, own.keys()) == (rate.rate, found.keys())
    draw_labels(labeled, "shop", WINDOW, 40, versions={"model": "m-2"})
    assert corrected_shares_of(labeled, "shop", {"model": "m-2"}) == {}
