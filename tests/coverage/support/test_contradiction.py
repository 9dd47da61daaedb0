"""Claims that copy their evidence but for a value or a negation, and claims that only look like it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from ragtrace.coverage import judge_claims
from ragtrace.coverage.support._placement import NearbyWords, Placed, likeness
from ragtrace.types import Candidate, Claim, PackedChunk

GATA = "Therefore, GATA-3 is required for the maintenance of a normal number of stem cells and for their entry."
SURGERY = "No association was detected between bariatric surgery and fractures, cancer, or stroke."
DRAWER = "The receiver, despite not being tested on sheep, was found to be active in goats and deer of the valley."
COPY = "The software kits currently do not support the copy method."
WORKERS = "In 2008, the organized sector employed 27.5 million workers, of which 17.3 million worked for the state."
TURKEYS = "From 2005 to 2009, the pardoned turkeys were sent to a resort in California where they served as marshals."
BLOOD = "Thresholds of 135/85 at home were compared with clinic measurements over 140/90 in 53 children."


def judge(text: str, *chunks: str) -> Claim:
    """A claim judged by some chunks."""
    packed = [PackedChunk(chunk_id=str(at), position=at, text=chunk) for at, chunk in enumerate(chunks, start=1)]
    return judge_claims(text, packed)[0][0]


@pytest.mark.parametrize(
    ("said", "altered"),
    [
        (GATA, GATA.replace("is required", "is not required")),
        (SURGERY, SURGERY.replace("was detected", "was not detected")),
        (DRAWER, DRAWER.replace("was found", "was not found")),
        (COPY, COPY.replace("do not", "do")),
        (WORKERS, WORKERS.replace("27.5", "28.5")),
        (TURKEYS, TURKEYS.replace("2005", "1994")),
        (BLOOD, BLOOD.replace("135", "405")),
        (BLOOD, BLOOD.replace("53 children", "159 children")),
    ],
)
def test_one_altered_value_or_negation_is_found_in_a_long_sentence(said: str, altered: str) -> None:
    """Whatever else the sentence says, negations of its own included; the sentence itself is fine."""
    same, other = judge(said, said), judge(altered, said)
    assert (same.support or 0.0) > 0.9
    assert same.contradiction == 0.0
    assert (other.contradiction or 0.0) >= 0.5 or (other.support or 0.0) < 0.5
    assert other.reason is not None or (other.support or 0.0) <= 0.4


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        (
            "Adults may take at most 8 tablets in any 24-hour period.",
            "Take 1 or 2. Do not take more than 8 tablets in any 24-hour period.",
        ),
        (
            "Each party's aggregate liability is limited to the fees paid or payable in the 12 months before it.",
            "Neither party's aggregate liability shall exceed the fees paid or payable in the 12 months before it.",
        ),
        ("Check the cable of the wall socket.", "LINK red: no line; check the cable between wall socket and port."),
        ("Keep it for up to 3 days in the fridge.", "Do not keep it for longer than 3 days in the fridge."),
    ],
)
def test_a_negated_comparison_is_a_bound_and_a_semicolon_ends_a_negation(claim: str, evidence: str) -> None:
    """Neither denies what the claim says."""
    assert judge(claim, evidence).contradiction == 0.0


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("You may freeze it.", "Shake well. Do not freeze. Use within 14 days."),
        ("A downgrade to 4.1 is not possible.", "A downgrade to 4.1 is possible until you enable streaming exports."),
        ("The liability of a party shall exceed the fees.", "The liability of a party shall not exceed the fees."),
        ("It is 60% project and 40% exam.", "Assessment: 40% project, 60% exam."),
        ("Bake it for 20 min with the lid on.", "Bake it for 45 minutes with the lid on."),
    ],
)
def test_what_a_short_or_turned_sentence_opposes(claim: str, evidence: str) -> None:
    """All that stands around a negation in a short text stands in the other; figures change places."""
    assert (judge(claim, evidence).contradiction or 0.0) >= 0.5


def test_a_heading_turns_nothing_below_it() -> None:
    """ "Exceptions" above a sentence is no second negation of it."""
    heading = "Household policy, edition 3.2: Theft: exceptions\n"
    told = "We do not pay for the theft of jewelry that was left in a parked vehicle for more than 12 hours."

    assert judge(told.replace("do not pay", "pay"), heading + told).contradiction == pytest.approx(1.0, abs=0.3)
    assert judge(told, heading + told).contradiction == 0.0


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("The software kits do not currently support the copy method.", COPY),
        (
            "The roof is covered not only against hail but against storms.",
            "The roof is covered against hail and storms.",
        ),
        ("No, the roof is covered against hail.", "The roof of the house is covered against hail."),
        ("The coat is smooth with white marks.", "The coat is smooth, with or without white marks."),
        ("It should not exceed 28 % of gross monthly income.", "It is no more than 28 % of gross monthly income."),
        ("The kit fails to support the copy method.", "The kit does not support the copy method."),
        ("Cook it for 10 minutes, turning it once.", "Cook it for 5 to 10 minutes, turning it once."),
        ("The wall has an area of 15 square miles.", "The wall has an area of 15 square miles (39 km) in all."),
        (
            "The marriage act, enacted on 21 September 1996, was a federal law.",
            "The marriage act of 2013 was a federal law.",
        ),
        ("The law was passed on September 21, 1996.", "The law was passed on September 21, 1996. It fell in 2013."),
    ],
)
def test_what_the_evidence_says_in_another_order_is_no_contradiction(claim: str, evidence: str) -> None:
    """Moved negations, ones that negate nothing, other words that turn a meaning, and values beside the right one."""
    assert judge(claim, evidence).contradiction == 0.0


def test_a_chunk_that_says_so_outweighs_one_that_says_something_else() -> None:
    """Uncited: two recipes, two temperatures. Cited: each is held to its own word."""
    chunks = ("Preheat the oven to 450 °F and wait.", "Preheat the oven to 375 degrees and wait.")
    assert judge("Preheat the oven to 375 °F and wait.", *chunks).contradiction == 0.0
    assert judge("Preheat the oven to 375 °F and wait [2].", *chunks).contradiction == 0.0
    assert judge("Preheat the oven to 375 °F and wait [1].", *chunks).reason == "375 °F, the evidence says 450 °F"


def test_a_number_of_another_unit_contradicts_where_no_chunk_states_it() -> None:
    """Three years of one thing say nothing against three months of another that the prompt has as well."""
    booster = "After that a booster against distemper and parvovirus is due every three years."
    worming = "Adult dogs and outdoor cats should be wormed every three months."
    claim = "About four times a year, i.e. every three months."
    assert judge(claim, worming, booster).contradiction == 0.0
    assert (judge("A booster is due every three months.", booster).contradiction or 0.0) > 0.0


def test_a_claim_that_joins_two_sentences_is_compared_with_each() -> None:
    """The negated sentence is a small part of the claim, but the claim holds nearly all of it."""
    first = "Dilip Joshi is an Indian film, stage and television actor from Gondal."
    second = "He acts mostly in comedy and plays the role of a shopkeeper in a series that has run for fifteen years."
    joined = (
        f"{first[:-1]}, acts mostly in comedy and plays the role of a shopkeeper in a series that has run for years."
    )
    assert judge(joined, f"{first} {second}").contradiction == 0.0
    assert (judge(joined.replace("is an", "is not an"), f"{first} {second}").contradiction or 0.0) >= 0.5


def test_a_figure_that_is_written_the_same_is_stated() -> None:
    """Whether the point parts thousands is read from the text around it, of which a claim has little."""
    evidence = "Call Skarne De-icing on 131.750 at least ten minutes before off-blocks."
    told, other = (
        judge("Frequency: 131.750 (Skarne De-icing)", evidence),
        judge("Frequency: 131.570 (Skarne)", evidence),
    )
    assert (told.support or 0.0) > 0.5
    assert other.reason == "131.570 stands nowhere in the prompt"


def test_what_was_cut_from_a_packed_chunk_is_named_as_unselected() -> None:
    """The prompt does not hold it, the chunk does: it was lost in packing."""
    full = "The roof is insured. Bicycles are covered up to €900 in the whole of Europe."
    cut = PackedChunk(chunk_id="c", position=1, text="The roof is insured.", truncated=True)
    pool = [Candidate(chunk_id="c", rank=1, text=full)]
    claim = judge_claims("Bicycles are covered up to €900 in the whole of Europe.", [cut], pool)[0][0]
    assert (claim.support or 0.0) < 0.5
    assert claim.unselected_chunk == "c"
    whole = PackedChunk(chunk_id="c", position=1, text="The roof is insured.")
    assert judge_claims(claim.text, [whole], pool)[0][0].unselected_chunk is None


def test_likeness_needs_words_around_in_common_and_grows_with_them() -> None:
    """All of them for one place, fewer for another sentence, none for one word in common."""
    one = _around_value("Hail damage to the roof is paid up to 500 euros for each storm")
    other = _around_value("Hail damage to the roof is paid up to 700 euros at any time of the whole year")
    far = _around_value("Each bicycle is insured and costs 500 euros")
    assert likeness(one, one, 1.0) == pytest.approx(1.0)
    assert 0.0 < likeness(one, other, 1.0) < 1.0
    assert likeness(one, other, 0.5) < likeness(one, other, 1.0)
    assert likeness(one, far, 1.0) == 0.0


def _around_value(text: str) -> NearbyWords:
    """What stands around the first value of a text."""
    placed = Placed.read(text)
    assert placed.spans[0] is not None
    return placed.around(placed.spans[0])


WORDS = st.sampled_from("storm hail roof paid not never 7 9 2024 2025 days Cork only without . No, excluded".split())
TEXTS = st.lists(WORDS, min_size=1, max_size=14).map(" ".join)


@settings(max_examples=150)
@given(TEXTS, st.lists(TEXTS, max_size=3), TEXTS)
def test_another_chunk_never_lowers_support(answer: str, evidence: list[str], more: str) -> None:
    """Not even one that negates what the others say; contradiction stays in [0, 1]."""

    def judged(texts: list[str]) -> list[Claim]:
        packed = [PackedChunk(chunk_id=str(at), position=at, text=text) for at, text in enumerate(texts, start=1)]
        pool = [Candidate(chunk_id=str(at), rank=at, text=text) for at, text in enumerate([*evidence, more], start=1)]
        return [claim for claim in judge_claims(answer, packed, pool)[0] if claim.factual]

    for before, after in zip(judged(evidence), judged([*evidence, more]), strict=True):
        assert 0.0 <= (before.support or 0.0) <= (after.support or 0.0) + 1e-9 <= 1.0 + 1e-9
        assert 0.0 <= (after.contradiction or 0.0) <= 1.0


@pytest.mark.parametrize("part", ["not 7 ", "the roof is not paid 30 days ", "| 1 | 2 ", "No, "])
def test_long_texts_of_one_pattern_are_judged(part: str) -> None:
    """A hundred thousand characters of values and negations against as many."""
    long = part * (100_000 // len(part))
    claim = judge(long, long[: len(long) // 2])
    assert 0.0 <= (claim.support or 0.0) <= 1.0


@pytest.mark.parametrize(
    ("evidence", "altered", "faithful"),
    [
        (
            "Parcels are handed in at the counter before noon on the day of the fair. Stalls open at two.",
            "Parcels are to be handed in at the counter after noon on the day of the fair.",
            "Parcels are to be handed in at the counter by noon on the day of the fair.",
        ),
        (
            "A crew for the night shift has at least five rowers. Helmets are lent by the club.",
            "For the night shift a crew has at most five rowers.",
            "For the night shift a crew has five rowers or more.",
        ),
        (
            "Paint on the hull dries within 6 hours in summer. Sand it lightly before the second coat.",
            "In summer the paint on the hull dries within 6 days.",
            "In summer the paint on the hull dries within six hours.",
        ),
        (
            "The share of repaired sails rose by 4 percentage points in May.",
            "In May the share of repaired sails rose by 4 %.",
            "In May the share of repaired sails rose by four percentage points.",
        ),
        (
            "The jetty is locked unless the harbor master is on duty in the tower.",
            "The jetty is locked if the harbor master is on duty in the tower.",
            "The jetty is locked unless there is a harbor master on duty in the tower.",
        ),
        (
            "In spring Corran Boats acquired Teal Marine for nine million crowns.",
            "In spring Teal Marine acquired Corran Boats for nine million crowns.",
            "In spring Teal Marine was acquired by Corran Boats for nine million crowns.",
        ),
        (
            "The mast was carved by Ada Roe in 1911; her pupil Nils Brandt repaired it in 1954.",
            "Nils Brandt carved the mast in 1911, and Ada Roe repaired it in 1954.",
            "Ada Roe carved the mast in 1911, and Nils Brandt repaired it in 1954.",
        ),
        (
            "Harbor staff must report a leak within 24 hours to the authority.",
            "Harbor staff may report a leak within 24 hours to the authority.",
            "Harbor staff have to report a leak to the authority within 24 hours.",
        ),
        (
            "The supplier shall deliver the sails to the dock by Friday.",
            "The supplier can deliver the sails to the dock by Friday.",
            "The supplier must deliver the sails to the dock by Friday.",
        ),
        (
            "The board may waive the fee in cases of hardship.",
            "The board will always waive the fee in cases of hardship.",
            "The board can waive the fee in hardship cases.",
        ),
        (
            "The winch often leaks when the seal is older than two years.",
            "The winch always leaks when the seal is older than two years.",
            "The winch frequently leaks when the seal is older than two years.",
        ),
        (
            "Most stalls of the fair close at noon on Saturdays.",
            "All stalls of the fair close at noon on Saturdays.",
            "The majority of the fair's stalls close at noon on Saturdays.",
        ),
        (
            "Rowers need at least five years of practice at sea.",
            "Rowers need exactly five years of practice at sea.",
            "Rowers need five years or more of practice at sea.",
        ),
        (
            "Tickets can be bought online or at the station counter before the trip.",
            "Tickets can only be bought online before the trip.",
            "Before the trip, tickets can be bought online.",
        ),
        (
            "The owner pays the water bill and the tenant pays the electricity bill.",
            "The tenant pays the water bill and the owner pays the electricity bill.",
            "The electricity bill is paid by the tenant, and the water bill by the owner.",
        ),
        (
            "The supplier insures the goods during transport; the buyer insures them in the warehouse.",
            "The buyer insures the goods during transport; the supplier insures them in the warehouse.",
            "During transport the goods are insured by the supplier; in the warehouse the buyer insures them.",
        ),
        (
            "The employer must notify the works council before any dismissal.",
            "The works council must notify the employer before any dismissal.",
            "Before any dismissal the works council must be notified by the employer.",
        ),
    ],
)
def test_one_thing_exchanged_in_its_place_is_found_in_a_paraphrase(evidence: str, altered: str, faithful: str) -> None:
    """An opposite, a unit, a condition, who did what to whom; the same in other words is no contradiction."""
    assert (judge(altered, evidence).contradiction or 0.0) >= 0.5
    assert judge(faithful, evidence).contradiction == 0.0


@pytest.mark.parametrize(
    ("claim", "evidence"),
    [
        ("You can no longer access the archive after March.", "After March you can't access the archive anymore."),
        (
            "Call the harbor master and restart the pump.",
            "Restart the pump. If that doesn't help, call the harbor master.",
        ),
        ("The fee for the 12 m berth is 90 crowns.", "The fee for the 8 m berth is 60 crowns. The 12 m berth is 90."),
        ("Under section 26 the berth is free.", "Under section 31 the berth is free for members of the crew."),
        (
            "The slip may be used twice, as long as no other member has booked the winch.",
            "The slip may be used twice unless another member has booked the winch.",
        ),
        ("Spare sails are stored above wet ropes.", "Wet ropes are stored below spare sails."),
        ("If you are a guest, the berth is free.", "If you are not a guest, the berth is charged by the night."),
        ("You must not moor at the crane.", "Boats may not moor at the crane."),
        ("Rowing boats sometimes wait for the lock.", "Rowing boats do not always wait for the lock."),
        ("Berths cost only 90 crowns.", "Berths cost 90 crowns, paid in cash or by card."),
        ("The three pontoons lie in the north of the bay.", "The bay has two cranes; three pontoons lie in its north."),
    ],
)
def test_two_numbers_among_shared_words_and_other_cases_contradict_nothing(claim: str, evidence: str) -> None:
    """Another line's value, the number of a section, the other case of a condition, a negation in other words."""
    assert judge(claim, evidence).contradiction == 0.0


