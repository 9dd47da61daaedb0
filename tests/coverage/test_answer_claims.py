"""Claims and citations of an answer."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ragtrace.coverage import (
    citation_coverage,
    citation_precision,
    citation_recall,
    dangling_citations,
    find_citations,
    first_number,
    is_abstention,
    split_claims,
)
from ragtrace.coverage.answer import claim_weight
from ragtrace.coverage.support import Statement
from ragtrace.coverage.text import content_words
from ragtrace.types import Candidate, Citation, Claim, PackedChunk

PACKED = [PackedChunk(chunk_id=f"chunk-{place}", position=place) for place in range(1, 6)]


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        ("It is so [1].", ["chunk-1"]),
        ("It is so [1, 3-5].", ["chunk-1", "chunk-3", "chunk-4", "chunk-5"]),
        ("It is so (Document 2).", ["chunk-2"]),
        ("It is so (sources: 2, 3).", ["chunk-2", "chunk-3"]),
        ("It is so 【3†source】.", ["chunk-3"]),
        ("It is so [^4].", ["chunk-4"]),
        ("It is so [chunk-5].", ["chunk-5"]),
        ("It is so [9].", [None]),
        ("It is so [sic].", []),
        ("It is so (2024).", []),
    ],
)
def test_citation_marks_are_resolved_to_packed_chunks(text: str, chunks: list[str | None]) -> None:
    """Numbers count prompt places from 1; a mark without a chunk is dangling; brackets alone are no citation."""
    found = find_citations(text, PACKED)
    assert [citation.chunk_id for citation in found] == chunks
    assert all(text[citation.start : citation.end] == citation.marker for citation in found)


def test_claims_know_what_states_something() -> None:
    """Greetings, questions, headings and refusals are not factual."""
    answer = "Sure!\n# Cover\nThe limit is €5 [1]. Does that help? I could not find the year. Please contact us."
    assert [(claim.text, claim.factual) for claim in split_claims(answer, PACKED)] == [
        ("Sure!", False),
        ("# Cover", False),
        ("The limit is €5 [1].", True),
        ("Does that help?", False),
        ("I could not find the year.", False),
        ("Please contact us.", False),
    ]


@pytest.mark.parametrize(
    ("answer", "abstains"),
    [
        ("I don't know.", True),
        ("The documents do not mention a limit.", True),
        ("There is not enough information in the context to answer.", True),
        ("I don't know the year, but the limit is €5.", False),
        ("The documentation provided doesn't cover this question.", True),
        ("Unfortunately, I don't have that information.", True),
        ("There isn't enough information to say.", True),
        ("None of the documents mention a warranty.", True),
        ("The knowledge base has nothing on this.", True),
        ("The answer is not in the given context.", True),
        ("I can't find that in our help center. Please contact support.", True),
        ("Sorry, I can't help with that.", True),
        ("Not specified.", True),
        ("I'm so sorry about that! I'm not sure.", True),
        ("We do not provide phone support on the Free plan.", False),
        ("No evidence of benefit was found in the trial.", False),
        ("The company has no information obligations under this section.", False),
        ("You do not need more information than your order number.", False),
        ("Sorry for the delay, the limit is 30 days.", False),
        ("I cannot find the year. The limit is €5.", False),
        ("The limit is €5.", False),
        ("", False),
    ],
)
def test_abstention_is_the_whole_answer(answer: str, abstains: bool) -> None:
    """An answer that states something beside its refusal is no abstention."""
    assert is_abstention(answer) is abstains


@given(st.text(max_size=300))
def test_claims_slice_the_answer(answer: str) -> None:
    """Offsets always slice to the claim's text, and citations lie inside their claim."""
    for claim in split_claims(answer, PACKED):
        assert answer[claim.start : claim.end] == claim.text
        assert all(claim.start <= (mark.start or 0) < claim.end for mark in claim.citations)


def test_an_answer_that_cites_zero_counts_from_it() -> None:
    """Unless one of its numbers would be too high then; an index in code is no citation of the first chunk."""
    answer = "The dam holds [0]. The gate leaks [2]."
    assert [mark.chunk_id for mark in find_citations(answer, PACKED)] == ["chunk-1", "chunk-3"]
    assert [mark.chunk_id for mark in find_citations("It holds [0]. It leaks [5].", PACKED)] == ["chunk-5"]
    assert [mark.chunk_id for mark in find_citations("Take rows[0] for that [2].", PACKED)] == ["chunk-2"]


@pytest.mark.parametrize(
    ("template", "first"),
    [
        ("Use these.\n[1] {chunk:a}\n[2] {chunk:b}\nWhy?", 1),
        ("Use these.\n[0] {chunk:a}\n[1] {chunk:b}\nWhy?", 0),
        ("Document 0 (Title: Dams 2024)\n{chunk:a}\n\nDocument 1 (Title: Gates)\n{chunk:b}", 0),
        ("{chunk:a}\n\n{chunk:b}", None),
        ("Of 1 or 0: {chunk:a}", None),
        ("No chunk at all: 1", None),
        (None, None),
    ],
)
def test_the_prompt_tells_from_which_number_its_chunks_are_counted(template: str | None, first: int | None) -> None:
    """Where the numbers before its chunks are in order; None where it does not number them, or both would do."""
    assert first_number(template) == first


