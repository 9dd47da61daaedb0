"""Chunks are found in a prompt by what they say, however they stand there."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given, strategies as st

from ragtrace.record.coercion import Known, read_packing
from ragtrace.record.coercion._passages import Wording, locate, rows_of
from ragtrace.types import Candidate, PackedChunk

HEADER = "Northwind Mutual, Policy Wordings for Private Customers in Ireland, Section Household and Travel:"
TRAVEL = (
    "Travel cover pays the cost of a cancelled journey up to EUR 3,000 for each insured person. "
    "A journey counts as cancelled when illness, injury or a summons to court prevents the departure. "
    'The excess is EUR 50 & is "per person", unless the family tariff applies. '
    "Claims must be reported within thirty days after the planned departure date."
)
HOME = (
    "Household contents are insured against fire, lightning, explosion, burst pipes and burglary.\n\n"
    "* Bicycles are covered when they were locked to a fixed object.\n"
    "* Jewellery is covered up to a fifth of the sum insured, outside of a safe.\n\n"
    "Damage by flood is covered only where the flood_extension was agreed in writing beforehand."
)
PETS = (
    "Treatment of cats and dogs by a veterinary surgeon is paid at ninety per cent after the waiting period. "
    "The waiting period is three months; it does not apply to accidents that happen after the policy began."
)
TEXTS = {"travel": TRAVEL, "home": HOME, "pets": PETS}


def located(prompt: str, texts: Mapping[str, str] = TEXTS) -> list[PackedChunk]:
    """What is packed in a prompt, out of these texts."""
    known = Known(
        [Candidate(chunk_id=name, rank=rank, text=text) for rank, (name, text) in enumerate(texts.items(), 1)]
    )
    chunks = read_packing(prompt, known, list(texts), None).packing.chunks
    at = 0
    for position, chunk in enumerate(chunks, 1):
        assert chunk.position == position
        assert chunk.text
        found = prompt.find(chunk.text, at)
        assert found >= 0, "chunks stand in the prompt as they are, one after the other"
        at = found + len(chunk.text)
    return list(chunks)


def named(chunks: Sequence[PackedChunk]) -> list[tuple[str, bool]]:
    """Ids and truncation."""
    return [(chunk.chunk_id, chunk.truncated) for chunk in chunks]


def prompt_of(*bodies: str) -> str:
    """A usual prompt."""
    extracts = "\n\n".join(f"[{number}] {body}" for number, body in enumerate(bodies, 1))
    return f"Answer by the extracts below. Cite them.\n\n{extracts}\n\nQuestion: What does the excess amount to?"


@pytest.mark.parametrize(
    "changed",
    [
        str,
        lambda text: text.strip(),
        lambda text: " ".join(text.split()),
        lambda text: "\n".join(textwrap.wrap(text, 40)),
        lambda text: textwrap.indent(text, "    "),
        lambda text: textwrap.indent("\n".join(textwrap.wrap(text, 60)), "> ", lambda line: True),
        lambda text: "\n".join(f"{n}: {line}" for n, line in enumerate(textwrap.wrap(text, 50), 1)),
        lambda text: "\n".join(f"[{n}] {line}" for n, line in enumerate(text.splitlines(), 1)),
        html.escape,
        lambda text: html.escape(html.escape(text)).replace("&amp;amp;", "&amp;"),
        lambda text: text.replace("*", "\\*").replace("_", "\\_").replace(".", "\\."),
        lambda text: text.replace('"per person"', "“per person”").replace("-", "–"),
        lambda text: text.replace(" ", "\u00a0"),
        lambda text: f"**{text}**",
    ],
    ids=[
        "as_it_is", "stripped", "collapsed", "wrapped", "indented", "quoted", "numbered_lines", "labeled_lines",
        "html", "html_twice", "markdown", "typographic", "no_break_spaces", "bold",
    ],
)  # fmt: skip
def test_a_whole_chunk_is_found_however_it_is_set(changed: Callable[[str], str]) -> None:
    """White space, quoting, escaping and line numbers do not make it another chunk, nor a cut one."""
    chunks = located(prompt_of(changed(HOME), changed(TRAVEL)))
    assert named(chunks) == [("home", False), ("travel", False)]
    for chunk in chunks:
        assert (chunk.given_start, chunk.given_end) == (None, None)
        assert "Question" not in (chunk.text or "")


@pytest.mark.parametrize("wrap", [str, lambda text: "\n".join(textwrap.wrap(text, 50))], ids=["as_it_is", "wrapped"])
@pytest.mark.parametrize(
    ("start", "end", "given"),
    [
        (0, 180, "{}"),
        (0, 180, "{}…"),
        (0, 180, "{}..."),
        (0, 183, "{} [...]"),
        (91, len(TRAVEL), "{}"),
        (91, len(TRAVEL), "… {}"),
        (91, 188, "{}"),
        (100, 240, "...{}..."),
    ],
)
def test_where_a_chunk_was_cut(wrap: Callable[[str], str], start: int, end: int, given: str) -> None:
    """At its end, at its start or on both sides, also within a word, with an ellipsis or without."""
    part = given.format(TRAVEL[start:end].strip())
    first, second = located(prompt_of(wrap(part), PETS))
    assert named([first, second]) == [("travel", True), ("pets", False)]
    assert first.given_start is not None
    assert first.given_end is not None
    assert first.text == wrap(part)
    assert TRAVEL[first.given_start : first.given_end].strip() == TRAVEL[start:end].strip()


def test_a_middle_that_was_left_out() -> None:
    """The first and the last sentences of a chunk are one chunk."""
    chunks = located(prompt_of(f"{TRAVEL[:180]} … {TRAVEL[-70:]}"))
    assert named(chunks) == [("travel", True)]
    assert (chunks[0].given_start, chunks[0].given_end) == (0, len(TRAVEL))


def test_windows_far_apart_are_parts_of_their_own() -> None:
    """A chunk of which two windows were packed stands in the prompt twice."""
    chunks = located(prompt_of(TRAVEL[:90], PETS, TRAVEL[188:]))
    assert named(chunks) == [("travel", True), ("pets", False), ("travel", True)]


def test_a_chunk_that_stands_twice() -> None:
    """Each of its places is told."""
    assert named(located(prompt_of(PETS, TRAVEL, PETS))) == [("pets", False), ("travel", False), ("pets", False)]


@pytest.mark.parametrize("header", [f"{HEADER}\n", f"{HEADER} "])
def test_a_common_header_is_no_chunk(header: str) -> None:
    """Not in the template, not beside the one chunk that has it, not when its chunk was cut behind it."""
    texts = {name: header + text for name, text in TEXTS.items()}
    assert located(f"{header}\nAnswer the question.", texts) == []
    assert named(located(f"{header}\n{prompt_of(PETS)}", texts)) == [("pets", True)]
    assert named(located(prompt_of(texts["home"]), texts)) == [("home", False)]
    assert named(located(prompt_of(texts["home"], texts["pets"][:170]), texts)) == [("home", False), ("pets", True)]


def test_bodies_under_one_header() -> None:
    """A header that is printed once belongs to the first of them."""
    texts = {name: f"{HEADER}\n{text}" for name, text in TEXTS.items()}
    chunks = located(f"{HEADER}\n{TRAVEL}\n\n{PETS}\n\nQuestion: when?", texts)
    assert named(chunks) == [("travel", False), ("pets", True)]
    assert (chunks[1].given_start, chunks[1].given_end) == (len(HEADER) + 1, len(HEADER) + 1 + len(PETS))


EDITIONS = {str(year): TRAVEL.replace("3,000", f"{year},000") for year in (3, 4, 40)}


@pytest.mark.parametrize("year", EDITIONS)
@pytest.mark.parametrize(
    "changed",
    [str, lambda text: "\n".join(textwrap.wrap(text, 40)), lambda text: text[:230], lambda text: text[20:230]],
)
def test_editions_are_told_apart(year: str, changed: Callable[[str], str]) -> None:
    """Last year's text, which differs in one number, is not this year's, whole or cut behind the number."""
    chunks = located(prompt_of(changed(EDITIONS[year])), EDITIONS)
    assert [chunk.chunk_id for chunk in chunks] == [year]


def test_editions_side_by_side() -> None:
    """Each has its own place; of a part that is the same in both the one that is not there yet is meant."""
    prompt = prompt_of(EDITIONS["4"], EDITIONS["3"], EDITIONS["40"])
    assert named(located(prompt, EDITIONS)) == [("4", False), ("3", False), ("40", False)]
    chunks = located(prompt_of(EDITIONS["3"], EDITIONS["4"][91:200]), {name: EDITIONS[name] for name in "34"})
    assert named(chunks) == [("3", False), ("4", True)]


def test_a_limit_of_10_is_not_one_of_100() -> None:
    """A text whose end is the beginning of a longer word does not stand there."""
    texts = {"ten": "Glass is covered up to EUR 10", "hundred": "Glass is covered up to EUR 100"}
    assert named(located(f"Extract: {texts['hundred']}.", texts)) == [("hundred", False)]
    assert named(located(f"Extract: {texts['ten']}.", texts)) == [("ten", False)]


def test_a_chunk_that_contains_another() -> None:
    """The one that fits the place is meant; both, where both stand."""
    texts = {"part": TRAVEL[91:188], "parent": TRAVEL}
    assert named(located(prompt_of(TRAVEL), texts)) == [("parent", False)]
    assert named(located(prompt_of(TRAVEL[91:188]), texts)) == [("part", False)]
    assert named(located(prompt_of(TRAVEL[91:188], TRAVEL), texts)) == [("part", False), ("parent", False)]


WORDS = [f"w{number}{'aeiou'[number % 5]}" for number in range(250)]
WINDOWS = {str(at): " ".join(WORDS[at : at + 100]) for at in (0, 50, 100, 150)}


def test_sliding_windows_beside_each_other() -> None:
    """Windows that overlap by half and stand one after the other are whole."""
    assert named(located(prompt_of(WINDOWS["50"], WINDOWS["0"]), WINDOWS)) == [("50", False), ("0", False)]
    assert named(located(prompt_of(WINDOWS["0"], WINDOWS["50"]), WINDOWS)) == [("0", False), ("50", False)]


@pytest.mark.parametrize("space", [" ", "\n"])
def test_sliding_windows_that_were_joined(space: str) -> None:
    """An adjacent pair without its overlap: nothing is missing of either, the second one has the rest."""
    prompt = f"Use this:\n{space.join(WORDS[50:200])}\nQuestion: why?"
    chunks = located(prompt, WINDOWS)
    assert [chunk.truncated for chunk in chunks] == [False, False]
    assert {chunk.chunk_id for chunk in chunks} == {"50", "100"}
    assert sum(len((chunk.text or "").split()) for chunk in chunks) == 150
    rest = next(chunk for chunk in chunks if chunk.given_start is not None)
    assert (rest.text or "").split() == WINDOWS[rest.chunk_id][rest.given_start : rest.given_end].split()


def test_a_cut_window() -> None:
    """A part that is one window's beginning and another's middle is the first one's."""
    chunks = located(prompt_of(WINDOWS["0"], " ".join(WORDS[50:80]) + " ..."), WINDOWS)
    assert named(chunks) == [("0", False), ("50", True)]


