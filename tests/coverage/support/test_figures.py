"""Where a figure of an answer comes from: stated, computed, or from nowhere."""

from __future__ import annotations

import pytest

from ragtrace.coverage.support.figures import Figures
from ragtrace.coverage.support.readings import Reading
from ragtrace.coverage.values import values

SALES = """Results (Millions)
| Segment | 2018 | 2017 |
|---|---|---|
| Net sales | 1,577 | 1,402 |
| Staff costs | 310 | 295 |"""
STOCK = (
    "The store opened in May. It holds 48 tables, 120 chairs and 17 lamps. Parking costs 6 euros for each of 3 days."
)


def origin(claim: str, evidence: str, question: str = "", answer: str = "") -> str:
    """Of the last figure of a claim."""
    figure = [value for value in values(claim) if not value.dates][-1]
    return Figures([Reading(evidence)], question).origin(figure, claim, answer)


@pytest.mark.parametrize(
    "claim",
    [
        "Net sales were 1,577 million.", "Net sales came to $1.577 billion.", "Net sales were $1,577 million.",
        "Staff costs were 310,000,000.", "Net sales: 1,577.",
    ],
)  # fmt: skip
def test_a_figure_is_stated_on_the_scale_of_its_heading(claim: str) -> None:
    """In whatever words the answer has for it."""
    assert origin(claim, SALES) == "stated"


@pytest.mark.parametrize("claim", ["Net sales were 1,577 thousand.", "Net sales came to $1.577 trillion."])
def test_a_figure_on_another_scale_than_its_heading_gives_is_not_stated(claim: str) -> None:
    """Where the heading is cut off, any scale of a thousand may be meant."""
    assert origin(claim, SALES) == "unknown"
    assert origin(claim, SALES.removeprefix("Results (Millions)\n")) == "stated"


@pytest.mark.parametrize(
    ("claim", "question"),
    [
        ("Net sales grew by 12.5 %.", ""),
        ("It rose by $175 million.", "How much did net sales rise?"),
        ("Staff costs were 19.7 % of net sales.", ""),
        ("Net sales averaged 1,489.5 million.", ""),
        ("Net sales were about $1.6 billion.", ""),
        ("The ratio of net sales to staff costs is 5.09.", ""),
    ],
)
def test_an_operation_that_is_named_on_figures_of_one_row_or_column_computes(claim: str, question: str) -> None:
    """Growth, difference, share, mean and ratio, and a figure that is only rounded."""
    assert origin(claim, SALES, question) == "computed"


@pytest.mark.parametrize(
    ("claim", "answer"),
    [
        ("Parking for you comes to 18 euros.", ""),
        ("You pay 150 euros.", "Twice 60 and 30: 2 × 60 + 30 = 150 euros."),
        ("All in all that is 135.", "Tickets are 100 and parking 35, together 135."),
        ("From 3 May 1990 to 3 May 2024 it stood for 34 years.", ""),
    ],
)
def test_figures_that_the_answer_names_compute_one_another(claim: str, answer: str) -> None:
    """Written out as an expression or in words; the time between two dates as well."""
    assert origin(claim, STOCK, "What does parking cost for 3 days in all?", answer or claim) == "computed"


@pytest.mark.parametrize("claim", ["The hall has 31 windows.", "The store holds 168 sofas.", "Lamps cost 72 euros."])
def test_a_figure_that_some_operation_happens_to_give_is_not_computed(claim: str) -> None:
    """48 - 17 is 31 and 48 + 120 is 168, but nothing in the claim says that it computes."""
    assert origin(claim, STOCK) == "unknown"


def test_what_a_claim_says_that_it_computes_and_no_operation_gives_is_unproven() -> None:
    """One of its operands may stand nowhere."""
    assert origin("In total the store holds 999 pieces.", STOCK) == "unproven"


PRICES = """Item | Price
Electricity unit price | 24.88 p per kWh
Electricity daily charge | 57.40 p"""