def test_numbers_name_chunks_as_the_prompt_counts_them() -> None:
    """Whatever the answer's own marks look like."""
    assert [mark.chunk_id for mark in find_citations("The gate leaks [1].", PACKED, first=0)] == ["chunk-2"]
    assert [mark.chunk_id for mark in find_citations("So [0]. And so [1].", PACKED, first=1)] == ["chunk-1"]


def cited(support: float, *chunks: str | None, factual: bool = True) -> Claim:
    """A claim with citations of the given chunks."""
    marks = tuple(Citation(marker="[?]", chunk_id=chunk, start=0) for chunk in chunks)
    return Claim(start=0, end=1, text="x", factual=factual, support=support, citations=marks)


def test_citation_metrics() -> None:
    """Coverage counts claims, precision citations, recall supported claims; dangling marks cite nothing."""
    claims = [cited(1.0, "a"), cited(1.0, "b", None), cited(0.0, None), cited(0.0, factual=False)]
    supports = [{"a": 1.0}, {"a": 1.0, "b": 0.0}, {}, {}]
    assert citation_coverage(claims) == pytest.approx(2 / 3)
    assert citation_precision(claims, supports) == 0.5
    assert citation_recall(claims, supports) == 0.5
    assert dangling_citations(claims) == 2.0


def test_citation_metrics_without_claims_are_undefined() -> None:
    """No factual claims, no citations: None, not zero and not one."""
    assert citation_coverage([cited(0.0, factual=False)]) is None
    assert citation_precision([cited(1.0)], [{}]) is None
    assert citation_recall([cited(0.0)], [{}]) is None
    assert dangling_citations([cited(1.0)]) is None


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        ("It is so [1][2].", ["chunk-1", "chunk-2"]),
        ("It is so ([1]).", ["chunk-1"]),
        ("It is so [#2].", ["chunk-2"]),
        ("It is so [2: Policy wording].", ["chunk-2"]),
        ("It is so [citation:3].", ["chunk-3"]),
        ("It is so [source: chunk-4].", ["chunk-4"]),
        ("It is so (source: chunk-4).", ["chunk-4"]),
        ("It is so [chunk-4, p. 3].", ["chunk-4"]),
        ('"answer": "It is so", "sources": ["chunk-1", "chunk-5"]', ["chunk-1", "chunk-5"]),
        ('"sources": [\n  "chunk-1",\n  "chunk-5"\n]', ["chunk-1", "chunk-5"]),
        ("It is so [2–3; 5].", ["chunk-2", "chunk-3", "chunk-5"]),
        ("It is so (Doc. 4, p. 12).", ["chunk-4"]),
        ("It is so [Document [4]].", ["chunk-4"]),
        ("It is so [chunk-1, chunk-5].", ["chunk-1", "chunk-5"]),
        ("It is so (chunk-2).", ["chunk-2"]),
        ("It is so [a note](https://example.org/two).", ["chunk-2"]),
        ("It is so [3](https://example.org/two).", ["chunk-2"]),
        ("It is so [3](https://example.org/elsewhere).", ["chunk-3"]),
        ("See https://example.org/two/#part.", ["chunk-2"]),
        ("See <https://example.org/nowhere>.", [None]),
        ("It is so [handbook].", ["chunk-3"]),
        ("It is so 【4:0†policy.pdf】.", ["chunk-4"]),
        ("It is so [^a].\n\n[^a]: Document 2", ["chunk-2"]),
        ("It is so [^7].\n\n[^7]: https://example.org/two", ["chunk-2", "chunk-2"]),
        ("It is so [^9].", [None]),
        ("It is so [1-999].", [f"chunk-{place}" if place <= 5 else None for place in range(1, 51)]),
        ("It is [so, he said] (as ever).", []),
    ],
)
def test_names_and_addresses_are_resolved_by_what_the_candidates_tell(text: str, chunks: list[str | None]) -> None:
    """Chunk ids, documents, sources and addresses; a known kind of mark without a chunk is dangling."""
    candidates = [
        Candidate(chunk_id="chunk-2", rank=1, metadata={"url": "https://example.org/two"}),
        Candidate(chunk_id="chunk-3", rank=2, doc_id="handbook"),
    ]
    found = find_citations(text, PACKED, candidates)
    assert [citation.chunk_id for citation in found] == chunks
    assert all(text[citation.start : citation.end] == citation.marker for citation in found)


