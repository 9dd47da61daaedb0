"""What a probe of the index finds for a request: four causes, what is no better evidence, and when it tells nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ragtrace.errors import ConfigurationError, ProbeError
from ragtrace.probe import CallableProbe, ask, cause_of, compare, load_probe
from ragtrace.types import Candidate, Facet, GenerateRun, Generation, Query, RequestRecord, RetrieveRun, replace
from tests.club import CHUNKS

FEE = "What is the annual mooring fee for a keelboat under nine metres?"
OTHERS = ["mooring-swing", "keys", "dogs", "kitchen", "vhf", "storm", "night", "library"]


def hits(*names: str) -> list[dict[str, Any]]:
    """Chunks as a host's search returns them."""
    return [{"id": name, "text": CHUNKS[name], "score": 1.0 - place / 100} for place, name in enumerate(names)]


def request(
    *found: str, question: str = FEE, top_k: int = 3, facets: Sequence[Facet] = (), **given: Any
) -> RequestRecord:
    """A request that found these chunks."""
    candidates = tuple(Candidate(chunk_id=name, rank=rank, text=CHUNKS[name]) for rank, name in enumerate(found, 1))
    return RequestRecord(
        request_id="r",
        service="club",
        query=Query(original=question, facets=tuple(facets)),
        stages=(RetrieveRun(query=question, top_k=top_k, candidates=candidates),),
        **given,
    )


def answered_with(record: RequestRecord, answer: str) -> RequestRecord:
    """The request with an answer."""
    return replace(record, stages=(*record.stages, GenerateRun(generation=Generation(answer=answer))))


def probe(own: Sequence[str], exact: Sequence[str] | None, **given: Any) -> CallableProbe:
    """A probe whose own search returns the one order, and an exact one the other."""
    return CallableProbe(
        search=lambda query, depth: hits(*own)[:depth],
        exact=None if exact is None else lambda query, depth: hits(*exact)[:depth],
        **given,
    )


def found(asked: CallableProbe, record: RequestRecord, **given: Any) -> Any:
    """The finding."""
    return compare(asked, record, ask(asked, record), **given)


GOLD: dict[str, Any] = {"lost": ["mooring-fee"], "by_gold": True}


def test_a_chunk_that_an_exact_search_ranks_in_time_was_missed() -> None:
    """Rank 2 of an exact search, three asked for, and the application's own search never has it."""
    asked = probe(OTHERS, [OTHERS[0], "mooring-fee", *OTHERS[1:]])
    told = found(asked, request(*OTHERS[:3]), **GOLD)
    assert (told.outcome, told.cause, told.depth, told.asked) == ("found", "missed_by_search", 3, 30)
    assert [(one.chunk_id, one.rank, one.exact_rank) for one in told.chunks] == [("mooring-fee", None, 2)]


def test_a_chunk_below_the_depth() -> None:
    """Both searches have it at rank 5; three were asked for."""
    order = [*OTHERS[:4], "mooring-fee", *OTHERS[4:]]
    told = found(probe(order, order), request(*OTHERS[:3]), **GOLD)
    assert (told.cause, told.chunks[0].rank, told.chunks[0].exact_rank) == ("below_depth", 5, 5)


def test_what_a_filter_leaves_out_before_it_does_not_count_against_its_rank() -> None:
    """It is fourth of all and third of those that pass: a search of three would have had to return it."""
    order = [OTHERS[7], *OTHERS[:2], "mooring-fee", *OTHERS[2:7]]
    asked = probe(OTHERS[:7], order, passes=lambda name: name != OTHERS[7])
    assert found(asked, request(*OTHERS[:3]), **GOLD).cause == "missed_by_search"


def test_a_chunk_that_the_filters_do_not_let_through() -> None:
    """It would be first."""
    asked = probe(OTHERS, ["mooring-fee", *OTHERS], passes=lambda name: name != "mooring-fee")
    assert found(asked, request(*OTHERS[:3]), **GOLD).cause == "filtered"


def test_a_chunk_that_is_not_in_the_index() -> None:
    """No search has it, and the index does not know it; one that the index knows ranks deeper than was asked."""
    told = [
        found(probe(OTHERS, OTHERS, contains=lambda chunk, known=known: known), request(*OTHERS[:3]), **GOLD)
        for known in (False, True)
    ]
    assert [one.cause for one in told] == ["not_indexed", "below_depth"]


def test_without_an_exact_search_only_depth_is_told() -> None:
    """A chunk that the deeper search has ranks too low; one that it lacks may be anything that `has` does not deny."""
    deep = found(probe([*OTHERS[:3], "mooring-fee"], None), request(*OTHERS[:3]), **GOLD)
    assert (deep.cause, deep.exact) == ("below_depth", False)
    nowhere = found(probe(OTHERS, None), request(*OTHERS[:3]), **GOLD)
    assert (nowhere.outcome, nowhere.cause) == ("found", None)