@pytest.mark.parametrize(
    "claim",
    [
        "0.6 % × EUR 350,000 = EUR 2,100",
        "2 × EUR 114 less 10 % makes EUR 205.20",
        "1.60 % on the first EUR 25,000 plus 0.80 % on the other EUR 5,000 is EUR 440",
        "50 x 1.02264 x 39.4 / 3.6 is about 559.6 kWh",
    ],
)
def test_an_expression_with_shares_is_computed(claim: str) -> None:
    """ "10 %" behind a sum is ten per cent of what stands before it."""
    assert origin(claim, STOCK) == "computed"
    assert origin(f"{claim}. In all EUR 2,345.67", STOCK) != "computed"


def test_a_price_in_hundredths_is_computed_in_the_whole_currency() -> None:
    """ "24.88 p per kWh" for 2,900 kWh is 721.52 pounds, and no energy."""
    asked = "What do 2,900 kWh come to in a year, in total?"
    assert origin("The units are 721.52 pounds.", PRICES, asked) == "computed"
    assert origin("The units are 731.52 pounds.", PRICES, asked) != "computed"
    assert origin("The units are 721.52 pounds.", PRICES.replace(" p", ""), asked) != "computed"


def test_a_share_is_stated_in_words() -> None:
    """Half of it is 50 %."""
    assert origin("They get 50 % off.", "Hunting dogs: half the tax.") == "stated"
    assert origin("They get 40 % off.", "Hunting dogs: half the tax.") != "stated"


@pytest.mark.parametrize(
    ("claim", "answer"),
    [
        ("The rent of EUR 140 doubles after ten days, to EUR 280.", ""),
        ("It is then EUR 280, twice the EUR 140 of the first week.", ""),
        ("The price of EUR 140 triples in August, to EUR 420.", ""),
        ("A third of the EUR 450 is EUR 150.", ""),
        ("The fee of EUR 84 is halved to EUR 42.", ""),
        ("EUR 600.", "EUR 600. The rule sets EUR 512, and the schedule adds EUR 88 to it."),
        ("The red one is cheaper by EUR 21.", "The red one is cheaper by EUR 21 (EUR 84 beside EUR 105)."),
    ],
)
def test_multiples_parts_and_what_an_answer_adds_up_are_computed(claim: str, answer: str) -> None:
    """A word names the factor, and a figure that stands alone is read with the answer that explains it."""
    assert origin(claim, STOCK, answer=answer) == "computed"


@pytest.mark.parametrize(
    ("claim", "answer"),
    [
        ("The rent of EUR 140 doubles after ten days, to EUR 310.", ""),
        ("EUR 604.", "EUR 604. The rule sets EUR 512, and the schedule adds EUR 88 to it."),
    ],
)
def test_another_figure_than_the_words_give_is_not_computed(claim: str, answer: str) -> None:
    """Nor is one that an answer only claims to add up."""
    assert origin(claim, STOCK, answer=answer) != "computed"


YARD = """Price list of the yard (Thousands)
| Board | Sold 2024 | Sold 2025 |
|---|---|---|
| Spruce | 1,840 | 2,024 |
| Larch | 410 | 369 |
| Oak | 95 | 114 |
The number of customers rose from 3,200 to 3,520."""
OIL = """Oak boards cost EUR 18.50 a metre, and EUR 2.20 is the price of spruce.
Tins hold 2.5 l (EUR 49.90) and 10 l (EUR 165). The deposit for a pallet is EUR 15.
Prices include 19 % VAT; charities get 40 % off. Desks become yours after 24 months.
A copy is EUR 0.35 a page; filament costs 6 cents a gram. Sanding costs about a fifth of the price."""


def origin_of_result(claim: str, question: str) -> str:
    """Of the last figure of a claim that reckons with those of `OIL`."""
    figure = [value for value in values(claim) if not value.dates][-1]
    return Figures([Reading(OIL)], question).origin(figure, claim, claim)


