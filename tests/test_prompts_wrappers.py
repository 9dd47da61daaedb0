"""Wrappers around the chunks of a prompt: never another chunk's, whatever a packer writes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings, strategies as st

from ragtrace.prompts import placeholder, rebuild
from ragtrace.types import PackedChunk

PREFIXES = (
    "[{one}] ", "[{zero}] ", "{one}. ", "Doc {zero}: ", "Source {one} (relevance 1.0): ", "(edition {fixed}) ",
    "v{fixed} ", "Title: {note}\n", "Title: {title}\nScore: 0.{zero}\n", "{one} | {title} | score={score}\n", "- ",
    "Page {page}\n",
    "### {title}\n", "<doc id={zero}>", "\n<doc title=\"{title}\" score=\"{score}\">", "{title}: ", "({score}) ",
    "{title}\n",
)  # fmt: skip
SUFFIXES = (
    "</doc>", "\n</doc>", "\nSource: {note}", "\nSource: {zero}-pl", " (p. {page})", " [{one}]", "\n(score {score})",
    " ({note})", "\n{title}", ".",
)  # fmt: skip
BETWEEN = ("", " ", "\n", "\n\n", "\n---\n", " | ", ", ", "\n\nNext:\n", "\n\n***\n\n")
OPENINGS = (
    "", "Use these.\n\n", "Keep to 3 rules [1]:\n", "Context: ", "Title: none\n", "Version 2.0\n\n", "---\n",
    "See [0] or (4.0)\n", "<docs>", "Source: the wiki\n\n", "1. Be brief.\n2. Be exact.\n\n",
)  # fmt: skip
CLOSINGS = (
    "", "\n\nQuestion?", "\nAnswer in 3 words [1].", "\n[7] is what?", "\n\nSource: yours\n", "\n---\nQ: (p. 4)?",
    "\n9. Why?", "</docs>\nQ?",
)  # fmt: skip
TITLES = ("Home", "Home policy", "Home cover", "Act 2", "Act 3", "R&D", "Tax: 2024", "The end", "[1]", "2", "a-b")


FREE = ("{title}", "{note}")


@dataclass(frozen=True)
class Packer:
    """Writes prompts as packers do: an opening, chunks in wrappers of their own, a closing."""

    opening: str
    prefix: str
    between: str
    suffix: str
    closing: str
    fields: Sequence[dict[str, object]]

    def wrapped(self, place: int, body: str, number: int) -> str:
        """A chunk in its wrapper, with a number that starts from 0."""
        fields = {**self.fields[place], "zero": number, "one": number + 1}
        return self.prefix.format(**fields) + body + self.suffix.format(**fields)

    def prompt(self, bodies: Sequence[str], kept: Collection[int], *, renumber: bool = False) -> str:
        """The prompt with these chunks alone, numbered by their places among all, or among themselves."""
        shown = [self.wrapped(at, bodies[at], n if renumber else at) for n, at in enumerate(sorted(kept))]
        return self.opening + self.between.join(shown) + self.closing


def fields(count: int) -> st.SearchStrategy[list[dict[str, object]]]:
    """What is a chunk's own; one value that stays the same stands in all of them."""
    own = st.fixed_dictionaries(
        {
            "title": st.sampled_from(TITLES),
            "note": st.sampled_from(["", *TITLES]),
            "score": st.sampled_from([1, 0.9, 0.87, 0.5, "0.10"]),
            "page": st.integers(0, 5),
        }
    )
    fixed = st.sampled_from(["0", "1", "4.0", "1.0"])
    return st.tuples(st.lists(own, min_size=count, max_size=count), fixed).map(
        lambda drawn: [{**each, "fixed": drawn[1]} for each in drawn[0]]
    )


@st.composite
def packers(draw: st.DrawFn) -> Packer:
    """Any of these around 1 to 12 chunks."""
    prefix = "".join(draw(st.lists(st.sampled_from(PREFIXES), max_size=2)))
    suffix = "".join(draw(st.lists(st.sampled_from(SUFFIXES), max_size=2)))
    opening, between, closing = (draw(st.sampled_from(each)) for each in (OPENINGS, BETWEEN, CLOSINGS))
    if any(each in prefix.split("\n")[0] for each in FREE):  # free text shares no line with what is not its wrapper's
        opening, between = opening.removesuffix("\n") + "\n", between.removesuffix("\n") + "\n"
    if any(each in suffix.split("\n")[-1] for each in FREE):
        closing, between = "\n" + closing.removeprefix("\n"), "\n" + between.removeprefix("\n")
    return Packer(opening, prefix, between, suffix, closing, draw(st.integers(1, 12).flatmap(fields)))


