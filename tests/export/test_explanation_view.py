"""A request joined with its explanation, and what is said of it."""

from __future__ import annotations

import pytest

from ragtrace.explanations import Alignment, Explanation, GeneratorAttribution, Precision, RetrieverAttribution
from ragtrace.export._explanation_view import (
    advice,
    bounds,
    certainty,
    flags,
    headline,
    letter,
    main_p,
    measured,
    method,
    number,
    precision,
    precision_of,
    view,
    visible,
)
from ragtrace.types import RetrieveRun, replace
from tests.export.explained import ANSWER, TEXTS, explanation, left_out, record


def test_documents_with_letters_ranks_and_shares() -> None:
    """Letters go by prompt order; ranks and shares are those of the explanation; percentages add up."""
    shown = view(record(), explanation())

    assert [document.letter for document in shown.documents] == list("ABCDEF")
    assert [document.chunk_id for document in shown.documents] == list(TEXTS)
    reporting = shown.by_id["travel-ie-5.0#report"]
    assert (reporting.retriever_rank, reporting.generator_rank) == (4, 1)
    assert reporting.text == TEXTS["travel-ie-5.0#report"]
    assert sum(document.percent or 0.0 for document in shown.documents) == pytest.approx(100)


def test_documents_outside_the_prompt_come_last() -> None:
    """A document that was retrieved and not packed has a letter, and no share."""
    found = explanation()
    generator = GeneratorAttribution(chunk_ids=("travel-ie-5.0#late",), values=((1.0,),), shares=(1.0,))
    shown = view(record(), Explanation(generator=generator, retriever=found.retriever))

    assert shown.documents[0].chunk_id == "travel-ie-5.0#late"
    assert len(shown.documents) == len(TEXTS)
    assert [document.share for document in shown.documents[1:]] == [None] * (len(TEXTS) - 1)
    assert [document.chunk_id for document in shown.packed] == ["travel-ie-5.0#late"]


def test_each_document_is_shown_with_the_query_that_found_it() -> None:
    """Where there were several; a number that the record does not have is none."""
    runs = tuple(RetrieveRun(query=query) for query in ("police report", "late report", "police report"))
    asked = replace(record(), stages=(*record().stages, *runs))
    numbers = zip(TEXTS, (0, 1, 7), strict=False)
    found = tuple(RetrieverAttribution(chunk_id=name, query_number=number) for name, number in numbers)
    shown = view(asked, Explanation(retriever=found)).by_id
    assert [shown[each.chunk_id].query_text for each in found] == ["police report", "late report", "police report"]


def test_nothing_but_a_record() -> None:
    """An empty explanation of a request without an answer has something to say as well."""
    shown = view(record(answer=None), Explanation(skipped={"generator": "the answer's text was not kept"}))

    assert shown.answer == ""
    assert headline(shown) == "What the answer used is not known: the answer's text was not kept."
    assert list(flags(shown)) == []


def test_letters_and_numbers() -> None:
    """Letters go on behind Z; numbers have a true minus sign and no minus zero."""
    assert [letter(place) for place in (0, 25, 26, 27, 52)] == ["A", "Z", "AA", "AB", "BA"]
    assert [number(value) for value in (None, 0.5, -0.5, -0.001)] == ["-", "0.50", "−0.50", "0.00"]
    assert number(0.5, signed=True) == "+0.50"
    assert measured(0.5, 0.03, 3) == "+0.500 ± 0.030"
    assert measured(-0.5, None, 2) == "−0.50"
    assert [precision([value]) for value in (0.0, 12.3, 1.2, 0.6, -0.004, 1e-12)] == [2, 2, 2, 3, 5, 6]
    assert main_p((0.5, 0.9, 0.95)) == 1
    assert main_p((0.5, 0.7)) == 1
    assert main_p(()) is None


def test_control_characters_are_shown_as_such() -> None:
    """A chunk that commands a terminal, or is no text, becomes harmless; offsets stay."""
    odd = "a\x1b[31mb\x9bc\ud800\nd\te"
    assert visible(odd) == "a�[31mb�c�\nd\te"
    assert len(visible(odd)) == len(odd)


def test_headline_names_the_document() -> None:
    """The document with the largest share, its part, and how sure its place is."""
    said = headline(view(record(), explanation()))
    assert said.startswith("The answer rests most on D, travel-ie-5.0#report, with ")
    assert "It is ahead of E with probability 0." in said