FENCES = "We do not pay for damage to fences and gates unless the house itself was damaged by the same event."


def test_only_if_is_not_unless() -> None:
    """What depends on a condition may be negated in one of both; the condition exchanged alone contradicts."""
    said = "Damage to fences and gates is paid {} the house itself was damaged by the same event."
    assert judge(said.format("only if"), FENCES).contradiction == 0.0
    assert judge(said.format("if"), FENCES).contradiction == 0.0
    assert (judge(said.format("unless"), said.format("if")).contradiction or 0.0) >= 0.5


def test_a_line_that_goes_on_in_small_letters_is_no_end_of_a_clause() -> None:
    """Plain text is wrapped anywhere, also behind a negation."""
    wrapped = "The permit does not\ncover parking at employees' homes or on private journeys."
    assert judge("Parking at employees' homes is not covered by the permit.", wrapped).contradiction == 0.0
    assert (
        judge("The permit does cover parking at employees' homes or on private journeys.", wrapped).contradiction or 0
    ) > 0.5


def test_items_of_a_negated_list_are_no_opposites() -> None:
    """ "Not covered are: … above 1,500 pounds" is "up to 1,500 pounds"; without the negation it is the opposite."""
    evidence = PackedChunk(chunk_id="1", position=1, text="PumpCare covers repair costs up to 1,500 pounds a year.")
    item = "- repair costs above 1,500 pounds a year"
    negated, plain = (
        judge_claims(f"{head}:\n{item}", [evidence])[0][-1] for head in ("Not covered are", "Covered are")
    )
    assert negated.contradiction == 0.0
    assert (plain.contradiction or 0.0) >= 0.5


