"""Where figures stand in tables, and on which scale."""

from __future__ import annotations

import pytest

from ragtrace.coverage.values import Figure, figures_in, values


def meant(text: str) -> dict[str, tuple[float, str] | None]:
    """Each figure of a text as it is written, with what its heading makes of it."""
    return {
        each.value.raw: (each.meant.number, each.meant.unit) if each.meant else None for each in figures_in(text, ())
    }


@pytest.mark.parametrize(
    ("heading", "scaled"),
    [
        ("(Millions)", (1_577e6, "")),
        ("($ in millions, except per share data)", (1_577e6, "USD")),
        ("In thousands of euros", (1_577e3, "EUR")),
        ("All amounts are stated in EUR million.", (1_577e6, "EUR")),
        ("Dollars in billions", (1_577e9, "USD")),
        ("Income statement (£'000)", (1_577e3, "GBP")),
        ("Key figures, €m", (1_577e6, "EUR")),
        ("(000s)", (1_577e3, "")),
    ],
)
@pytest.mark.parametrize("row", ["Net sales 1,577", "| Net sales | 1,577 |", "Note\n\nNet sales     1,577"])
def test_a_heading_above_gives_the_scale_and_the_currency(heading: str, row: str, scaled: tuple[float, str]) -> None:
    """In brackets, as a sentence or a line, be it some lines above, and whatever the table looks like."""
    assert meant(f"{heading}\nYear ended 31 December 2018\n\n{row}")["1,577"] == scaled


def test_a_column_has_the_scale_of_its_own_heading() -> None:
    """Per cent and counts beside millions stay as they are."""
    table = "| Segment | Sales (€m) | Margin (%) | Staff |\n|---|---|---|---|\n| North | 1,577 | 12.5 | 310 |"
    assert meant(table) == {"1,577": (1_577e6, "EUR"), "12.5": None, "310": None}


def test_the_label_of_a_row_gives_the_scale_of_that_row_alone() -> None:
    """And a row of figures for each share has none."""
    table = "(in millions)\n| Sales ($bn) | 1.6 |\n| Costs | 310 |\n| Earnings per share | 2.31 |"
    assert meant(table) == {"1.6": (1.6e9, "USD"), "310": (310e6, ""), "2.31": None}


def test_cells_between_commas_are_figures_of_their_own() -> None:
    """A figure in quotation marks has thousands; prose with grouped figures is no table."""
    table = 'Amounts in thousands\nSegment,Sales,Staff\nNorth,"1,577",310\nSouth,402,295'
    found = figures_in(table, ())
    assert [(each.value.raw, each.column) for each in found] == [("1,577", 1), ("310", 2), ("402", 1), ("295", 2)]
    assert len({each.row for each in found}) == 2
    prose = "Rovers: 2,140 on average, 23,540 in all\nMarsden: 1,980 on average, 21,780 in all"
    assert [value.number for value in values(prose)] == [2140, 23540, 1980, 21780]


def test_a_figure_with_a_scale_or_unit_of_its_own_has_no_other() -> None:
    """Nor has one in a text without such a heading, where millions are counted."""
    assert meant("(in millions)\nSales $1.6 billion, 12 %, 30 days") == {
        "$1.6 billion": None,
        "12 %": None,
        "30 days": None,
    }
    assert meant("Sales rose to 5 million. Staff: 310") == {"5 million": None, "310": None}


def test_the_words_of_a_figure_are_those_of_its_row_and_column() -> None:
    """By which it is told of what it speaks."""
    found: tuple[Figure, ...] = figures_in("| Region | Revenue |\n|---|---|\n| North | 15 |", ())
    assert found[0].words == {"north", "revenu"}