@pytest.mark.parametrize(
    ("claim", "question"),
    [
        ("Three pallets mean EUR 45, all of which you get back.", "What is the deposit for three pallets?"),
        ("In the 10-litre tin a litre works out at EUR 16.50.", "Is the big tin cheaper per litre?"),
        ("You need two 2.5-litre tins for EUR 99.80.", "How much oil do I need?"),
        ("Because 10 % (EUR 8.50) is kept, you get back EUR 76.50.", "What do I get back of EUR 85?"),
        ("Without VAT a metre of oak is 18.50 / 1.19, about EUR 15.55.", "What is the net price of oak?"),
        ("That is nine missing months.", "I'm leaving 15 months later. What do I owe for the desk?"),
        ("EUR 52.00 minus 20 % (10.40) and 35 % (18.20) leave EUR 23.40.", ""),
        ("Nine are missing, so you owe 9/24 of EUR 450, which is EUR 168.75.", ""),
        ("The list price for 25 users at EUR 34 a month is EUR 10,200 a year.", ""),
        ("Six litres at EUR 18.50 and the seventh at EUR 15.00 are EUR 126.00.", ""),
        ("Two adults at EUR 6.50, three children at EUR 3 and the dog at EUR 1.50 pay EUR 23.50.", ""),
        ("At 35 cents a page.", "What does a copy cost?"),
        ("85 g at 6 cents a gram are EUR 5.10.", "My print weighs 85 g. What does it cost?"),
    ],
)  # fmt: skip
def test_prices_of_so_many_and_what_is_left_are_computed(claim: str, question: str) -> None:
    """The last figure of a sound answer, in whichever words it reckons."""
    assert origin_of_result(claim, question) == "computed"


@pytest.mark.parametrize(
    ("claim", "question"),
    [
        ("Three pallets mean EUR 48, all of which you get back.", "What is the deposit for three pallets?"),
        ("In the 10-litre tin a litre works out at EUR 17.40.", "Is the big tin cheaper per litre?"),
        ("That is eight missing months.", "I'm leaving 15 months later. What do I owe for the desk?"),
        ("EUR 52.00 minus 20 % (10.40) and 35 % (18.20) leave EUR 25.60.", ""),
        ("So you owe 9/24 of EUR 450, which is EUR 186.75.", ""),
        ("Six litres at EUR 18.50 and the seventh at EUR 15.00 are EUR 132.00.", ""),
        ("Two adults at EUR 6.50, three children at EUR 3 and the dog at EUR 1.50 pay EUR 26.20.", ""),
        ("At 60 cents a page.", "What does a copy cost?"),
        ("85 g at 6 cents a gram are EUR 6.80.", "My print weighs 85 g. What does it cost?"),
    ],
)  # fmt: skip
def test_prices_that_are_reckoned_wrongly_are_not_computed(claim: str, question: str) -> None:
    """The same answers with another result."""
    assert origin_of_result(claim, question) in ("unproven", "unknown")


def test_the_total_of_a_whole_column_and_a_sentence_below_a_table_are_computed() -> None:
    """Whichever rows share words with the claim; the sentence need not be on the table's scale."""
    assert origin("All kinds together came to 2,507,000 in 2025.", YARD) == "computed"
    assert origin("All kinds together came to 2,607,000 in 2025.", YARD) == "unproven"
    assert origin("The yard gained 320 customers.", YARD) == "computed"


def test_a_share_in_words_is_a_share() -> None:
    """A fifth is 20 %, and two fifths are not."""
    assert origin("It costs about 20 %.", OIL) == "stated"
    assert origin("It costs about 20 %.", OIL.replace("a fifth", "two fifths")) != "stated"


CARE = "Stitches are removed after ten to twelve days. Males are neutered from six months. A course costs 40 euros."


@pytest.mark.parametrize("claim", ["Stitches are removed after six days.", "A course costs 40 dollars."])
def test_the_number_of_another_unit_is_not_stated(claim: str) -> None:
    """Six months do not state six days; the number with no unit, or with one that may be misread, does."""
    assert origin(claim, CARE) == "unknown"
    assert origin(claim, CARE.replace("six months", "the 6th").replace("40 euros", "40")) == "stated"


def test_so_many_beside_a_price_are_computed() -> None:
    """220 euros and three times 15 euros, the count in the question; another total is not."""
    evidence = "Cleaning costs 220 euros for dogs; extractions are charged at 15 euros per tooth."
    claim = "The cleaning is 220 euros and each tooth adds 15 euros, so expect {} euros."
    asked = "What would a cleaning with three extractions cost?"
    assert origin(claim.format(265), evidence, asked) == "computed"
    assert origin(claim.format(268), evidence, asked) != "computed"


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ("It closes at 6:30 pm.", "stated"),
        ("It closes at 7:30 pm.", "unknown"),
        ("It is open for ten hours.", "computed"),
        ("It is open for nine hours.", "unknown"),
        ("Come half an hour earlier, at 8 am.", "computed"),
    ],
)
def test_times_of_the_day(claim: str, expected: str) -> None:
    """Stated on either clock; how long it is between two, and so long before one, is computed."""
    assert origin(claim, "We are open from 8:30 to 18:30. Please arrive half an hour before.") == expected