def test_a_figure_that_arithmetic_gives_is_as_good_as_one_that_is_stated() -> None:
    """In support, and in place of another one; one that it does not give is neither."""
    evidence = PackedChunk(
        chunk_id="1", position=1, text="The tax is EUR 84 for the first dog and EUR 150 for each further dog."
    )
    asked = "We have two dogs. What is the tax in total?"
    right, wrong = (
        judge_claims(f"The tax is EUR {total} (EUR 84 + EUR 150).", [evidence], query=asked)[0][0]
        for total in (234, 243)
    )
    assert (right.support or 0.0) > 0.5
    assert right.contradiction == 0.0
    assert (wrong.support or 0.0) <= 0.4
    assert wrong.reason == "EUR 243 stands nowhere in the prompt"


@pytest.mark.parametrize(
    ("claim", "evidence", "altered"),
    [
        (
            "Films can't be renewed, and neither can CDs or console games.",
            "Books are renewed twice. Films, CDs and console games can't be renewed.",
            "CDs and console games can be renewed.",
        ),
        (
            "As the accounts weren't late in the year before, the penalty is not doubled.",
            "Late accounts cost 900 crowns. The penalty is doubled where the accounts were late in the year before.",
            "The penalty for late accounts is not doubled.",
        ),
        (
            "A parent would have to raise the limit at a branch.",
            "Parents can raise the limit at a branch.",
            "A parent must raise the limit at a branch.",
        ),
        (
            "On soft ground, a hedge or fence of 2 metres is needed beside hives.",
            "Hives stand away from it. Where that is not possible a hedge or fence of 2 metres is needed beside hives.",
            "A hedge or fence of 3 metres is needed beside hives.",
        ),
        (
            "Nothing — bees, combs or tools — leaves the apiary until the inspector has been there.",
            "Close the apiary: no bees, combs or tools leave it until the inspector has been there.",
            "Bees, combs or tools leave the apiary until the inspector has been there.",
        ),
        (
            "The connector is resealed at the next check, and no later than 30 September 2024.",
            "The connector is resealed at the next check, but by 30 September 2024.",
            "The connector is resealed at the next check, and no later than 30 October 2024.",
        ),
    ],
)
def test_items_of_a_list_and_cases_that_are_denied_contradict_nothing(claim: str, evidence: str, altered: str) -> None:
    """A list's items share the negation of its verb, and what holds in a case need not where the case is denied."""
    assert judge(claim, evidence).contradiction == 0.0
    assert (judge(altered, evidence).contradiction or 0.0) >= 0.5


