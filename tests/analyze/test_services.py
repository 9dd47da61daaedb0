"""What a worker learns of services: whether they cite, so that a collapse is seen, and what they usually return."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ragtrace.analyze import analyze_record, worker
from ragtrace.analyze._doubt_model import log_odds_of
from ragtrace.analyze.analysis import ServiceView, examine
from ragtrace.analyze.services import KEPT, Services
from ragtrace.coverage import Background
from ragtrace.store import ServiceTraffic, Store
from ragtrace.store._erasure import Subject
from ragtrace.types import Analysis, Candidate, RequestRecord, RetrieveRun, StageState, replace
from tests.analyze.examples import request

CITED = "We pay up to €5,000 for escape of water [1]. Home Plus pays it in Ireland [1]."
PLAIN = CITED.replace(" [1]", "")
STRAY = "We pay up to €5,000 for escape of water. Home Plus pays it in Ireland [1]."
DANGLING = CITED.replace("[1]", "[7]")


def ask(store: Store, name: str, answer: str, count: int, **fields: Any) -> list[str]:
    """Write requests with this answer, which began now; returns their ids."""
    now = time.time_ns()
    ids = [f"{name}{at:02}" for at in range(count)]
    store.write([replace(request(answer=answer, request_id=each, ended_at=now), **fields) for each in ids])
    return ids


def states(store: Store, ids: list[str]) -> set[StageState | None]:
    """The states of citation in these requests; None where it is no stage."""
    return {_analysis(store, each).diagnosis.state("citation") for each in ids}


def _analysis(store: Store, request_id: str) -> Analysis:
    found = store.get_analysis(request_id)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("said", "known", "answer", "is_judged"),
    [
        (True, None, PLAIN, True),
        (True, False, PLAIN, True),
        (False, True, CITED, False),
        (None, True, PLAIN, True),
        (None, False, STRAY, False),
        (None, False, CITED, False),
        (None, None, CITED, True),
        (None, None, PLAIN, False),
        (None, None, DANGLING, False),
    ],
)
def test_which_answers_are_judged_by_citations(
    said: bool | None, known: bool | None, answer: str, is_judged: bool
) -> None:
    """As the host says, else as is known of the service, else where the answer itself cites a chunk of its prompt."""
    found = analyze_record(replace(request(answer=answer), cites=said), service=ServiceView(cites=known))
    assert (found.diagnosis.state("citation") is not None) == is_judged
    (score,) = [score for score in found.scores if score.metric == "citation_coverage"]
    assert (score.reason == "not_citing") == (not is_judged)


def test_a_collapse_of_citations_is_seen(store: Store) -> None:
    """Thirty answers that cite, then ten that do not: citation is what broke in these, by the next worker as well."""
    cited = ask(store, "cited", CITED, 30)
    worker.run(store)
    assert states(store, cited) == {"sound"}
    plain = ask(store, "plain", PLAIN, 10)
    worker.run(store)
    assert states(store, plain) == {"broken"}
    assert {_analysis(store, each).diagnosis.verdict for each in plain} == {"citation_failure"}
    totals = {each.name: each.value for each in store.totals() if dict(each.labels).get("stage") == "citation"}
    assert (totals["ragtrace_sli_requests_total"], totals["ragtrace_sli_good_requests_total"]) == (40.0, 30.0)


def test_a_stray_mark_makes_no_service_cite(store: Store) -> None:
    """One "[1]" in twenty answers: neither those nor the others are judged by citations, once twenty have come."""
    for at in range(5):
        ask(store, f"plain{at}", PLAIN, 19)
        ask(store, f"stray{at}", STRAY, 1)
    worker.run(store)
    assert store.citing()["s"].cites is False
    later = [*ask(store, "stray", STRAY, 3), *ask(store, "plain", PLAIN, 3)]
    worker.run(store)
    assert states(store, later) == {None}
    assert not any(row.verdict == "citation_failure" for row in store.find_requests(limit=200))


def test_marks_that_name_no_chunk_are_not_learned_from(store: Store) -> None:
    """`[7]` beside one packed chunk may be anything: an index in code, a footnote."""
    ask(store, "odd", DANGLING, 30)
    worker.run(store)
    assert store.citing()["s"].cites is False


def test_stored_requests_are_judged_again(store: Store) -> None:
    """Those that came before the service counted as citing, on demand; they count in no total a second time."""
    early = ask(store, "early", PLAIN, 3)
    worker.run(store)
    assert states(store, early) == {None}
    ask(store, "cited", CITED, 30)
    worker.run(store)
    before = {(each.name, each.labels): each.value for each in store.totals() if "sli" in each.name}
    assert store.redo(service="s", again=True) == 33
    worker.run(store)
    assert states(store, early) == {"broken"}
    assert {(each.name, each.labels): each.value for each in store.totals() if "sli" in each.name} == before


def test_an_operator_says_that_a_service_cites_no_more(store: Store) -> None:
    """What began before is not learned from again, not even when it is judged again; so its lack of citations is no
    break."""
    ask(store, "cited", CITED, 30)
    worker.run(store)
    plain = ask(store, "plain", PLAIN, 10)
    worker.run(store)
    assert store.forget_citing("s")
    store.redo(service="s", again=True)
    worker.run(store)
    assert states(store, plain) == {None}
    assert store.citing()["s"].cites is None
    ask(store, "later", PLAIN, 20)
    worker.run(store)
    assert store.citing()["s"].cites is False


def test_what_a_request_says_goes_before_what_is_known(store: Store) -> None:
    """A request that is not meant to cite is no failure of a service that cites."""
    ask(store, "cited", CITED, 30)
    worker.run(store)
    said = ask(store, "said", PLAIN, 3, cites=False)
    worker.run(store)
    assert states(store, said) == {None}


def test_services_are_learned_apart(store: Store) -> None:
    """One that cites does not make another one cite."""
    ask(store, "cited", CITED, 30)
    other = ask(store, "other", PLAIN, 5, service="t")
    worker.run(store)
    assert states(store, other) == {None}
    assert (store.citing()["s"].cites, store.citing()["t"].cites) == (True, None)


# what a service usually returns


COMMON = "Bicycles and burst pipes."


def text(number: int) -> str:
    """A chunk's text with a word of its own."""
    return f"Bicycles of type {chr(97 + number // 26)}{chr(97 + number % 26)}ormont."