def test_what_the_same_search_returns_today_has_no_cause() -> None:
    """The index may have got it since; a probe proves nothing then."""
    order = [OTHERS[0], "mooring-fee", *OTHERS[1:]]
    told = found(probe(order, order), request(*OTHERS[:3]), **GOLD)
    assert (told.cause, told.chunks[0].rank) == (None, 2)


def test_a_filter_behind_the_search_removes_what_the_search_returns() -> None:
    """The probe's own search has it in time; the application dropped it afterwards."""
    order = [OTHERS[0], "mooring-fee", *OTHERS[1:]]
    asked = probe(order, order, passes=lambda name: name != "mooring-fee")
    assert found(asked, request(*OTHERS[:3]), **GOLD).cause == "filtered"


def test_another_version_or_another_search_tells_nothing() -> None:
    """Neither an index that was built since, nor a probe that searches in another way, blames anybody."""
    order = ["mooring-fee", *OTHERS]
    later = found(probe(OTHERS, order, version="2"), request(*OTHERS[:3], versions={"index": "1"}))
    assert (later.outcome, later.index_version, later.cause) == ("another_version", "2", None)
    assert found(probe(["library", "night", "storm"], order), request(*OTHERS[:3])).outcome == "other_search"
    same = found(probe(OTHERS, order, version=lambda: "1"), request(*OTHERS[:3], versions={"index": "1"}))
    assert (same.outcome, same.cause) == ("found", "missed_by_search")


def test_without_gold_the_words_of_the_question_find_the_evidence() -> None:
    """A chunk that holds far more of them than any candidate is named, with its share."""
    told = found(probe(OTHERS, [OTHERS[0], "mooring-fee", *OTHERS[1:]]), request(*OTHERS[:3]))
    assert (told.cause, told.chunks[0].chunk_id, told.by_gold) == ("missed_by_search", "mooring-fee", False)
    assert told.chunks[0].match > 0.8


PARKING: dict[str, Any] = {"question": "Where may a member leave the cover of a boat tied down behind the hall?"}


def test_what_an_exact_search_ranks_above_all_candidates_needs_fewer_words_of_the_question() -> None:
    """Three tenths of them are enough; more are needed further down, and where a filter was to remove it perhaps."""
    first, second = (
        found(probe(OTHERS, order), request(*OTHERS[:3], **PARKING))
        for order in (["dinghy-park", *OTHERS], [OTHERS[0], "dinghy-park", *OTHERS[1:]])
    )
    assert (first.outcome, first.cause, first.chunks[0].chunk_id) == ("found", "missed_by_search", "dinghy-park")
    assert second.outcome == "nothing_better"
    filtered = probe(OTHERS, ["dinghy-park", *OTHERS], passes=lambda name: name != "dinghy-park")
    assert found(filtered, request(*OTHERS[:3], **PARKING)).outcome == "nothing_better"


def test_what_repeats_a_candidate_is_no_better_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same text under another id, of which an exact search returns the one or the other first."""
    monkeypatch.setitem(CHUNKS, "dinghy-copy", CHUNKS["dinghy-park"])
    order = ["dinghy-copy", "dinghy-park", *OTHERS]
    told = found(probe(["dinghy-park", *OTHERS], order), request("dinghy-park", *OTHERS[:2], **PARKING))
    assert told.outcome == "nothing_better"


def test_what_an_exact_search_ranks_first_was_missed_whatever_words_say() -> None:
    """The application's own search lacks its very best chunk; it shares a word with the question, as others do."""
    question = "Is there a place on land for small boats in winter, on some grass?"
    told = found(probe(OTHERS, ["dinghy-park", *OTHERS]), request(*OTHERS[:3], question=question))
    assert (told.outcome, told.cause, told.chunks[0].chunk_id) == ("found", "missed_by_search", "dinghy-park")
    chat = "Thank you so much, that was a great help!"
    assert (
        found(probe(OTHERS, ["dinghy-park", *OTHERS]), request(*OTHERS[:3], question=chat)).outcome == "nothing_better"
    )


def test_an_exact_search_by_other_scores_proves_nothing_by_its_ranks() -> None:
    """It ranks the candidates in another order than the application's own search."""
    question = "Is there a place on land for small boats in winter, on some grass?"
    other = probe(OTHERS, ["dinghy-park", *reversed(OTHERS)])
    assert found(other, request(*OTHERS[:3], question=question)).outcome == "nothing_better"


def test_an_answer_that_declines_has_lost_what_another_exact_search_ranks_first() -> None:
    """Whose scores are not the application's, since it lacks most of the candidates: then words say of an answer that
    claims something whether it may rest on others."""
    question = "Is there a place on land for small boats in winter?"
    order = ["dinghy-park", OTHERS[0]]
    refused, claimed = (
        found(probe(OTHERS, order), answered_with(request(*OTHERS[:3], question=question), answer))
        for answer in ("I could not find anything about that in the documents.", "Boats lie on the grass.")
    )
    assert (refused.outcome, refused.cause) == ("found", "missed_by_search")
    assert claimed.outcome == "nothing_better"