def _of_shares(shares: tuple[float, ...], **changes: object) -> str:
    ids = tuple(TEXTS)[: len(shares)]
    generator = GeneratorAttribution(
        chunk_ids=ids,
        values=tuple((share,) for share in shares),
        shares=shares,
        share_errors=(None,) * len(shares),
        empty=-2.0,
        full=-2.0 + sum(shares),
    )
    return headline(view(record(), Explanation(generator=replace(generator, **changes))))


def test_headlines_that_claim_no_more_than_is_known() -> None:
    """Without errors no probability; exact ties are ties; documents that add nothing carry nothing."""
    assert "probability" not in _of_shares((1.0, 0.9))
    assert _of_shares((1.0, 1.0), exact=True).endswith("B has the same share.")
    assert _of_shares((1.0, 1.0 - 3e-5), exact=True).endswith("B has the same share.")
    assert _of_shares((1.0, 0.5), exact=True).endswith("of what all documents add.")
    assert "rest on none of them" in _of_shares((-0.5, -0.1))
    assert "rest on none of them" in _of_shares((1e-17, -1e-17, 4e-5))
    assert "%" not in _of_shares((1.0, -1.0))
    assert _of_shares((1.0,)).startswith("The answer rests most on A")


def test_headline_of_shares_that_cancel() -> None:
    """One document carries the answer, another speaks against it: that their sum is nothing hides neither."""
    for shares in ((1.0, 0.2, -1.3), (1.0, 0.3, -1.3 + 1e-17)):
        said = _of_shares(shares, exact=True)
        assert said == (
            "The answer rests most on A, travel-ie-5.0#glance. Yet all documents together do not make it more "
            "probable. C, travel-gb-5.0#report, speaks most against it."
        )
    assert "together" not in _of_shares((1.0, 0.2, -0.3))


def test_no_part_of_next_to_nothing() -> None:
    """Shares of which a sum of 0.0002 is left are not 500,000 % of it; of a real sum one may be more than all."""
    assert "%" not in _of_shares((1.0, -1.0 + 2e-4), exact=True)
    assert "with 200 % of what" in _of_shares((1.0, -0.5), exact=True)


def test_the_headline_ranks_ties_as_the_table_does() -> None:
    """Of two documents with the same text the answer rests on the one that the flags call its first."""
    ids = tuple(TEXTS)[:2]
    generator = GeneratorAttribution(chunk_ids=ids, shares=(1.0, 1.0 + 1e-6), share_errors=(0.0, 0.0), exact=True)
    found = Alignment(retriever=ids, generator=ids, ties=1)
    said = headline(view(record(), Explanation(generator=generator, alignment=found)))
    assert said.startswith(f"The answer rests most on A, {ids[0]}")
    assert said.endswith("B has the same share.")


def test_ranks_without_an_alignment() -> None:
    """The retriever's are known all the same; equal shares are no order of the answer's, other shares are."""
    ids = tuple(TEXTS)[:3]
    for shares, ranks in (((0.2, 0.2 + 1e-7, 0.2), [None] * 3), ((0.1, 0.3, 0.2), [3, 1, 2])):
        generator = GeneratorAttribution(chunk_ids=ids, shares=shares, exact=True)
        shown = view(record(), Explanation(generator=generator)).packed
        assert [document.retriever_rank for document in shown] == [1, 2, 3]
        assert [document.generator_rank for document in shown] == ranks


def test_words_of_no_effect_have_no_digits_of_rounding() -> None:
    """What is left of zero after many sums sets no precision; what can be told from zero does."""
    assert precision_of(GeneratorAttribution(shares=(1e-16, -4e-6))) == 2
    assert precision_of(GeneratorAttribution(shares=(1e-16, -0.004))) == 5


def test_documents_that_were_left_out() -> None:
    """They are no Shapley values, have no seed, and equal changes say nothing of probability."""
    shown = view(record(), left_out((0.0, 1.0, 0.4)))
    told = dict(method(shown))["documents"]
    assert told == ("each document left out once, 4 answers compared, without errors; http closed, revision unknown")
    assert headline(shown) == "The answer rests most on B, travel-ie-4.2#report."
    assert headline(view(record(), left_out((0.0, 0.0)))).startswith("No document stands out")