@pytest.mark.parametrize(
    ("evidence", "question", "claim", "answer", "wrong"),
    [
        ("Five days are free for dry boxes. After that $85 a day is due.", "A dry box stood eight days. What is due?",
         "{}.", "{}. Five days are free, which leaves three days at $85.", ("$255", "$265")),
        ("Crews pay £350 for the first hour and £180 for each further hour.", "What would a crew pay for three hours?",
         "{}, made up of £350 for the first hour and twice £180 for the two after it.", "", ("£710", "£730")),
        ("The beginners' course costs €190; members get a quarter off.", "What would a member pay for the course?",
         "It costs members {} after their discount of a quarter.", "", ("€142.50", "€148.50")),
    ],
)  # fmt: skip
def test_what_short_answers_reckon(
    evidence: str, question: str, claim: str, answer: str, wrong: tuple[str, str]
) -> None:
    """A count at its price, a first hour and two further ones, a price less a quarter; another amount is none."""
    figures = Figures([Reading(evidence)], question)
    found = []
    for amount in wrong:
        said = claim.format(amount)
        found.append(figures.origin(values(said)[0], said, answer.format(amount) or said))
    assert found[0] == "computed"
    assert found[1] != "computed"


@pytest.mark.parametrize(("total", "expected"), [("£83", "computed"), ("£38", "unknown")])
def test_an_answer_that_begins_with_a_figure_and_a_colon_says_what_it_is_made_of(total: str, expected: str) -> None:
    """The figures behind the colon give it, though no word names an operation."""
    answer = f"{total}: £54 for a cart of that weight and £29 because it isn't a market day."
    evidence = "Carts up to 2 tonnes: £54. Up to 3 tonnes: £71. Other days than market days cost £29."
    figure = values(answer)[0]
    assert Figures([Reading(evidence)], "What does my cart cost?").origin(figure, answer, answer) == expected


def test_a_number_that_stands_with_another_unit_alone_is_not_computed() -> None:
    """Whatever operation happens to give it."""
    evidence = "No fee is due in the last 49 days. We write 35 days before the end, and again 14 days before it."
    assert origin("With 35 plus 14 in total, it is free in the last 49 weeks.", evidence) == "unknown"
    assert origin("With 35 plus 14 in total, it is free in the last 49 days.", evidence) == "stated"


@pytest.mark.parametrize(("total", "expected"), [("1,297.60", "computed"), ("1,279.60", "unknown")])
def test_what_the_lines_of_an_answer_come_to_is_their_sum(total: str, expected: str) -> None:
    """Each line counts by its last amount, that of an expression by what it comes to."""
    answer = (
        "- Weeks 1 to 12: 12 × EUR 39.90 = EUR 478.80\n- Weeks 13 to 24: 12 × EUR 61.90 = EUR 742.80\n"
        f"- Crate: EUR 76.00\n\nThat adds up to EUR {total}."
    )
    evidence = "The hive costs EUR 39.90 a week for twelve weeks, then EUR 61.90. A crate is EUR 76."
    assert origin(f"That adds up to EUR {total}.", evidence, "What are 24 weeks with a crate?", answer) == expected


BAY = (
    "In the sixties the bay had 5.1 °C on average, in the last ten years 6.7 °C. A crab eats 180 g of mussels; a "
    "kilogram costs 2.10 crowns."
)
LOAF = """- 500 g flour
- 340 g water
- 5 g dried yeast

You may halve the yeast in any of our white doughs and let them rise in the fridge overnight, for 10 to 16 hours."""
SCORES = """| Player | Goals | of which penalties |
|---|---|---|
| Anna Holm | 98 | 41 |
| Ida Brandt | 91 | 0 |

The trophy for the top scorer counts all goals; that penalties be left out was proposed."""
MILK = """| 250 ml buttermilk | 235 ml milk and 15 ml lemon juice |
| 120 ml wine | 110 ml stock |"""
POLL = "Of roughly 2,400 inhabitants about a third voted; 2,915 letters were sent."