def test_the_template_is_no_chunk() -> None:
    """Words that chunk and template have in common by chance are none, before and behind a cut chunk too."""
    texts = {"a": f"Exceptions are listed in part four. {TRAVEL[:150].strip()} The question is closed."}
    prompt = f"Read part four.\n{TRAVEL[:150].strip()}\nThe question is this."
    chunks = located(prompt, texts)
    assert named(chunks) == [("a", True)]
    assert chunks[0].text == TRAVEL[:150].strip()


def test_scripts_without_spaces() -> None:
    """Each character counts as a word."""
    text = "旅行保険は、被保険者一人につき三十万円までの取消費用を支払います。免責金額は五千円です。"
    chunks = located(f"資料:\n{text[:30]}…\n質問: 免責?", {"a": text})
    assert named(chunks) == [("a", True)]
    assert chunks[0].text == text[:30] + "…"


def test_same_texts_under_two_ids() -> None:
    """Of two places each id has one; of one place the first input."""
    texts = {"b": PETS, "a": PETS}
    assert named(located(prompt_of(PETS, PETS), texts)) == [("b", False), ("a", False)]
    assert named(located(prompt_of(PETS), texts)) == [("b", False)]


@pytest.mark.parametrize("text", ["", " ", "short", "a " * 50])
def test_what_says_nothing_is_not_found(text: str) -> None:
    """An empty text, a short one, or one word again and again."""
    assert located(f"Use {text[:40]}: a b a b a b a", {"a": text}) == []