def test_bars_of_what_cannot_be_told_from_zero() -> None:
    """Rounding sets no scale; what is larger does, its error included."""
    assert bounds(view(record(), left_out((1e-17, -4e-5, 0.0))).documents) == (0.0, 0.0)
    assert bounds(view(record(), left_out((1e-17, -0.5, 2e-4))).documents) == (-0.5, 2e-4)


def test_certainty_follows_from_the_errors() -> None:
    """Equal shares: one half; far apart: certain; errors that go together make it surer; no errors: unknown."""
    equal = GeneratorAttribution(shares=(1.0, 1.0), share_errors=(0.1, 0.1))
    apart = GeneratorAttribution(shares=(1.2, 1.0), share_errors=(0.1, 0.1))
    together = replace(apart, share_covariance=((0.01, 0.008), (0.008, 0.01)))

    assert certainty(equal, 0, 1) == pytest.approx(0.5)
    assert certainty(apart, 0, 1) == pytest.approx(0.9214, abs=1e-4)
    assert certainty(together, 0, 1) == pytest.approx(0.99922, abs=1e-4)
    assert certainty(replace(apart, share_errors=(None, None)), 0, 1) is None


def test_flags_as_sentences() -> None:
    """Each flag says yes or no, how probable it is, and of which documents."""
    wasted, noise = flags(view(record(), explanation()))

    assert wasted.startswith("Wasted retrieval: yes (probability 0.97). A, the retriever's first document")
    assert "number 5 of 6" in wasted
    assert wasted.endswith("the retriever's best document was hardly used; the answer may be good all the same.")
    assert "D, which the answer uses most, is number 4 of 6" in noise
    assert noise.endswith("that is where the evidence stood, or noise.")
    few = Alignment(retriever=tuple(TEXTS)[:2], generator=tuple(TEXTS)[:2])
    said = list(flags(view(record(), replace(explanation(), alignment=few))))
    assert said == [
        "Wasted retrieval: undefined with three documents or fewer.",
        "Noise distraction: undefined with three documents or fewer.",
    ]


def test_documents_that_are_not_used_are_not_called_wasted() -> None:
    """The sentences say so, with what the documents add together."""
    found = explanation()
    assert found.alignment is not None
    assert found.generator is not None
    unused = replace(found.alignment, wasted_retrieval=None, noise_distraction=None, unused=True)
    generator = replace(found.generator, empty=-1.0, full=-0.96)
    said = list(flags(view(record(), replace(found, alignment=unused, generator=generator))))
    assert said == [
        "Wasted retrieval: undefined. The answer rests on no document; together they add 0.04 nats a token to it, so"
        " they were not used.",
        "Noise distraction: undefined, for the same reason.",
    ]


def test_flags_are_as_sure_as_their_values() -> None:
    """Of exact values no probability is told; an estimate is never certain, whether it says yes or no."""
    found = explanation()
    assert found.alignment is not None
    assert found.generator is not None
    sure = replace(found.alignment, wasted_probability=1.0, noise_distraction=False, noise_probability=0.003)
    wasted, noise = flags(view(record(), replace(found, alignment=sure)))
    assert wasted.startswith("Wasted retrieval: yes (probability above 0.99). A,")
    assert noise.startswith("Noise distraction: no (probability above 0.99). D,")
    assert noise.endswith("is number 4 of 6 for the retriever.")
    exact = replace(found, alignment=sure, generator=replace(found.generator, exact=True))
    assert [each.partition(". ")[0] for each in flags(view(record(), exact))] == [
        "Wasted retrieval: yes",
        "Noise distraction: no",
    ]


def test_more_than_the_whole_is_explained() -> None:
    """A document may add more than all together, where others take something away."""
    ids = tuple(TEXTS)[:2]
    found = GeneratorAttribution(chunk_ids=ids, shares=(1.2, -0.2), empty=0.0, full=1.0, exact=True)
    told = headline(view(record(), Explanation(generator=found)))
    assert ", with 120 % of what all documents add, as others speak against it." in told


def test_where_to_look_next() -> None:
    """Where the ranking and the answer disagree, or the answer rests on nothing; nothing to do otherwise."""
    found = explanation()
    assert advice(view(record(), found)) == (
        f"ragtrace show {record().request_id} tells at which rank the evidence was found, reranked and packed."
    )
    assert advice(view(record(), replace(found, alignment=None))) is None
    assert "documents support" in str(advice(view(record(), left_out((0.0, 0.0)))))


