"""The recombining injector on the small knowledge base of a bicycle rental."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from bench.verdicts.model import Domain, Fault, Hit, Misled, Packed, Passage, Path, Question, Setup
from bench.verdicts.swap_injector import SwapInjector
from bench.verdicts.swap_texts import sentences, unmarked

_PASSAGES = (
    Passage(
        "pedalo-deposit",
        "Pedalo Rentals: deposit",
        "Customers of Pedalo Rentals leave something with us at the counter before they ride. The deposit is EUR 150 "
        "for a city bike and EUR 400 for a cargo bike. It is refunded within 5 days unless the bike comes back "
        "damaged.",
    ),
    Passage(
        "pedalo-hours",
        "Pedalo Rentals: opening hours",
        "The counters of Pedalo Rentals in Hamburg are open from Monday to Saturday. In winter they close at 17:00. "
        "On Sunday nobody is there, and bikes go back into the lockers behind the station.",
    ),
    Passage(
        "pedalo-insurance",
        "Pedalo Rentals: insurance",
        "Theft is insured when both locks were closed. The customer pays a share of EUR 90 for each claim. "
        "Punctures are not covered, and repairs of them are charged at EUR 12.",
    ),
    Passage(
        "velomax-deposit",
        "Velomax: deposit",
        "Customers of Velomax leave something with us at the counter before they ride. The deposit is EUR 200 for a "
        "city bike and EUR 350 for a cargo bike. It is refunded within 10 days.",
    ),
    Passage(
        "velomax-hours",
        "Velomax: opening hours",
        "The shop of Velomax in Bremen is open every day from nine in the morning. Lockers do not exist, so that bikes "
        "have to be handed over in person.",
    ),
    Passage(
        "velomax-insurance",
        "Velomax: insurance",
        "Every rental of Velomax includes insurance against theft with a share of EUR 60. Accidents on private ground "
        "are excluded. Damage must be reported within 24 hours.",
    ),
    Passage(
        "radhaus-repairs",
        "Radhaus: repairs",
        "Radhaus repairs bikes of all makes. A service costs EUR 75 and takes up to 3 days. Spare parts are ordered "
        "only if the customer has confirmed the estimate.",
    ),
    Passage(
        "radhaus-parts",
        "Radhaus: spare parts",
        "Chains, tires and brake pads are in stock at Radhaus. Parts for cargo bikes come from Denmark within 14 days.",
    ),
    Passage(
        "radhaus-trade",
        "Radhaus: trade-in",
        "Radhaus buys used bikes that are no older than 6 years and pays by bank transfer after an inspection.",
    ),
    Passage(
        "city-lanes",
        "City council: cycle lanes",
        "The council of Bremen opened 21 kilometers of cycle lanes in 2021. Cargo bikes may use them free of charge.",
    ),
)
_QUESTIONS = (
    Question(
        id="bike-01",
        kind="plain",
        question="What deposit does Pedalo Rentals take for a cargo bike?",
        asked="Pedalo deposit cargo bike",
        evidence=(frozenset({"pedalo-deposit"}),),
        answers=(
            "Pedalo Rentals takes EUR 400 for a cargo bike {pedalo-deposit}. The money is refunded within 5 days "
            "unless the bike comes back damaged {pedalo-deposit}. A city bike needs only EUR 150 {pedalo-deposit}.",
        ),
        made_up="A cargo bike at Pedalo Rentals needs EUR 999. Gold members pay half of that.",
        refusal="I am sorry, the documents say nothing about deposits.",
        misled=Misled("velomax-deposit", "The deposit is EUR 350 {velomax-deposit}."),
    ),
    Question(
        id="bike-02",
        kind="several",
        question="Where do Pedalo and Radhaus customers hear about prices of punctures and services?",
        evidence=(frozenset({"pedalo-insurance"}), frozenset({"radhaus-repairs"})),
        answers=(
            "A puncture costs EUR 12 at Pedalo {pedalo-insurance}. A service at Radhaus costs EUR 75 and takes up to 3 "
            "days {radhaus-repairs}.",
        ),
        made_up="Radhaus and Pedalo publish their prices in a printed catalog. It appears each spring.",
    ),
    Question(
        id="bike-03",
        kind="plain",
        question="How long has the council of Bremen built cycle lanes?",
        evidence=(frozenset({"city-lanes"}),),
        answers=("In 2021 the council of Bremen opened 21 kilometers of lanes {city-lanes}.",),
        made_up="Bremen began with its cycle lanes after the war. Its mayor rode the first of them.",
    ),
    Question(
        id="bike-04",
        kind="plain",
        question="Where are spare parts for cargo bikes from?",
        evidence=(frozenset({"radhaus-parts"}),),
        answers=("Radhaus gets them from Denmark, which takes up to 14 days {radhaus-parts}.",),
    ),
    Question(
        id="bike-05", kind="unanswerable", question="Who founded Velomax?", evidence=(), answers=("I do not know.",)
    ),
    Question(id="bike-06", kind="chit_chat", question="Thanks!", evidence=(), answers=("You are welcome.",)),
)
_DOMAIN = Domain("bikes", {passage.id: passage for passage in _PASSAGES}, _QUESTIONS, "handwritten")
_ORDERS = {
    "bike-01": "velomax-deposit pedalo-deposit pedalo-insurance pedalo-hours radhaus-parts city-lanes".split(),
    "bike-02": "pedalo-insurance radhaus-repairs velomax-insurance radhaus-parts pedalo-deposit city-lanes".split(),
}
_INJECTOR = SwapInjector()


def _path(question: Question) -> Path:
    first = [passage_id for group in question.evidence for passage_id in sorted(group)]
    order = _ORDERS.get(question.id, list(dict.fromkeys([*first, *_DOMAIN.passages]))[:6])
    hits = tuple(Hit(passage_id, 0.9 - 0.07 * place) for place, passage_id in enumerate(order))
    return Path(
        domain="bikes",
        question=question,
        setup=Setup(reranked=True, cites=True),
        candidates=hits,
        reranked=hits,
        packed=tuple(Packed(passage_id, _DOMAIN.passages[passage_id].chunk) for passage_id in order[:4]),
        answer=question.answers[0],
        dropped=dict.fromkeys(order[4:], "limit"),
    )


def _broken(fault: Fault, question: Question) -> list[Path]:
    tries = [_INJECTOR.inject(_path(question), _DOMAIN, fault, random.Random(seed)) for seed in range(12)]
    return [path for path in tries if path is not None]


def _whole(path: Path) -> set[str]:
    return {chunk.id for chunk in path.packed if chunk.text == _DOMAIN.passages[chunk.id].chunk}


def _fault_of(name: str) -> Fault:
    return next(fault for fault in _INJECTOR.faults if fault.name == name)


@pytest.mark.parametrize("fault", _INJECTOR.faults, ids=lambda fault: fault.name)
def test_fault_breaks_its_stage_and_none_before(fault: Fault) -> None:
    """What comes before the stage is whole, what the stage gives is not."""
    broken = [path for question in _QUESTIONS for path in _broken(fault, question)]
    assert broken
    for path in broken:
        groups = path.question.evidence
        found = {hit.id for hit in path.candidates}
        assert all(group & found for group in groups) == (fault.stage != "retrieval")
        assert all(group & _whole(path) for group in groups) == (fault.stage in ("generation", "citation"))
        sound = [unmarked(answer, _DOMAIN) for answer in path.question.answers]
        assert (re.sub(r" \{[^}]+\}", "", path.answer) in sound) == (fault.stage == "citation")
        assert path.answer not in path.question.answers


@pytest.mark.parametrize("fault", _INJECTOR.faults, ids=lambda fault: fault.name)
def test_lists_stay_those_of_a_pipeline(fault: Fault) -> None:
    """Candidates are as many as before, each once, best score first, and the prompt holds none but them."""
    for path in (path for question in _QUESTIONS for path in _broken(fault, question)):
        for hits in (path.candidates, path.reranked or ()):
            scores = [hit.score for hit in hits]
            assert scores == sorted(scores, reverse=True)
            assert len({hit.id for hit in hits}) == len(hits) == 6
        assert path.packed
        assert {chunk.id for chunk in path.packed} <= {hit.id for hit in path.candidates}
        assert not path.dropped.keys() & {chunk.id for chunk in path.packed}


@pytest.mark.parametrize("fault", _INJECTOR.faults, ids=lambda fault: fault.name)
def test_same_seed_gives_same_path(fault: Fault) -> None:
    """Nothing but the generator decides."""
    assert _broken(fault, _QUESTIONS[0]) == _broken(fault, _QUESTIONS[0])


def test_paths_without_a_way_are_left() -> None:
    """Small talk has nothing to break, a refusal that is right no evidence to lose, and a broken path is not sound."""
    for fault in _INJECTOR.faults:
        assert not _broken(fault, _QUESTIONS[5])
        if fault.stage != "generation":
            assert not _broken(fault, _QUESTIONS[4])
        lost = replace(_path(_QUESTIONS[0]), packed=(Packed("radhaus-parts", _DOMAIN.passages["radhaus-parts"].chunk),))
        assert _INJECTOR.inject(lost, _DOMAIN, fault, random.Random(1)) is None
        uncited = replace(_path(_QUESTIONS[0]), setup=Setup(), reranked=None)
        if fault.stage == "citation" or fault.name in ("reranked_by_length", "reversed_ranking"):
            assert _INJECTOR.inject(uncited, _DOMAIN, fault, random.Random(1)) is None


def test_answers_downstream_cite_the_prompt_only() -> None:
    """What is written from a broken prompt carries no mark of a passage that is not in it."""
    for fault in _INJECTOR.faults[:11]:
        for path in _broken(fault, _QUESTIONS[0]):
            marks = set(re.findall(r"\{([^}]+)\}", path.answer))
            assert marks <= {chunk.id for chunk in path.packed}


def test_cut_takes_the_answer_away() -> None:
    """Neither a budget's cut nor a summary leaves the deposit in the prompt's evidence."""
    for name in ("budget_cut", "summary_only"):
        for path in _broken(_fault_of(name), _QUESTIONS[0]):
            kept = next(chunk for chunk in path.packed if chunk.id == "pedalo-deposit")
            assert "400" not in kept.text
            assert kept.truncated == (name == "budget_cut")


def test_lost_source_takes_its_neighbors_along() -> None:
    """Nothing with the evidence's title prefix is found any more."""
    for path in _broken(_fault_of("lost_source"), _QUESTIONS[0]):
        assert not any(hit.id.startswith("pedalo") for hit in path.candidates)


def test_exaggeration_drops_the_condition() -> None:
    """The refund's condition gives way to its contrary."""
    answers = {path.answer for path in _broken(_fault_of("exaggerated"), _QUESTIONS[0])}
    assert any("without any exception" in answer and "unless" not in answer for answer in answers)


def test_marks_point_to_what_does_not_hold_the_claim() -> None:
    """Permuted marks stand at other packed passages, ghosts at none, and the last mark stays alone."""
    for path in _broken(_fault_of("permuted_marks"), _QUESTIONS[1]):
        first, second = sentences(path.answer)
        assert "{pedalo-insurance}" not in first
        assert "{radhaus-repairs}" not in second
    assert all("{ghost-1}" in path.answer for path in _broken(_fault_of("ghost_marks"), _QUESTIONS[0]))
    assert {path.answer.count("{") for path in _broken(_fault_of("last_mark_only"), _QUESTIONS[1])} == {1}