@pytest.mark.parametrize(
    ("claim", "evidence", "altered"),
    [
        (  # a bound in time, the other way around
            "Call the harbor pilot no later than two hours before arrival and give the draught of the vessel.",
            "Call the harbor pilot at least two hours before arrival and give the draught of the vessel.",
            "Call the harbor pilot at most two hours before arrival and give the draught of the vessel.",
        ),
        (  # how often, and no alternative
            "With a sick ewe in the pen, the dose is raised only every three days because of its liver.",
            "With a sick ewe in the pen, the dose is raised every three days, also in lambs, because of its liver.",
            "With a sick ewe in the pen, the dose is raised every eight days, also in lambs, because of its liver.",
        ),
        (  # "before that" is before what was said last
            "Without an answer after nine weeks, or if the guild refuses before that, members may ask the arbiter.",
            "Members may ask the arbiter if the guild refuses, or after nine weeks without an answer.",
            "Members may ask the arbiter if the guild refuses, or before nine weeks without an answer.",
        ),
        (  # items of a list share what turns the verb behind them
            "Tree felling, ditches and fences are excluded.",
            "The grant pays for seed, soil and tools, but not for tree felling, ditches or fences.",
            "The grant pays for tree felling, ditches and fences.",
        ),
        (  # and of one in front of them
            "Mooring at guests' piers is not covered by the badge, and neither are private regattas.",
            "The badge does not cover mooring at the yard's own piers, at guests' piers or at private regattas.",
            "The badge covers mooring at guests' piers and at private regattas.",
        ),
        (
            "Don't simply tip the ash into the compost of the garden, since it kills the worms there.",
            "Ash kills the worms of the compost. Tip ash into the compost of the garden in small amounts.",
            "Ash does not kill the worms of the compost.",
        ),
        (  # another span of time, of another unit
            "After three years without a launch of the boat.",
            "The berth lapses if the keel has not been laid within three years. On application it is kept. The launch "
            "of the boat must be announced without delay, one week ahead.",
            "After four years without a launch of the boat.",
        ),
        (  # the value stands in the next sentence of the same item
            "For Class 3 (overdue rent) the warning takes 9 days.",
            "Class 2: noise. Warning: as in rule 8.\nClass 3: overdue rent of at least four months, at the warning and "
            "at the hearing. Warning: 9 days.\nClass 4: damage. Warning: 6 days.",
            "For Class 3 (overdue rent) the warning takes 11 days.",
        ),
    ],
)
def test_bounds_lists_and_words_that_refer_back_are_read_in_place(claim: str, evidence: str, altered: str) -> None:
    """What only looks like another bound, an "only" or a negation contradicts nothing; what is altered does, or is not
    supported."""
    assert judge(claim, evidence).contradiction == 0.0, judge(claim, evidence).reason
    wrong = judge(altered, evidence)
    assert (wrong.contradiction or 0.0) >= 0.5 or (wrong.support or 0.0) < 0.5