def test_names_do_not_turn_the_page_round() -> None:
    """A direction that a chunk's id or title begins would last to the end of our own line."""
    turned, plain = "b\u202ec\u2067", "b\N{REPLACEMENT CHARACTER}c\N{REPLACEMENT CHARACTER}"
    asked = replace(record({turned: "a \u202d text"}), service=turned, segment=turned, request_id=turned)
    generator = GeneratorAttribution(chunk_ids=(turned,), shares=(1.0,), empty=0.0, full=1.0)
    shown = view(asked, Explanation(generator=generator))
    named = shown.record
    assert {named.service, named.segment, named.request_id, shown.documents[0].chunk_id} == {plain}
    assert shown.documents[0].text == "a \N{REPLACEMENT CHARACTER} text"
    assert visible("\u2067a\u200f") == "\u2067a\u200f"


def test_flags_of_documents_that_all_speak_against_the_answer() -> None:
    """The first by share is then no document that the answer uses, as the headline says."""
    ids = tuple(TEXTS)[:4]
    generator = GeneratorAttribution(chunk_ids=ids, shares=(-0.5, -0.2, -1.0, -0.1), exact=True)
    order = (ids[3], ids[1], ids[0], ids[2])
    found = Alignment(retriever=ids, generator=order, wasted_retrieval=False, noise_distraction=True)
    shown = view(record(), Explanation(generator=generator, alignment=found))
    assert "rest on none of them" in headline(shown)
    assert "yes. D, which speaks least against the answer, is number 4 of 4" in list(flags(shown))[1]


def test_method_says_how() -> None:
    """Estimator, evaluations, seed, model, revision, completeness and cost are told."""
    told = dict(method(view(record(), explanation())))

    assert "estimated by gp, 48 evaluations, seed 0; causal_lm copying-lm, revision 3f2a9c1" in told["documents"]
    assert "64 evaluations" in told["query words"]
    assert "midpoint, baseline unk" in told["retriever"]
    assert "within 0.0011" in told["retriever"]
    assert told["cost"] == "21.4 s on cpu"
    assert ANSWER not in str(told)


@pytest.mark.parametrize(
    ("precision", "said"),
    [
        (None, "revision 3f2a9c1"),
        (
            Precision(dtype="bfloat16", prompts=2, difference=0.12345),
            "revision 3f2a9c1, in bfloat16, within 0.12 nats of float32 on 2 prompts",
        ),
        (
            Precision(dtype="bfloat16", prompts=1, difference=0.71, repeated=True),
            "revision 3f2a9c1, in float32, since bfloat16 was off by up to 0.71 nats on 1 prompt",
        ),
        (
            Precision(dtype="float16", skipped="there is no memory"),
            "revision 3f2a9c1, in float16, not compared with float32 (there is no memory)",
        ),
    ],
)
def test_method_says_how_precise_it_was(precision: Precision | None, said: str) -> None:
    """Beside the model: what a lower precision differs from float32, or why that is not known."""
    generator = explanation().generator
    assert generator is not None
    shown = replace(explanation(), generator=replace(generator, precision=precision))
    assert dict(method(view(record(), shown)))["documents"].endswith(said)


def test_method_says_what_ended_an_estimate() -> None:
    """Before its budget."""
    generator = explanation().generator
    assert generator is not None
    shown = replace(explanation(), generator=replace(generator, stopped="settle"))
    assert (
        "48 evaluations (ended early: its first document and its flags were settled), seed 0"
        in dict(method(view(record(), shown)))["documents"]
    )


@pytest.mark.parametrize(
    ("sums", "said"),
    [
        ((0.0, 0.1, 0.0, 0.9, 0.2, -0.3), "puts D first, as the shares do: D +0.900, E +0.200, B +0.100"),
        ((0.5, 0.1, 0.0, 0.2, 0.3, 0.0), "puts A first, where the shares put D: A +0.500, E +0.300"),
    ],
)
def test_method_compares_with_attention(sums: tuple[float, ...], said: str) -> None:
    """Where it was asked for."""
    generator = explanation().generator
    assert generator is not None
    shown = replace(explanation(), generator=replace(generator, attention=sums))
    assert said in dict(method(view(record(), shown)))["attention × gradient"]
    assert "attention × gradient" not in dict(method(view(record(), explanation())))