@settings(max_examples=400, deadline=None)
@given(packers(), st.data())
def test_a_subset_is_what_its_packer_would_have_written(packer: Packer, data: st.DataObject) -> None:
    """Numbered by the original places; or all text around the chunks stays; never a mixture of both."""
    count = len(packer.fields)
    bodies = [f"«text {place}»" for place in range(count)]
    chunks = [PackedChunk(chunk_id=f"c{n}", position=n + 1, text=body) for n, body in enumerate(bodies)]
    marks = [placeholder(chunk.chunk_id) for chunk in chunks]
    template = packer.prompt(marks, range(count))
    kept = data.draw(st.sets(st.integers(0, count - 1), min_size=1))
    found = rebuild(template, chunks, {f"c{place}" for place in kept})
    whole = packer.prompt([body if n in kept else "" for n, body in enumerate(bodies)], range(count))
    assert found in (packer.prompt(bodies, kept), whole)


NAMES = ("Alpha", "Beta", "Gamma", "Delta")


def given_to(wrapper: str, between: str = "\n\n", count: int = 4) -> tuple[str, list[PackedChunk]]:
    """A template with this wrapper around each chunk, and its chunks."""
    chunks = [PackedChunk(chunk_id=f"c{n}", position=n + 1, text=f"<text {n}>") for n in range(count)]
    wrapped = [
        wrapper.format(n, n + 1, NAMES[n], 9 - n, TEXT=placeholder(chunk.chunk_id)) for n, chunk in enumerate(chunks)
    ]
    return f"Use these.\n\n{between.join(wrapped)}\n\nQuestion?", chunks


@pytest.mark.parametrize("count", [3, 4])
@pytest.mark.parametrize("kept", [{"c1"}, {"c0", "c2"}, set()])
@pytest.mark.parametrize(
    "wrapper",
    [
        "{TEXT}", "[{1}] {TEXT}", "{1}. {TEXT}", "[{0}] {TEXT}", "Document {1}: {TEXT}", "<doc n={0}>{TEXT}</doc>",
        "[{1}] (edition 4.0) {TEXT}", "[{0}] v0 {TEXT}", "[{1}] Home policy, edition 1.0:\n{TEXT}",
        "Source {1} (relevance 1.0): {TEXT}", "Title: Doc {0}\nScore: 0.{0}\n{TEXT}",
        "Title: {2}\nScore: 0.9{0}\n{TEXT}", "Doc {0} | {2} | score=0.{3}\n{TEXT}", "Document: {2}\nText: {TEXT}",
        '<doc title="{2}" score="0.{3}">{TEXT}</doc>', "Content: {TEXT}\nSource: {0}-pl", "{TEXT} (p. {3})",
        "Title: {2}\n{TEXT}\nSource: {2}.pdf", "[{1}] {TEXT}\n(score 0.{3})", "### {2}\n{TEXT}\n</doc>", "- {TEXT}",
    ],
)  # fmt: skip
def test_what_packers_write_is_recognized(wrapper: str, kept: Collection[str], count: int) -> None:
    """Numbers, labels, titles, scores, tags, sources: each leaves with its chunk, exactly."""
    template, chunks = given_to(wrapper, count=count)
    stays = [chunk for chunk in chunks if chunk.chunk_id in kept]
    wrapped = [wrapper.format(n, n + 1, NAMES[n], 9 - n, TEXT=chunks[n].text) for n in map(chunks.index, stays)]
    expected = "\n\n".join(["Use these.", *wrapped, "Question?"])
    assert rebuild(template, chunks, kept) == expected