@pytest.mark.parametrize(
    ("claim", "beside"),
    [
        (
            "You have 21 days, counted from when the papers of the keeper arrive, to move a hive.",
            "The wax is collected after 21 days.",
        ),
        (
            "Moorings are let for 48 weeks, payable at the office of the harbor by the owner of the boat.",
            "The kiosk is open for 48 weeks of the year.",
        ),
    ],
)
def test_a_value_that_stands_elsewhere_contradicts_where_another_one_stands_in_its_place(
    claim: str, beside: str
) -> None:
    """Its own place shares no word with it; beside a place that does, it is stated."""
    evidence = (
        "A hive may be moved within 14 days of the day on which the papers of the keeper arrive.",
        "Moorings are let for 26 weeks, payable at the office of the harbor by the owner of the boat.",
    )
    assert (judge(claim, *evidence, beside).contradiction or 0.0) >= 0.6
    assert judge(claim, *evidence, claim.replace("have", "get").replace("payable", "due")).contradiction == 0.0


TABLE = """| Rank | Player | Goals | of which penalties | Matches |
|---|---|---|---|---|
| 1 | Anna Holm | 96 | 12 | 14 |
| 2 | Ida Brandt | 84 | 30 | 14 |"""


def test_the_result_of_a_sum_is_no_other_figure_of_its_row() -> None:
    """A right sum that is written out, whose result stands in another row; a wrong one gives another figure."""
    assert judge("Anna Holm: 96 − 12 = 84", TABLE).contradiction == 0.0
    assert (judge("Anna Holm: 96 − 12 = 83", TABLE).contradiction or 0.0) > 0.5


