"""Tokens of which a server gives only the texts find their place in the answer."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ragtrace.engines.tokens import GivenText, ScoredToken, answer_tokens, joined, united
from ragtrace.errors import ModelError

UNKNOWN = "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("prompt", "answer", "texts", "places"),
    [
        ("Q: how?", "in two days", ["Q", ":", " how", "?", " in", " two", " days"], [(0, 2), (2, 6), (6, 11)]),
        ("Q: how?", "in two days", ["Q", ":", "Ġhow", "?", "Ġin", "Ġtwo", "Ġdays"], [(0, 2), (2, 6), (6, 11)]),
        ("Q: how?", "in two days", ["▁Q", ":", "▁how", "?", "▁in", "▁two", "▁days"], [(0, 2), (2, 6), (6, 11)]),
        ("Q: how?", "in two days", ["<s>", "Q", ":", "how", "?", "in", "two", "days"], [(0, 2), (3, 6), (7, 11)]),
        ("Q:\n", "no\nno", ["Q", ":", "\n", "no", "\n", "no"], [(0, 2), (2, 3), (3, 5)]),
        ("Q: ", "no", ["Q", ":", " ", "no"], [(0, 2)]),
        ("Q:", "no", ["Q", ":", " ", "no"], [(0, 0), (0, 2)]),
        ("Q:", "\nno", ["Q", ":", "\n", "no"], [(0, 1), (1, 3)]),
        ("Q:\n", "no", ["Q", ":Ċ", "no"], [(0, 2)]),
        ("Q: ", "no", ["Q", ":", " no"], [(0, 2)]),
        ("say (", ")) end", ["say", " (", "))", " end"], [(0, 2), (2, 6)]),
        ("say (", ")) end", ["say", " ( ))", " end"], [(0, 2), (2, 6)]),
        ("Q", "12", ["Q", "", "12"], [(0, 0), (0, 2)]),
        ("Q", " no ", ["Q", " no"], [(0, 3)]),
    ],
    ids=(
        "plain byte-level sentencepiece stripped newlines blank added-space own-newline newline-merged space border "
        "merged empty white-space"
    ).split(),
)
def test_the_answers_tokens(prompt: str, answer: str, texts: list[str], places: list[tuple[int, int]]) -> None:
    """Whatever the marks of the vocabulary, and also across the border with the prompt."""
    assert answer_tokens(texts, joined(prompt, answer)) == places


@pytest.mark.parametrize(
    ("answer", "texts", "places"),
    [
        ("a € b", ["a", " " + UNKNOWN, UNKNOWN, UNKNOWN, " b"], [(0, 1), (1, 3), (1, 3), (1, 3), (3, 5)]),
        ("a € b", ["a", " ", "", "", "€", " b"], [(0, 1), (1, 2), (2, 2), (2, 2), (2, 3), (3, 5)]),
        ("a€b", ["a", "<0xE2>", "<0x82>", "<0xAC>", "b"], [(0, 1), (1, 2), (1, 2), (1, 2), (2, 3)]),
        ("aéb", ["Ġa", "Ã", "©", "b"], [(0, 1), (1, 2), (1, 2), (2, 3)]),
        ("éé", ["é", UNKNOWN, UNKNOWN], [(0, 1), (1, 2), (1, 2)]),
        ("a word b", ["a", "<unk>", "b"], [(0, 1), (1, 7), (7, 8)]),
        ("hi 日本", ["hi", " ", *[UNKNOWN] * 6], [(0, 2), (2, 3), *[(3, 5)] * 6]),
        ("€ b", [UNKNOWN, UNKNOWN, UNKNOWN, " b"], [(0, 1), (0, 1), (0, 1), (1, 3)]),
    ],
    ids="parts late byte-names byte-level repeated unknown-word two-behind first".split(),
)
def test_parts_of_characters(answer: str, texts: list[str], places: list[tuple[int, int]]) -> None:
    """Tokens that are no text by themselves share the place of what they make together, with and without a prompt."""
    assert answer_tokens(["<|assistant|>", "\n", *texts], GivenText(answer, 0, 0)) == places
    assert answer_tokens(["Q", ":", *texts], joined("Q:", answer)) == places


@pytest.mark.parametrize(("answer", "behind"), [("é", []), ("日本", []), ("日本🙂", []), ("日本 b", [" b"])])
def test_a_space_before_characters_in_parts(answer: str, behind: list[str]) -> None:
    """It is the answer's behind a prompt that ends without one, and the template's in a chat."""
    parts = len(answer.removesuffix(" b").encode())
    texts = [" ", *[UNKNOWN] * parts, *behind]
    shown = len(answer.removesuffix(" b"))
    rest = [(shown, shown + 2)] * len(behind)
    assert answer_tokens(["Q", ":", *texts], joined("Q:", answer)) == [(0, 0), *[(0, shown)] * parts, *rest]
    assert answer_tokens(["<|assistant|>", "\n", *texts], GivenText(answer, 0, 0)) == [*[(0, shown)] * parts, *rest]


@pytest.mark.parametrize("texts", [["Q", ":", "other"], ["Q", ":"], [], ["days"], [UNKNOWN]])
def test_tokens_that_say_something_else(texts: list[str]) -> None:
    """An answer that was changed or cut is an error, and never a score of something else."""
    with pytest.raises(ModelError, match="not with the answer"):
        answer_tokens(texts, joined("Q:", "two days"))


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp", "Cc"]), min_size=1), max_size=4),
    st.lists(st.text("aé€ .\n", min_size=1, max_size=4), min_size=1, max_size=8),
)
def test_any_cut_of_a_text_is_found(prompt: list[str], parts: list[str]) -> None:
    """Tokens that are the text's own pieces stand where they were cut, white space in front of the answer aside."""
    answer = "".join(parts)
    if not answer.strip():
        return
    given = joined(" ".join(prompt), answer)
    gap = given.text[given.border : given.shift]
    found = answer_tokens([given.text[: given.border], *([gap] if gap else []), *parts], given)
    ends = [len("".join(parts[: at + 1])) for at in range(len(parts))]
    assert [end for _, end in found][-len(parts) :] == ends


def scored(*tokens: tuple[int, int, float]) -> list[ScoredToken]:
    """Tokens without texts."""
    return [ScoredToken("", *token) for token in tokens]


def test_equal_tokens_stay_as_they_are() -> None:
    """One column per token."""
    rows = [scored((0, 2, -1.0), (2, 4, -2.0)), scored((0, 2, -3.0), (2, 4, -4.0))]
    assert united("abcd", rows, None) == ([(0, 2), (2, 4)], [[-1.0, -2.0], [-3.0, -4.0]])


def test_other_cuts_are_united() -> None:
    """What lies between two common cuts is one column, with the log-probability of all of it."""
    rows = [scored((0, 1, -1.0), (1, 2, -2.0), (2, 5, -4.0)), scored((0, 2, -1.5), (2, 3, -0.5), (3, 5, -0.25))]
    assert united("ab cd", rows, None) == ([(0, 2), (3, 5)], [[-3.0, -4.0], [-2.0, -0.25]])


def test_later_rows_keep_to_the_columns() -> None:
    """Finer tokens are added up to the columns of earlier ones; coarser ones cannot be taken apart."""
    assert united("abc", [scored((0, 1, -1.0), (1, 2, -2.0), (2, 3, -3.0))], [(0, 2), (2, 3)])[1] == [[-3.0, -3.0]]
    with pytest.raises(ModelError, match="other tokens than behind the earlier prompts"):
        united("abc", [scored((0, 3, -1.0))], [(0, 2), (2, 3)])