@pytest.mark.parametrize(
    "template",
    [
        "By Home: {chunk:c0} Then see {chunk:c1} or {chunk:c2}",
        "[0] {chunk:c0} [1] {chunk:c1} [2] {chunk:c2} [3]",  # before or behind?
        "Use {chunk:c0}\n\nNext:\n{chunk:c1}\n\nNext:\n{chunk:c2}",  # a separator, or titles but for the first
        "Title: A\n{chunk:c0}\nTitle: B\n\n{chunk:c1}\nTitle: C\n{chunk:c2}",
        "*** {chunk:c0}\n** {chunk:c1}\n** {chunk:c2}",
    ],
)
def test_where_it_is_not_sure_all_text_stays(template: str) -> None:
    """Without the chunks' own texts, and whether or not they were to be renumbered."""
    chunks = given_to("{TEXT}")[1]
    whole = template
    for chunk in chunks:
        whole = whole.replace(placeholder(chunk.chunk_id), str(chunk.text) if chunk.chunk_id == "c1" else "")
    assert rebuild(template, chunks, {"c1"}) == rebuild(template, chunks, {"c1"}, renumber=True) == whole


@pytest.mark.parametrize(
    ("wrapper", "renumbered"),
    [
        ("[{1}] {TEXT}", "[1] <text 1>\n\n[2] <text 3>"),
        ("<doc n={0}>{TEXT}</doc>", "<doc n=0><text 1></doc>\n\n<doc n=1><text 3></doc>"),
        ("[{1}] {2}\n{TEXT}", "[1] Beta\n<text 1>\n\n[2] Delta\n<text 3>"),
        ("{TEXT}\n[{1}] {2}", "<text 1>\n[1] Beta\n\n<text 3>\n[2] Delta"),
        ("[{1}] score 0.{1}\n{TEXT}", "[1] score 0.2\n<text 1>\n\n[2] score 0.4\n<text 3>"),
        ("(page {3}) {TEXT}", "(page 8) <text 1>\n\n(page 6) <text 3>"),
        ("Title: {2}\n{TEXT}", "Title: Beta\n<text 1>\n\nTitle: Delta\n<text 3>"),
    ],
)
def test_a_subset_can_be_renumbered(wrapper: str, renumbered: str) -> None:
    """Numbers that count the chunks from 0 or 1 count those that stay; scores, pages and titles stay."""
    template, chunks = given_to(wrapper)
    assert rebuild(template, chunks, {"c1", "c3"}, renumber=True) == f"Use these.\n\n{renumbered}\n\nQuestion?"
    assert rebuild(template, chunks, renumber=True) == rebuild(template, chunks)


def test_a_number_may_be_longer_than_any_count() -> None:
    """Ids of digits alone, and runs of digits that nobody can count with."""
    template, chunks = given_to("(" + "7" * 5000 + ") {TEXT}")
    assert rebuild(template, chunks, {"c1"}).count("7") == 5000


def test_two_chunks_are_enough_for_numbers() -> None:
    """A title would be recognized by a third one only."""
    template, chunks = given_to("[{1}] (edition 4.0) {TEXT}", count=2)
    assert rebuild(template, chunks, {"c1"}) == "Use these.\n\n[2] (edition 4.0) <text 1>\n\nQuestion?"
    template, chunks = given_to("[{1}] {2}: {TEXT}", count=2)
    assert rebuild(template, chunks, {"c1"}) == "Use these.\n\n[1] Alpha: \n\n[2] Beta: <text 1>\n\nQuestion?"


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("kept", [{"c1"}, {"c0", "c1"}, set()])
@pytest.mark.parametrize(("opening", "closing"), [("<docs>", "</docs>"), ("Use <a><b>", "</b></a> "), ("", "")])
@pytest.mark.parametrize(
    "wrapper", ['<doc id="{1}">{TEXT}</doc>', "<doc>{TEXT}</doc>", "<chunk n={0}><text>{TEXT}</text></chunk>"]
)
def test_tags_in_one_line(wrapper: str, opening: str, closing: str, kept: Collection[str], count: int) -> None:
    """The tag around all of them begins like a chunk's own, and stays; no empty tag of a chunk does."""
    chunks = [PackedChunk(chunk_id=f"c{n}", position=n + 1, text=f"text {n}") for n in range(count)]
    wrapped = [wrapper.format(n, n + 1, TEXT=placeholder(chunk.chunk_id)) for n, chunk in enumerate(chunks)]
    left = [wrapper.format(n, n + 1, TEXT=chunk.text) for n, chunk in enumerate(chunks) if chunk.chunk_id in kept]
    template = f"{opening}{''.join(wrapped)}{closing}\nQuestion?"
    assert rebuild(template, chunks, kept) == f"{opening}{''.join(left)}{closing}\nQuestion?"