def test_an_address_is_no_citation_where_none_is_known_or_a_chunk_holds_it() -> None:
    """It cannot be resolved, or the answer repeats what the chunk says."""
    text = "Apply at https://example.org/apply today."
    assert find_citations(text, PACKED) == ()
    held = [PackedChunk(chunk_id="https://example.org/one", position=1, text=text)]
    assert find_citations(text, held) == ()
    assert [mark.chunk_id for mark in find_citations(text, [PackedChunk(chunk_id="https://x.org", position=1)])] == [
        None
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Unable to answer based on given passages.",
        "Therefore, the answer to the question is based on the information provided in the passages.",
        "The exact date is not mentioned in the given documents.",
        "Passages 1 and 3 provide additional information.",
        "It is difficult to say how well they work.",
        "Good luck!",
        "This is general information and no legal advice.",
        "Goodbye, and enjoy the game!",
        "Thanks for clarifying, and I'm sorry this happened on your trip.",
        "Sorry I can't be more definite.",
        "No, I'm an automated assistant.",
        "Welcome to the bank's chat.",
        "Sure, I can help you with that!",
        "An accurate answer cannot be provided based solely on these passages.",
        "---",
        "**Note:**",
        "[^1]: Handbook, page 4",
        "```python\nlimit = 5000\n```",
    ],
)
def test_what_only_speaks_of_the_evidence_or_the_answer_states_nothing(text: str) -> None:
    """Refusals, frames, rules, code and footnotes are no factual claims."""
    assert [claim.factual for claim in split_claims(text)] == [False]


@pytest.mark.parametrize(
    ("answer", "stated"),
    [
        ('{"answer": "The fee is 30 euros.", "confidence": 0.97}', ["30 euros"]),
        ('{"confidence_score": "93%", "answer": "The fee is 30 euros"}', ["30 euros"]),
        ('{"answer": "30 euros", "score": 0.8, "probability": 0.4}', ["30 euros"]),
        ('{"probability": 0.05}', ["0.05"]),
        ("The score was 3.", ["3"]),
    ],
)
def test_how_sure_an_answer_in_json_is_states_nothing(answer: str, stated: list[str]) -> None:
    """A field of that name beside others; the only field is the answer."""
    claims = [claim for claim in split_claims(answer) if claim.factual]
    assert [value.raw for claim in claims for value in Statement.read(claim).stated] == stated


def test_tables_lists_and_code_are_split_into_what_they_state() -> None:
    """A table's head and rule state nothing, each row and item is a claim, and code is one piece."""
    answer = (
        "Costs:\n\n| Item | Price |\n|------|------:|\n| Tiles | $5 [1] |\n\n> 1. Tiles cost $5.\n"
        "> 2. Grout costs $3.\n\n"
        "```\nx = 1. y\n```\nThat is all there is to pay (Dr. Who, U.S. Navy, e.g. No. 5). "
        "**Labor** costs 2.5 times more."
    )
    found = [(claim.text, claim.factual) for claim in split_claims(answer, PACKED)]
    assert found == [
        ("Costs:", False),
        ("| Item | Price |", False),
        ("|------|------:|", False),
        ("| Tiles | $5 [1] |", True),
        ("Tiles cost $5.", True),
        ("Grout costs $3.", True),
        ("```\nx = 1. y\n```", False),
        ("That is all there is to pay (Dr. Who, U.S. Navy, e.g. No. 5).", True),
        ("**Labor** costs 2.5 times more.", True),
    ]


@pytest.mark.parametrize(
    ("text", "asked", "weight"),
    [
        ("Yes, it is.", "", 1 / 8),
        ("Yes, it is [1][2].", "", 1 / 8),
        ("Water damage is covered.", "is water damage covered", 1 / 8),
        ("Water damage is covered.", "", 3 / 8),
        ("The limit is €5,000 [1].", "what is the limit", 1.0),
        ("Roofs, fences, gates, sheds, walls, doors, windows, floors and gutters are paid for.", "", 1.0),
    ],
)
def test_a_claim_weighs_by_what_it_says_beyond_the_question(text: str, asked: str, weight: float) -> None:
    """An eighth for each word of its own, at least one and at most eight; what has a number or a date weighs 1."""
    assert claim_weight(text, content_words(asked)) == weight


def test_where_else_to_ask_states_nothing_beside_a_refusal() -> None:
    """Advice to ask goes with saying that the evidence is silent; beside an answer, or with a figure, it is a claim."""
    silent = (
        "I couldn't find anything on missed visits. The rule comes from another supplier. I'd suggest asking Orvane."
    )
    assert [claim.factual for claim in split_claims(silent)] == [False, True, False]
    number = silent.replace("asking Orvane", "calling 555 880 170")
    assert [claim.factual for claim in split_claims(number)] == [False, True, True]
    assert [claim.factual for claim in split_claims("It is free. I'd suggest asking Orvane.")] == [True, True]


def test_how_far_one_can_tell_is_no_part_of_a_claim() -> None:
    """A hedge has no words that the evidence could lack."""
    plain, hedged = (
        Statement.read(split_claims(text)[0]) for text in ("It is 60 euros.", "It is 60 euros, as far as I can tell.")
    )
    assert plain.words == hedged.words