@pytest.mark.parametrize(
    ("claim", "evidence", "question"),
    [
        ("By about 1.6 degrees.", BAY, "How much warmer has the bay become on average?"),
        ("It is 1.6 degrees Celsius warmer, some 2.9 °F, than in the sixties on average in the bay.", BAY, ""),
        (
            "About 0.38 crowns: it eats 180 g, and a kilogram costs 2.10 crowns.",
            BAY,
            "What does it cost to feed a crab?",
        ),
        ("Halve the dried yeast to 2.5 g and let the dough rise overnight in the fridge.", LOAF, ""),
        (
            "All of the 91 goals of Brandt count, whereas Holm is left with 57.",
            SCORES,
            "Who was top scorer without penalties?",
        ),
        ("Mix 376 ml of milk with 24 ml of lemon juice.", MILK, "How do I make 400 ml of buttermilk?"),
        ("About 800 inhabitants voted.", POLL, "How many inhabitants voted?"),
        ("About 800: one in three of the 2,400.", POLL, ""),
        ("About 1,600 inhabitants did not vote.", POLL, ""),
        ("About 2,330: four fifths of the 2,915 letters.", POLL, ""),
    ],
)
def test_figures_in_words_and_on_other_scales_compute(claim: str, evidence: str, question: str) -> None:
    """A difference of temperatures, grams at a price by the kilogram, parts that evidence or claim tell in words."""
    figures = [value for value in values(claim) if not value.dates and value.number not in (1, 3, 4)]
    found = [Figures([Reading(evidence)], question).origin(figure, claim) for figure in figures]
    assert "computed" in found
    assert {"computed", "stated"}.issuperset(found)


@pytest.mark.parametrize(
    ("claim", "evidence", "question"),
    [
        ("By about 1.9 degrees.", BAY, "How much warmer has the bay become on average?"),
        ("Halve the dried yeast to 3.5 g and let the dough rise overnight in the fridge.", LOAF, ""),
        ("Holm is left with 67.", SCORES, "Who was top scorer without penalties?"),
        ("Mix 356 ml of milk.", MILK, "How do I make 400 ml of buttermilk?"),
        ("About 700 inhabitants voted.", POLL, "How many inhabitants voted?"),
        ("About 2,630: four fifths of the 2,915 letters.", POLL, ""),
    ],
)
def test_other_figures_do_not(claim: str, evidence: str, question: str) -> None:
    """Nearby as they may be."""
    figure = next(value for value in values(claim) if not value.dates)
    assert Figures([Reading(evidence)], question).origin(figure, claim) in ("unknown", "unproven")


HIVES = (
    "In the valley a colony gave 31 kg of honey on average in 2019, 18 kg in the wet year of 2021 and 36 kg in 2022. "
    "A drone needs 24 days from egg to emergence."
)


@pytest.mark.parametrize(
    ("claim", "question"),
    [
        ("The drone, by five days: it takes 24 days, a queen only 19.", "Which takes more days, and by how many?"),
        ("36 kg in 2022 is eleven kilograms more than 25 kg.", "How much more honey was it in 2022 than in 2021?"),
    ],
)
def test_two_figures_that_an_answer_makes_up_do_not_prove_each_other(claim: str, question: str) -> None:
    """Though one known figure and either of them give the other."""
    assert origin(claim, HIVES, question) == "unknown"


def test_an_operand_that_follows_from_others_computes() -> None:
    """18 kg less than 36 leaves 18; and 34 for 17 days at two pounds makes 44 with the ten to start with."""
    late = "The compensation for a late repair is 10 pounds plus 2 pounds for each day."
    claim = "With 17 days that is 34 pounds more than the first 10, so 44 pounds in all."
    assert origin(claim, late, "A repair took 17 days longer than allowed. What is due?") == "computed"


@pytest.mark.parametrize("claim", ["At 2 kg a month it is 8 kg.", "Over four months."])
def test_months_from_one_through_another_count(claim: str) -> None:
    """Both of them, or from the first to the last."""
    evidence = "A colony eats around 2 kg of stores a month until February and twice as much in March and April."
    question = "How much of its stores does a colony eat from November to the end of February?"
    assert origin(claim, evidence, question) == "computed"
    assert origin(claim.replace("8 kg", "11 kg").replace("four", "five"), evidence, question) == "unknown"


