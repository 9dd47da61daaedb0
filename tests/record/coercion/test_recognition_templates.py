"""The template of a prompt, from which it can be rebuilt for any subset of its chunks."""

from __future__ import annotations

import textwrap
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from ragtrace.prompts import escaped, parsed, placeholder, rebuild
from ragtrace.record.coercion import Known, read_packing
from ragtrace.record.coercion._passages import SHORTEST
from ragtrace.record.coercion.recognition import as_given, cut_out, make_template, templated
from ragtrace.types import Candidate, GenerateRun, Generation, PackedChunk, Packing, PackRun, StageRun

A = "The first chunk is about motor insurance and what it costs in a year."
B = "The second chunk is about travel, luggage and a journey that was cancelled."


def packed(*texts: str, ids: str = "abcdef") -> tuple[PackedChunk, ...]:
    """Packed chunks."""
    return tuple(
        PackedChunk(chunk_id=name, position=place, text=text)
        for place, (name, text) in enumerate(zip(ids, texts, strict=False), 1)
    )


def runs(prompt: str | None, *chunks: PackedChunk) -> list[StageRun]:
    """A packing and a generation."""
    return [
        PackRun(packing=Packing(chunks=chunks)),
        GenerateRun(generation=Generation(prompt_template=None if prompt is None else escaped(prompt))),
    ]


def test_placeholders_stand_where_the_chunks_stood() -> None:
    """Each chunk once, in the prompt's own order."""
    template, chunks = make_template(f"Use:\n[1] {B}\n[2] {A}\nWhy?", packed(A, B))
    assert template == "Use:\n[1] {chunk:b}\n[2] {chunk:a}\nWhy?"
    assert chunks == packed(A, B)


def test_a_packed_chunk_is_given_as_it_stands_in_the_prompt() -> None:
    """A host that packs whole chunks and cuts or wraps them in the prompt: the prompt tells."""
    wrapped = "\n".join(textwrap.wrap(B, 30))
    pack, generate = templated(runs(f"Use:\n{A[:51]}…\n\n{wrapped}\nWhy?", *packed(A, B)))
    assert isinstance(pack, PackRun)
    assert isinstance(generate, GenerateRun)
    assert generate.generation.prompt_template == "Use:\n{chunk:a}\n\n{chunk:b}\nWhy?"
    first, second = pack.packing.chunks
    assert (first.text, first.truncated, first.given_start, first.given_end) == (A[:51] + "…", True, 0, 51)
    assert (second.text, second.truncated, second.given_start) == (wrapped, False, None)
    assert templated((pack, generate)) == (pack, generate), "a second time changes nothing"


def test_the_first_prompt_with_chunks_says_how_they_were_given() -> None:
    """What stands in a later prompt otherwise remains there; a prompt before the packing holds no chunks."""
    pack, generate = runs(f"Use {A}", *packed(A))
    again = GenerateRun(generation=Generation(prompt_template=f"Check {A.replace(' ', chr(10))} by {A}"))
    made = templated([again, pack, generate, again])
    templates = [run.generation.prompt_template for run in made if isinstance(run, GenerateRun)]
    assert templates[:2] == [again.generation.prompt_template, "Use {chunk:a}"]
    assert templates[2] == f"Check {A.replace(' ', chr(10))} by {{chunk:a}}"
    assert made[1] == pack


@pytest.mark.parametrize("prompt", [None, "", "No chunk.", "Use {chunk:a}"])
def test_without_chunks_nothing_changes(prompt: str | None) -> None:
    """No prompt, no chunk in it, or braces of its own."""
    given_runs = tuple(runs(prompt, *packed(A)))
    assert templated(given_runs) == given_runs


def test_a_template_of_the_host_stays() -> None:
    """Placeholders are known already."""
    template = f"Use {{chunk:a}}, not {B}"
    assert make_template(template, packed(A, B)) == (template, packed(A, B))


def test_a_chunk_that_the_prompt_does_not_hold_stays_as_it_was_stated() -> None:
    """A summary, for instance."""
    assert as_given("Use none of them.", packed(A, B)) == list(packed(A, B))


def test_a_prompt_that_is_just_the_question_holds_no_chunk() -> None:
    """Neither where a chunk says the same: the chunk stays as it was stated."""
    question = "When does the policy end that was signed in Spain?"
    chunk = PackedChunk(chunk_id="faq", position=1, text=question)
    assert make_template(question, (chunk,), questions=(question,)) == (question, (chunk,))


def test_texts_are_cut_out_however_they_stand() -> None:
    """For prompts that may not hold the text of any chunk."""
    template = f"{{chunk:}}chunk:x}} {{chunk:a}} and {B.replace(' ', chr(10))} and {A[:50]}…"
    assert cut_out(template, packed(A, B)) == "{chunk:}chunk:x} {chunk:a} and {chunk:b} and {chunk:a}"


WORDS = st.sampled_from("cover claims days theft fire limit EUR 10 100 { {chunk:a} } ; . the is not".split())
TEXTS = st.lists(WORDS, min_size=1, max_size=30).map(" ".join)
SPACES = st.sampled_from([" ", "\n", "\n\n", "  "])


@st.composite
def prompts(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A prompt of chunks that are whole, cut or set anew, with anything between them; and the chunks' texts."""
    chunks = draw(st.lists(TEXTS, min_size=1, max_size=5))
    parts = [draw(TEXTS)]
    for text in draw(st.permutations(chunks)):
        words = text.split(" ")
        start = draw(st.integers(0, len(words) - 1))
        kept = words[start : draw(st.integers(start, len(words)))] if draw(st.booleans()) else words
        parts += [draw(SPACES).join(kept), draw(st.sampled_from(["…", "", "...", "\n---\n", "[2] "])), draw(TEXTS)]
    return draw(SPACES).join(parts), chunks


@settings(max_examples=300, deadline=None)
@given(prompts())
def test_the_template_and_what_was_given_are_the_prompt(made: tuple[str, list[str]]) -> None:
    """Exactly, for chunks found in the prompt and for chunks that the host listed; and so for every subset."""
    prompt, texts = made
    known = Known([Candidate(chunk_id=f"{{{n}", rank=n, text=text) for n, text in enumerate(texts, 1)])
    found = read_packing(prompt, known, (), None).packing.chunks
    template, chunks = make_template(escaped(prompt), found)
    assert rebuild(template, chunks) == prompt
    assert chunks == found, "they were given as they stand there"
    assert len(parsed(template)[1]) >= sum(len(chunk.text or "") >= SHORTEST for chunk in found)
    listed = make_template(escaped(prompt), packed(*texts))
    assert rebuild(*listed) == prompt
    assert rebuild(*make_template(escaped(prompt), packed(*texts), settled=True)) == prompt
    each_has_its_place = Counter(parsed(template)[1]) == Counter(placeholder(chunk.chunk_id) for chunk in found)
    for chunk in found if each_has_its_place else ():
        part = rebuild(template, chunks, {chunk.chunk_id})
        assert chunk.text in part  # type: ignore[operator]
        assert len(part) <= len(prompt)