def test_two_cases_of_one_sentence_are_no_opposites() -> None:
    """Each has a bound of its own; where there is one case alone, another bound is the opposite."""
    claim = "A fillet of more than 3 cm is ready after 60 hours."
    cases = judge(claim, "A fillet is ready after 48 hours if it is up to 3 cm thick, after 60 hours if it is thicker.")
    single = judge(claim, "A fillet of up to 3 cm is ready after 60 hours.")
    assert cases.contradiction == 0.0
    assert (single.contradiction or 0.0) >= 0.5


def test_what_held_until_a_year_when_it_changed_is_another_from_then_on() -> None:
    """Where nothing says that it changed, from and until are opposites."""
    claim = "The mill has run on steam from 1902 onwards."
    changed = judge(claim, "The mill ran on water until 1902, when it was converted to steam.")
    ended = judge(claim, "The mill ran on steam until 1902, and has stood still.")
    assert changed.contradiction == 0.0
    assert (ended.contradiction or 0.0) > 0.0


PASSES = """Alpine garden: passes of the year 2031
Pass | Adult | Child
One day | 61 euros | 32 euros
Four days | 187 euros | 96 euros"""
SEASON = "The season pass of the year 2031 costs 540 euros for an adult and 270 euros for a child of the garden."


@pytest.mark.parametrize(
    "claim",
    [
        "A four-day pass for an adult costs 187 euros in the year 2031.",
        "219 euros: 187 for the adult pass of four days and 32 for a child of one day.",
    ],
)
def test_what_a_table_states_or_adds_up_to_contradicts_no_sentence_and_no_other_cell(claim: str) -> None:
    """The heads tell its place, and no words around; a value that stands nowhere does."""
    packed = [PackedChunk(chunk_id=str(at), position=at, text=text) for at, text in enumerate((PASSES, SEASON), 1)]
    asked = "What is an adult's pass of four days plus a child's of one day in total?"
    assert judge_claims(claim, packed, query=asked)[0][0].contradiction == 0.0
    altered = claim.replace("187", "419").replace("219", "451")
    wrong = judge_claims(altered, packed, query=asked)[0][0]
    assert (wrong.contradiction or 0.0) >= 0.5 or (wrong.support or 0.0) < 0.5


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("Yes, drones can sting.", "No, drones have no sting."), ("Yes, drones forage.", "No, drones do not forage.")],
)
def test_a_short_yes_or_no_is_compared_by_a_single_word_beside_it(wrong: str, right: str) -> None:
    """Such an answer has no other; a longer claim with one word in common may be of another matter."""
    evidence = (
        "A drone needs 24 days. Drones have no sting and do not forage. In late August the workers drive them out."
    )
    assert (judge(wrong, evidence).contradiction or 0.0) >= 0.55
    assert judge(right, evidence).contradiction == 0.0
    assert judge("Drones forage when the limes are in flower.", evidence).contradiction == 0.0