def test_work_grows_with_the_texts() -> None:
    """Repetitive texts cost no more comparisons than their lengths allow."""

    class Counted(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    def compared(size: int) -> int:
        Counted.compared = 0
        prompt, chunk = Wording(""), Wording("")
        prompt.text, chunk.text = "x1 " + "a b " * size, "a b " * size + "x2 and the rest of it"
        prompt.words, chunk.words = [*map(Counted, prompt.text.split())], [*map(Counted, chunk.text.split())]
        locate(prompt, [chunk])
        return Counted.compared

    assert compared(4000) < 5 * compared(1000)


def test_the_question_is_no_chunk() -> None:
    """Chunks that quote a question, as those of an FAQ, are not in each prompt that asks it."""
    question = "How do I cancel my motor insurance policy before the end of the year?"
    texts = {"faq": f"Q: {question} A: Write to us.", "pets": PETS}
    known = Known([Candidate(chunk_id=name, rank=1, text=text) for name, text in texts.items()])

    def found(prompt: str) -> list[str]:
        return [chunk.chunk_id for chunk in read_packing(prompt, known, [], None, (question, None)).packing.chunks]

    assert found(f"Use:\n{PETS}\n\n{question}") == ["pets"]
    assert found(f"Use:\n{texts['faq']}\n\n{question}") == ["faq"]


@pytest.mark.parametrize(
    ("part", "whether"),
    [
        (TRAVEL[: len(TRAVEL) // 2 + 60], True),
        (TRAVEL[:90], False),
        (TRAVEL.replace(" ", "\n   "), True),
    ],
)
def test_what_was_not_handed_on_needs_half(part: str, whether: bool) -> None:
    """A candidate that the reranker dropped is not packed because a few of its words stand in the instructions."""
    known = Known(
        [Candidate(chunk_id=name, rank=rank, text=text) for rank, (name, text) in enumerate(TEXTS.items(), 1)]
    )
    prompt = f"Answer briefly.\n\n{HOME}\n\n{part}"
    assert ("travel" in {each.chunk_id for each, *_ in known.located(prompt, ("home", "pets"))}) == whether
    assert "travel" in {each.chunk_id for each, *_ in known.located(prompt, ("travel", "home"))}


def rows(text: str) -> set[tuple[str, ...]]:
    """All rows of its words."""
    return set(rows_of(Wording(text).words))


def test_lines_with_numbers_between_words() -> None:
    """The last row of a chunk may be the only one that is whole."""
    text = "to bldhdnealee pbg adbadkk the in"
    assert locate(Wording("to bldhdnealee 5 pbg adbadkk the in"), [Wording(text)])


def test_a_chunk_that_another_one_stands_in() -> None:
    """Of a section with its title and one without, the one that stands in the prompt whole is found."""
    body = "Bicycles are covered when they were locked to a fixed object."
    for instructions in ("Answer briefly.", "Answer briefly, and cite what you use. " * 40):
        prompt = Wording(f"{instructions}\n\nTitle of it\n{body}")
        (found,) = locate(prompt, [Wording(body), Wording(f"## Title of it\n\n{body}")])
        assert found.order == 1


@pytest.mark.parametrize(
    ("text", "whether"),
    [
        ("It depends: illness, injury or a summons, it says.", True),
        ("illness\n\ninjury\n   or a summons", True),
        ("injury or illness, and a summons", False),
        ("is it in the", True),
        ("it in the is", False),
        ("", False),
    ],
)
def test_a_row_of_words_is_seen_beforehand(text: str, whether: bool) -> None:
    """Before its places are looked for, it is known whether a few of a text's words in a row stand in a prompt."""
    assert Wording(text).shares(rows("because of illness, injury or a summons; is it in the")) == whether


def test_a_row_of_characters_is_seen_beforehand() -> None:
    """Scripts without spaces have words of one character."""
    assert Wording("铜的关税为百分之四。").shares(rows("关税为百分之四"))
    assert not Wording("铜的价格上涨了。").shares(rows("关税为百分之四"))


_NOUNS = st.lists(st.sampled_from("tax copper four is it in the of".split()), min_size=6, max_size=30)


@given(_NOUNS, _NOUNS, st.data())
def test_no_part_of_a_text_is_overlooked(words: list[str], others: list[str], data: st.DataObject) -> None:
    """Any six words in a row of a text are seen in another one, wherever they stand in both."""
    start = data.draw(st.integers(0, len(words) - 6))
    at = data.draw(st.integers(0, len(others)))
    prompt = " ".join([*others[:at], *words[start : start + 6], *others[at:]])
    assert Wording(" ".join(words)).shares(rows(prompt))


@given(st.text(st.characters(max_codepoint=127, exclude_characters="&")))
def test_words_of_ascii_texts_are_those_of_all(text: str) -> None:
    """There is a quicker way for most texts, and it finds the same words."""
    assert Wording(text).words == Wording(f"{text} ß").words[:-1]


@pytest.mark.parametrize(
    "text",
    [
        "| 2019 | 12 | 7 | 3 |\n| 2020 | 14 | 8 | 5 |\n| 2021 | 11 | 9 | 4 |\n| 2022 | 17 | 6 | 2 |\n"
        "| 2023 | 15 | 8 | 6 |",
        "If it is up to us, we do it. If not, we do as you ask us to do it. So be it. It is up to us to do so or not.",
        "보험은 여행 취소 비용을 한 사람당 삼천 유로까지 지급한다. "
        "병이나 부상 또는 법원의 소환이 출발을 막으면 여행은 취소된 것이다.",
    ],
)
def test_short_words_and_numbers(text: str) -> None:
    """A table that was cut, or whose lines are broken anew, is found like any other text."""
    half = text[: len(text) * 3 // 5]
    for written in (half, text.replace(" ", "\n")):
        chunks = located(prompt_of(HOME, written), {"home": HOME, "short": text, "pets": PETS})
        assert [chunk.chunk_id for chunk in chunks] == ["home", "short"]


def test_a_parent_around_the_chunk_that_was_kept() -> None:
    """What stands there whole is found, whoever handed on what: small chunks are often replaced by larger ones."""
    parent = f"{HOME}\n\n{TRAVEL}\n\n{PETS}"
    known = Known([Candidate(chunk_id="child", rank=1, text=TRAVEL), Candidate(chunk_id="parent", rank=2, text=parent)])
    assert [each.chunk_id for each, *_ in known.located(f"Answer.\n\n{parent}", ("child",))] == ["parent"]