def test_a_request_that_has_its_evidence_lacks_nothing() -> None:
    """The same index, and the evidence is among the candidates."""
    order = ["mooring-fee", *OTHERS, *[name for name in CHUNKS if name not in OTHERS and name != "mooring-fee"]]
    told = found(probe(order, order), request("mooring-fee", *OTHERS[:2]))
    assert (told.outcome, told.chunks) == ("nothing_better", ())


def test_a_question_of_few_words_proves_nothing() -> None:
    """Two words stand together in many a chunk."""
    order = ["mooring-fee", *OTHERS]
    assert found(probe(OTHERS, order), request(*OTHERS[:3], question="mooring fee?")).outcome == "nothing_better"


def test_another_value_of_a_facet_is_no_better_evidence() -> None:
    """The rates of another year share all words with the question."""
    old, new = "Mooring fees of 2019: a keelboat pays 500 euros.", "Berth prices are set by the board."
    record = RequestRecord(
        request_id="r",
        service="club",
        query=Query(original="What are the mooring fees of a keelboat in 2024?"),
        stages=(RetrieveRun(top_k=1, candidates=(Candidate(chunk_id="new", rank=1, text=new),)),),
    )
    asked = CallableProbe(
        search=lambda query, depth: [{"id": "new", "text": new}],
        exact=lambda query, depth: [{"id": "old", "text": old}, {"id": "new", "text": new}],
    )
    facet = Facet(kind="time", value="2024")
    assert found(asked, record, facets=[facet]).outcome == "nothing_better"
    assert found(asked, record).outcome == "found"  # without the facet its words would have made it evidence


def test_a_certain_facet_that_only_the_index_meets() -> None:
    """It makes a chunk evidence that holds no more of the question's words than the candidates."""
    texts = {"a": "The regatta rules of edition 2.0 name the start.", "b": "The regatta rules of edition 3.1 name it."}
    record = RequestRecord(
        request_id="r",
        service="club",
        query=Query(original="What do the regatta rules of edition 3.1 name?"),
        stages=(RetrieveRun(top_k=1, candidates=(Candidate(chunk_id="a", rank=1, text=texts["a"]),)),),
    )
    asked = CallableProbe(
        search=lambda query, depth: [{"id": "a", "text": texts["a"]}],
        exact=lambda query, depth: [{"id": name, "text": text} for name, text in texts.items()],
    )
    facet = Facet(kind="version", value="3.1", source="query")
    told = found(asked, record, facets=[facet], certain=[facet])
    assert (told.cause, told.chunks[0].chunk_id, told.chunks[0].facet) == ("below_depth", "b", "version “3.1”")


def test_a_method_that_takes_the_request_gets_it() -> None:
    """A filter of one tenant needs it."""
    seen: list[str | None] = []

    def search(query: str, depth: int, request: RequestRecord) -> list[dict[str, Any]]:
        seen.append(request.tenant_id)
        return hits(*OTHERS)[:depth]

    record = request(*OTHERS[:3], tenant_id="t1")

    def passes(name: str, request: RequestRecord) -> bool:
        seen.append(request.tenant_id)
        return True

    asked = CallableProbe(search, passes=passes)
    answers = ask(asked, record)
    cause_of(asked, "mooring-fee", answers, record)
    assert set(seen) == {"t1"}
    assert len(seen) == 3


def test_what_a_probe_raises_or_returns_wrongly_has_one_name() -> None:
    """With the kind of the error, so that it can be counted."""

    def fails(query: str, depth: int) -> Any:
        raise ConnectionError("no route")

    with pytest.raises(ProbeError, match="ConnectionError: no route"):
        ask(CallableProbe(fails), request(*OTHERS[:3]))
    with pytest.raises(ProbeError, match="Unreadable"):
        ask(CallableProbe(lambda query, depth: 7), request(*OTHERS[:3]))


def test_every_query_of_a_request_is_asked_and_a_hidden_one_is_not() -> None:
    """A retriever that was called twice is asked twice; without the query's text there is nothing to ask."""
    record = request(*OTHERS[:3])
    two = RequestRecord(
        request_id="r",
        service="club",
        query=record.query,
        stages=(*record.stages, RetrieveRun(query="keelboat fee", top_k=2, candidates=record.candidates[:2])),
    )
    asked = probe(OTHERS, OTHERS)
    assert [(one.query, one.depth) for one in ask(asked, two)] == [(FEE, 3), ("keelboat fee", 2)]
    hidden = RequestRecord(request_id="r", service="club", stages=(RetrieveRun(candidates=record.candidates),))
    assert ask(asked, hidden) == []
    assert compare(asked, hidden, []).outcome == "other_search"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", r"probe 'nowhere' is not usable; give module:probe"),
        ("no_such_module:probe", "no module 'no_such_module'"),
        ("tests.club:nothing", "has no 'nothing'"),
        ("tests.club:CHUNKS", r"probe 'tests.club:CHUNKS': .*the methods probe\(query, depth, exact\)"),
    ],
)
def test_a_probe_that_is_none_is_refused(name: str, message: str) -> None:
    """With what is allowed."""
    with pytest.raises(ConfigurationError, match=message):
        load_probe(name)