def test_an_aside_within_a_negation_leaves_it_one() -> None:
    """Both deny the same."""
    evidence = "The statue does not, as guides like to claim, show Saint Nicholas but the toll collector Wendel Ott."
    assert judge("It is a toll collector called Wendel Ott, not Saint Nicholas.", evidence).contradiction == 0.0


TIMES = "The first ferry leaves Port Halden at 6:15 on weekdays and at 7:45 on weekends. The last one returns at 22:30."
SEASONS = "From May to September ferries run every 40 minutes. In winter they run every 90 minutes."
ROUTES = "The crossing from Port Halden to Grey Island takes 35 minutes. The crossing to Oster takes 70 minutes."


@pytest.mark.parametrize(
    ("claim", "evidence", "question", "is_wrong"),
    [
        ("On weekends, the first ferry leaves Port Halden at 7:45.", TIMES, "", False),
        ("On weekends, the first ferry leaves Port Halden at 6:15.", TIMES, "", True),
        ("The first ferry leaves at 7:45.", TIMES, "When does the first ferry leave on weekends?", False),
        ("The first ferry leaves at 6:15.", TIMES, "When does the first ferry leave on weekends?", True),
        ("The first ferry leaves at 7:45.", TIMES, "", False),
        ("In winter, they run every 90 minutes.", SEASONS, "", False),
        ("In winter, they run every 40 minutes.", SEASONS, "", True),
        ("The crossing to Oster takes 70 minutes.", ROUTES, "", False),
        ("The crossing to Oster takes 35 minutes.", ROUTES, "", True),
        ("It takes about 35 minutes from Port Halden.", ROUTES, "", False),
    ],
)
def test_a_value_holds_in_its_own_case(claim: str, evidence: str, question: str, *, is_wrong: bool) -> None:
    """Weekdays and weekends, summer and winter, one route and another: that of which claim or question speaks; where
    neither says which, no value of the sentence contradicts."""
    packed = [PackedChunk(chunk_id="1", position=1, text=evidence)]
    found = judge_claims(claim, packed, query=question)[0][0].contradiction or 0.0
    assert found >= 0.5 if is_wrong else found == 0.0
