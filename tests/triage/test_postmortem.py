"""The postmortem's draft."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.traffic import MINUTE, SERVICE, Break
from ragtrace.triage import read_payload
from ragtrace.triage.postmortem import postmortem
from tests.triage.conftest import END, START, WINDOW
from tests.triage.test_alerts import alert, payload

if TYPE_CHECKING:
    from tests.triage.conftest import Fill

TITLES = ["Summary", "Failure chain", "Timeline", "Blast radius", "Cause", "Recovery proof", "Prevention", "Evidence"]


def sections(page: str) -> dict[str, str]:
    """The text under each title."""
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in page.split("\n## ")[1:]}


def test_a_break_that_is_over_fills_the_template(fill: Fill) -> None:
    """Chain, timeline with releases and alert, radius by segment and tenants, proof of recovery, tasks of the stage."""
    store = fill(Break("retrieval", 0.6, 0.55, 0.8, component="index", segment="limit"), count=1200)
    (one,) = read_payload(payload(alert(stage="retrieval") | {"startsAt": "2023-11-14T20:50:00Z"})).alerts
    found = sections(postmortem(store, SERVICE, "limit", WINDOW, alert=one, now=END))
    assert list(found) == TITLES
    assert "| retrieval | first failed | 0 of" in found["Failure chain"]
    assert "facets unmet" in found["Failure chain"]
    events = [line for line in found["Timeline"].splitlines() if line.startswith("| 11-14")]
    words = ("release index=index-bad", "begins", "alert", "better")
    assert [word for line in events for word in words if word in line] == list(words)
    assert "From the beginning to the alert:" in found["Timeline"]
    assert "| limit | recovered |" in found["Blast radius"]
    assert "| deadline | good |" in found["Blast radius"]
    assert "Tenants with a broken request: 5." in found["Blast radius"]
    assert "index=index-bad" in found["Cause"]
    assert "Back within the objective" in found["Recovery proof"]
    assert "retrieval (retrieval-indexing):" in found["Prevention"]
    assert "ragtrace show" in found["Evidence"]


def test_a_release_stands_before_the_break_of_the_same_moment(fill: Fill) -> None:
    """Its first request is the first bad one; and the draft says which year that was."""
    page = postmortem(fill(Break("ranking", 1.0, 0.7, component="packer")), SERVICE, None, WINDOW, now=END)
    rows = [line for line in sections(page)["Timeline"].splitlines() if line.startswith("| 11-14")]
    assert ["release" in rows[0], "begins to break" in rows[1]] == [True, True]
    assert rows[0].split(" | ")[0] == rows[1].split(" | ")[0]
    assert "Draft of 2023-11-14 22:13:20Z" in page


def test_a_break_that_goes_on_is_not_called_recovered(fill: Fill) -> None:
    """It is said, and the end is open."""
    found = sections(postmortem(fill(Break("ranking", 0.6, 0.7)), SERVICE, None, WINDOW, now=END))
    assert "Not recovered yet" in found["Recovery proof"]
    assert "ended: not seen yet" in found["Summary"]


def test_an_end_that_is_not_proven_is_not_stated(fill: Fill) -> None:
    """The share fell, and too few requests came since then: no end, no duration, a break as long as the time."""
    page = postmortem(fill(Break("retrieval", 0.6, 0.55, 0.99)), SERVICE, None, WINDOW, now=END)
    found = sections(page)
    assert "Not enough data to tell" in found["Recovery proof"]
    assert "ended: not proven, better since 11-14 22:1" in found["Summary"]
    assert "lasted:" not in found["Summary"]
    assert "that it has recovered is not proven" in found["Timeline"]
    assert "of 268 broken" in found["Blast radius"].splitlines()[1]
    assert "of 6 broken" in found["Recovery proof"]


def test_a_segment_without_proof_of_its_own_is_not_called_broken(fill: Fill) -> None:
    """The service has recovered for certain; a third of its requests is too few to say so of each segment."""
    found = sections(postmortem(fill(Break("retrieval", 0.6, 0.55, 0.97)), SERVICE, None, WINDOW, now=END))
    assert "lasted:" in found["Summary"]
    assert found["Blast radius"].count("| broke; better, not proven |") == 3


def test_an_alert_whose_end_no_clock_shows_is_drawn_without_it(fill: Fill) -> None:
    """Its beginning is an event, its end is none yet."""
    over = alert() | {"status": "resolved", "endsAt": "9999-12-31T23:59:59-23:00"}
    (one,) = read_payload(payload(over)).alerts
    timeline = sections(postmortem(fill(Break("ranking", 0.6, 0.7)), SERVICE, None, WINDOW, alert=one, now=END))
    assert "fires" in timeline["Timeline"]
    assert "resolved" not in timeline["Timeline"]


def test_what_is_unknown_stays_a_blank(fill: Fill) -> None:
    """People fill severity, harm, root cause and who does what; no tenant was recorded."""
    found = sections(postmortem(fill(Break("ranking", 0.6, 0.7), tenants=0), SERVICE, None, WINDOW, now=END))
    for title in ("Summary", "Timeline", "Blast radius", "Cause", "Prevention"):
        assert "**[fill in: " in found[title]
    assert "no request carried one" in found["Blast radius"]


def test_the_chain_shows_what_was_dragged_along(fill: Fill) -> None:
    """A missing chunk is also missing in the prompt: ranking is bad after it, not by itself."""
    found = sections(postmortem(fill(Break("retrieval", 1.0, 0.7)), SERVICE, None, WINDOW, now=END))
    assert "| ranking | after it | 0 of 420 (0 %) | 180 of 180 (100 %) |" in found["Failure chain"]


def test_without_a_break_nothing_is_claimed(fill: Fill) -> None:
    """A draft all the same, with tasks for each stage to choose from."""
    page = postmortem(fill(), SERVICE, None, WINDOW, now=END)
    assert list(sections(page)) == TITLES
    assert "No break is confirmed" in page
    assert "Nothing is confirmed to be broken" in page


def test_releases_outside_of_the_time_are_left_out(fill: Fill) -> None:
    """A release of last month is no event of this incident."""
    store = fill(Break("ranking", 0.6, 0.7, component="packer"))
    store.record_release(SERVICE, "model", "m-0", START - 60 * 24 * 40 * MINUTE)
    store.record_release(SERVICE, "model", "m-1", START - 60 * 24 * 30 * MINUTE)
    timeline = sections(postmortem(store, SERVICE, None, WINDOW, now=END))["Timeline"]
    assert "packer=packer-bad" in timeline
    assert "model=m-1" not in timeline