def found(number: int) -> RequestRecord:
    """A request that found a chunk of its own, with a score above 0, and one that all find."""
    own = Candidate(chunk_id=f"c{number}", rank=1, score=number + 1.0, text=text(number))
    common = Candidate(chunk_id="common", rank=2, score=0.0, text=COMMON)
    return request(RetrieveRun(candidates=(own, common)), request_id=f"r{number}")


def note(services: Services, *records: RequestRecord, odds: dict[str, float] | None = None) -> None:
    """Take these requests up, as after their analysis."""
    services.load({record.service for record in records})
    services.note(
        [(record, Analysis(request_id=record.request_id, analyzer_version="v"), odds or {}) for record in records]
    )


def test_what_one_worker_learns_the_next_one_knows(store: Store) -> None:
    """Words by the number of chunks; each chunk counts once."""
    note(Services(store, "judge"), found(0), found(1), found(1))
    services = Services(store, "judge")
    services.load(["s"])
    view = services.view(found(3))
    assert view.background == Background.of([text(0), text(1), COMMON])
    assert services.view(replace(found(3), service="t")) == ServiceView()


def test_the_scores_of_a_retriever_never_acquit_it(store: Store) -> None:
    """The same chunks are as much in doubt whether their scores are the best or the worst that the service has."""
    services = Services(store, "judge")
    note(services, *(found(number) for number in range(60)))
    doubts = set()
    for score in (60.0, 1.0, None):
        scored = tuple(replace(each, score=score) for each in found(30).candidates[:1]) + found(30).candidates[1:]
        record = request(RetrieveRun(candidates=scored))
        _, case = examine(record, service=services.view(record))
        odds = log_odds_of(case.signs)
        doubts.add((odds["RETRIEVAL"], odds["ACQUITTAL"]))
    assert len(doubts) == 1


def test_what_was_learned_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many chunks at the most."""
    monkeypatch.setattr("ragtrace.analyze.services.ENOUGH", 5)
    note(Services(store, "judge"), *(found(number) for number in range(20)))
    kept = store.traffic("s")
    assert kept is not None
    assert len(kept.seen) == 5


def test_doubts_are_kept_by_what_judged(store: Store) -> None:
    """The newest of each score, so many at the most; those of another judge are not compared with them."""
    services = Services(store, "one")
    note(services, *(found(number) for number in range(3)), odds={"RANKING": 0.5})
    note(services, found(4), odds={"GENERATION": -1.0})
    fresh = Services(store, "one")
    fresh.load(["s"])
    assert fresh.view(found(1)).usual == {"RANKING": (0.5, 0.5, 0.5), "GENERATION": (-1.0,)}
    other = Services(store, "two")
    other.load(["s"])
    assert other.view(found(1)).usual == {}
    note(other, *(found(number) for number in range(KEPT + 40)), odds={"RANKING": 1.0})
    assert len(other.view(found(1)).usual["RANKING"]) == KEPT


def test_doubts_of_flagged_requests_are_not_usual(store: Store) -> None:
    """They were kept because something was wrong with them."""
    services = Services(store, "judge")
    note(services, replace(found(1), head_sampled=False, flags=("bad_feedback",)), odds={"RANKING": 0.5})
    assert services.view(found(1)).usual == {}


def test_replayed_requests_are_judged_without_what_is_usual(store: Store) -> None:
    """Two runs of the same questions are compared, and one is analyzed after the other."""
    services = Services(store, "judge")
    run = replace(found(1), attributes={"ragtrace.replay.run": "main"})
    note(services, run, odds={"RANKING": 0.5})
    assert services.view(found(1)).usual == {}
    note(services, found(2), odds={"RANKING": 0.7})
    assert services.view(found(1)).usual == {"RANKING": (0.7,)}
    assert services.view(run).usual == {}


def test_what_was_erased_is_not_written_again(store: Store) -> None:
    """Neither by a worker that still knows it, nor by one that was in the middle of a batch; it is learned anew."""
    store.write([replace(request(request_id="r1"), tenant_id="acme")])
    idle, busy = Services(store, "judge"), Services(store, "judge")
    note(idle, found(1))
    busy.load(["s"])
    store.erase(Subject(tenant="acme"))
    busy.note([(found(number), Analysis(request_id="r", analyzer_version="v"), {}) for number in range(2, 9)])
    assert store.traffic("s") is None
    note(idle, found(9))
    kept = store.traffic("s")
    assert kept is not None
    assert (kept.requests, len(kept.seen)) == (1, 2)


def test_two_workers_keep_what_knows_more(store: Store) -> None:
    """A worker that has seen less takes over what another one kept."""
    store.save_traffic("s", ServiceTraffic(counts={1: 1}, requests=50, made_at=time.time_ns() + 10**9))
    services = Services(store, "judge")
    note(services, found(1))
    kept = store.traffic("s")
    assert kept is not None
    assert kept.requests == 50
    note(services, *(found(number) for number in range(2, 12)))
    grown = store.traffic("s")
    assert grown is not None
    assert grown.requests == 61
