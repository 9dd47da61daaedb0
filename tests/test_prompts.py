"""Templates of prompts, and the prompts for subsets of their chunks."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import example, given, strategies as st

from ragtrace.prompts import escaped, parsed, placeholder, rebuild
from ragtrace.types import PackedChunk

CHUNKS = [PackedChunk(chunk_id=name, position=place, text=f"<{name}>") for place, name in enumerate("abcd", 1)]


@given(st.text(alphabet="{}:chunk \n", max_size=60) | st.text())
@example("{chunk:a}")
@example("{{chunk:}chunk:b}{")
def test_a_prompt_may_look_like_a_template(prompt: str) -> None:
    """Braces of the prompt's own survive."""
    assert rebuild(escaped(prompt), ()) == prompt
    assert parsed(escaped(prompt)) == ([prompt], [])


@given(st.lists(st.text(alphabet="ab{}%27BD5:é/ ", min_size=1), unique=True, max_size=6))
@example(["a}", "a%7D", "a%257D", "%", "{", "%7B"])
def test_any_id_has_a_placeholder_of_its_own(ids: list[str]) -> None:
    """Also ids with braces and percent signs."""
    chunks = [PackedChunk(chunk_id=name, position=1, text=f"text {place}") for place, name in enumerate(ids)]
    template = "|".join(placeholder(name) for name in ids)
    assert rebuild(template, chunks) == "|".join(chunk.text or "" for chunk in chunks)


def test_a_chunk_may_stand_several_times() -> None:
    """The k-th placeholder of an id stands for its k-th chunk, further ones for the last."""
    chunks = [PackedChunk(chunk_id="a", position=place, text=text) for place, text in enumerate(("first", "last"), 1)]
    assert rebuild("{chunk:a}, {chunk:a}, {chunk:a}", chunks) == "first, last, last"


@pytest.mark.parametrize("chunks", [[], [PackedChunk(chunk_id="a", position=1)]])
def test_a_missing_text_is_an_error(chunks: list[PackedChunk]) -> None:
    """A prompt with holes is no prompt."""
    with pytest.raises(ValueError, match=r"\{chunk:a\} has no text.*capture_content"):
        rebuild("Use {chunk:a}.", chunks)


TITLED = "[1] Home\n{chunk:a}\n[2] Pets\n{chunk:b}\n[3] Glass\n{chunk:c}\nQ?"


@pytest.mark.parametrize(
    ("template", "keep", "prompt"),
    [
        ("Use:\n\n[1] {chunk:a}\n\n[2] {chunk:b}\n\n[3] {chunk:c}\n\nQ?", "b", "Use:\n\n[2] <b>\n\nQ?"),
        ("Use:\n\n[1] {chunk:a}\n\n[2] {chunk:b}\n\n[3] {chunk:c}\n\nQ?", "ac", "Use:\n\n[1] <a>\n\n[3] <c>\n\nQ?"),
        ("Use:\n\n[1] {chunk:a}\n\n[2] {chunk:b}\n\n[3] {chunk:c}\n\nQ?", "", "Use:\n\nQ?"),
        ("Use:\n[1] {chunk:a}\n[2] {chunk:b}\nQ?", "b", "Use:\n[2] <b>\nQ?"),
        ("Use:\n<d n=0>{chunk:a}</d>\n<d n=1>{chunk:b}</d>\nQ?", "b", "Use:\n<d n=1><b></d>\nQ?"),
        ("Use:\n<d n=0>{chunk:a}</d>\n<d n=1>{chunk:b}</d>\nQ?", "", "Use:\nQ?"),
        ("Use:\n{chunk:a}\n---\n{chunk:b}\n---\n{chunk:c}\n\nQ?", "ac", "Use:\n<a>\n---\n<c>\n\nQ?"),
        ("Use:\n{chunk:a}\n---\n{chunk:b}\n---\n{chunk:c}\n\nQ?", "b", "Use:\n<b>\n\nQ?"),
        (TITLED, "bc", "[2] Pets\n<b>\n[3] Glass\n<c>\nQ?"),
        (TITLED, "ac", "[1] Home\n<a>\n[3] Glass\n<c>\nQ?"),
        ("[1] Home\n{chunk:a}\n[2] Pets\n{chunk:b}\nQ?", "b", "[1] Home\n\n[2] Pets\n<b>\nQ?"),
        ("By Home: {chunk:a} Then see {chunk:b} or {chunk:c}", "b", "By Home:  Then see <b> or "),
        ("Use {chunk:a}.", "", "Use ."),
        ("Nothing.", "a", "Nothing."),
    ],
)
def test_a_wrapper_leaves_with_its_chunk(template: str, keep: Collection[str], prompt: str) -> None:
    """Separators, numbers, tags and titles; numbers stay as they are, and text that is no common wrapper stays too."""
    assert rebuild(template, CHUNKS, set(keep)) == prompt


@given(st.lists(st.sampled_from(["", "\n", "[1] ", "[2] ", "[12] ", " x ", "<d>", "</d>\n"]), min_size=1, max_size=14))
def test_a_subset_holds_its_chunks_in_order(texts: list[str]) -> None:
    """Whatever stands around them; all of them together are the whole prompt."""
    count = len(texts) - 1
    chunks = [PackedChunk(chunk_id=str(place), position=place, text=f"«{place}»") for place in range(count)]
    template = texts[0] + "".join(f"{{chunk:{place}}}{text}" for place, text in enumerate(texts[1:]))
    whole = texts[0] + "".join(f"«{place}»{text}" for place, text in enumerate(texts[1:]))
    assert rebuild(template, chunks) == rebuild(template, chunks, {chunk.chunk_id for chunk in chunks}) == whole
    kept = [str(place) for place in range(0, count, 2)]
    prompt = rebuild(template, chunks, kept)
    places = [prompt.find(f"«{place}»") for place in range(count)]
    assert [place >= 0 for place in places] == [str(place) in kept for place in range(count)]
    assert sorted(place for place in places if place >= 0) == [place for place in places if place >= 0]