@pytest.mark.parametrize(
    ("claim", "question", "is_given"),
    [
        ("103 chairs and lamps are not for sale.", "", True),  # 120 less 17
        ("A quarter, so 30 chairs, is painted.", "", True),
        ("You get 137 things.", "", True),
        ("It keeps 131 chairs.", "", False),
        ("For us that is 78 euros.", "What do 13 visitors pay?", True),
        ("For us that is 79 euros.", "What do 13 visitors pay?", False),
    ],
)
def test_a_figure_that_simple_arithmetic_gives_is_no_certain_invention(
    claim: str, question: str, is_given: bool
) -> None:
    """Whatever words it stands in; the operands are of one part of the evidence, or of the question."""
    stock = f"{STOCK} A quarter of the chairs is painted."
    figure = next(value for value in values(claim) if not value.dates)
    assert Figures([Reading(stock)], question).may_give(figure, claim) is is_given
    assert not Figures([Reading("48 tables"), Reading("17 lamps")]).may_give(values("31 tables")[0], "31 tables")


@pytest.mark.parametrize(
    ("evidence", "is_given"),
    [
        ("The ferry was cancelled last Tuesday.", True),
        ("Three people were hurt on Saturday.", True),
        ("It reopened two weeks ago.", True),
        ("The kiosk is closed on Saturdays.", False),
        ("It was cancelled on Tuesday, 9 April 2024.", False),
    ],
)
def test_a_date_may_follow_from_the_day_on_which_a_text_was_written(evidence: str, is_given: bool) -> None:
    """So it proves no invention where the evidence tells days by that day, which stands elsewhere."""
    for claim in ("It was on 11 May 2024.", "It was on 11 May."):
        assert Figures([Reading(evidence)]).may_give(values(claim)[0], claim) is is_given


def test_a_date_may_lie_so_long_after_another_one() -> None:
    """The length of time stands in another part of the evidence, or in the question; other dates do not follow."""
    sent, due = Reading("The letter was sent on 4 March 2025."), Reading("Lodge it within 21 days of the letter.")
    given = Figures([sent, due])
    for claim, is_given in (("By 25 March 2025.", True), ("By 29 March 2025.", False)):
        assert given.may_give(values(claim)[0], claim) is is_given
    undated = Figures([Reading("He takes over on 1 June."), Reading("Dated 16 May 2024.")])
    assert undated.may_give(values("1 June 2024")[0], "1 June 2024")
    assert not undated.may_give(values("1 July 2024")[0], "1 July 2024")
    assert not Figures([Reading("He took over on 1 June 2021.")]).may_give(values("1 June 2024")[0], "1 June 2024")
    assert Figures([sent], "And two months later?").may_give(values("4 May 2025")[0], "4 May 2025")


@pytest.mark.parametrize(
    ("claim", "found", "is_given"),
    [
        ("It was gone for 61 minutes and 36 seconds.", "computed", True),
        ("It was gone for 3,696 seconds.", "computed", True),
        ("It was gone for 62 minutes.", "computed", True),
        ("It was gone for 1 hour, 1 minute and 36 seconds.", "unknown", True),
        ("It was gone for 64 minutes.", "unknown", False),
    ],
)
def test_a_time_between_two_clocks_is_reckoned_to_the_second(claim: str, found: str, is_given: bool) -> None:
    """Also where the whole and its parts are read apart, or it is rounded to the next minute."""
    seen = "It disappeared at 04:58:11 and came back at 05:59:47."
    assert origin(claim, seen) == found
    assert Figures([Reading(seen)]).may_give(values(claim)[-1], claim) is is_given


def test_the_year_of_a_date_is_stated() -> None:
    """Also one that lies so far back that four digits alone are no date."""
    assert origin("She left in 1867.", "She left on 3 June 1867.") == "stated"
    assert origin("She left in 1868.", "She left on 3 June 1867.") == "unknown"


def test_a_number_in_a_name_is_stated_with_the_name() -> None:
    """With its hyphen or without; not by the number of another name."""
    assert origin("The digest is SHA-384.", "Sign the body with HMAC-SHA384.") == "stated"
    assert origin("The digest is SHA-512.", "Sign the body with HMAC-SHA384.") == "unknown"
