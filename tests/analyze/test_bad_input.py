"""Answers and candidates that no rule was written for: a defined result, or none with the reason."""

from __future__ import annotations

import pytest

from ragtrace.analyze import analyze_record
from ragtrace.types import (
    Analysis,
    Candidate,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RequestRecord,
    RetrieveRun,
    encode_record,
)

CHUNKS = ("The limit is thirty days in Ireland in 2024.", "Theft is covered for 14 days.")
OTHERS = {
    "Chinese": "限额为三十天。超过三十天不予赔付。",
    "Japanese": "上限は30日です。それ以上は支払われません。",
    "Korean": "한도는 30일입니다. 그 이상은 지급되지 않습니다.",
    "Arabic": "الحد الأقصى ثلاثون يوما. لا يدفع أكثر.",
    "Hebrew": "המגבלה היא שלושים יום. לא ישולם יותר.",
    "Thai": "ขีดจำกัดคือสามสิบวัน ไม่จ่ายเกิน",
    "Hindi": "सीमा तीस दिन है। इससे अधिक भुगतान नहीं।",
    "Russian": "Лимит составляет тридцать дней.",
    "German": "Die Grenze ist dreißig Tage und nicht mehr.",
    "Vietnamese": "Giới hạn là ba mươi ngày và không hơn.",
    "Polish": "Limit wynosi trzydzieści dni i nie więcej.",
    "Turkish": "Limit otuz gündür ve daha fazla ödenmez.",
    "Indonesian": "Batasnya adalah tiga puluh hari dan tidak lebih.",
}
ODD = {
    "right to left mark": "\u202eThe limit is thirty days.\u202c",
    "zero width": "The\u200blimit\u200bis\u200bthirty\u200bdays.",
    "no-break": "The\u00a0limit\u00a0is\u00a0thirty\u00a0days.",
    "many marks": "T" + "\u0301" * 500 + "he limit is thirty days.",
    "table": "| Item | Limit |\n|---|---|\n| Theft | 14 days |\n",
    "code": "```python\nlimit = 30\n```\nThe limit is thirty days.",
    "zero bytes": "The limit\x00 is thirty days.\x00",
    "half a character": "The limit \ud800 is thirty days. \udfff",
    "emoji": "👍🏽 👨‍👩‍👧‍👦",
    "marks alone": "!!! ??? ...",
    "digits": "30 14 2024 5.5",
    "HTML": "<p>The limit is <b>thirty</b> days.</p>",
    "JSON": '{"limit": "thirty days"}',
}


def analyzed(answer: str, *texts: str | None) -> Analysis:
    """The analysis of an answer to a question that names a place and a year, from chunks that were all packed."""
    chunks = tuple(PackedChunk(chunk_id=f"c{at}", position=at, text=text) for at, text in enumerate(texts, 1))
    candidates = tuple(Candidate(chunk_id=f"c{at}", rank=at, text=text) for at, text in enumerate(texts, 1))
    stages = (
        RetrieveRun(candidates=candidates),
        PackRun(packing=Packing(chunks=chunks)),
        GenerateRun(generation=Generation(answer=answer)),
    )
    query = Query(original="What is the limit in Ireland in 2024?")
    found = analyze_record(RequestRecord(request_id="r", service="s", query=query, stages=stages))
    assert all(answer[claim.start : claim.end] == claim.text for claim in found.claims)
    assert all(score.value is None or score.value >= 0.0 for score in found.scores)
    assert all(score.value is not None or score.reason for score in found.scores)
    return found


def reason(found: Analysis, metric: str) -> str | None:
    """Why a metric is undefined; it must be."""
    (score,) = [score for score in found.scores if score.metric == metric]
    assert score.value is None
    return score.reason


def _states(found: Analysis) -> dict[str, tuple[str, str | None]]:
    return {finding.stage: (finding.state, finding.reason) for finding in found.diagnosis.stages}


@pytest.mark.parametrize("answer", OTHERS.values(), ids=OTHERS)
def test_an_answer_in_another_language_is_not_judged(answer: str) -> None:
    """Beside English evidence and beside its own words: neither unsupported nor supported, and generation not known."""
    for texts in (CHUNKS, (answer, answer)):
        found = analyzed(answer, *texts)
        assert reason(found, "answer_coverage") == "language"
        assert _states(found)["generation"] == ("not_known", "language")
    assert analyzed(answer, *CHUNKS).diagnosis.verdict == "no_break_found"


@pytest.mark.parametrize("answer", ["", "  \n\t", "I don't know.", "👍"])
def test_an_answer_that_claims_nothing_has_no_coverage(answer: str) -> None:
    """No answer, an abstention, no claim."""
    assert reason(analyzed(answer, *CHUNKS), "answer_coverage") in ("no_answer", "abstained", "no_factual_claims")


@pytest.mark.parametrize("answer", [*ODD.values(), *OTHERS.values()])
def test_candidates_without_text_leave_all_unknown(answer: str) -> None:
    """Only their hashes were kept: nothing is supported, nothing is unsupported. All of them were packed, so that
    nothing was lost in ranking."""
    found = analyzed(answer, None, None)
    assert reason(found, "query_coverage") == "no_candidate_text"
    assert reason(found, "answer_coverage") in ("no_evidence_text", "no_factual_claims")
    assert found.diagnosis.verdict == "no_break_found"
    assert _states(found) == {
        "retrieval": ("not_known", "not_recorded"),
        "ranking": ("sound", None),
        "generation": ("not_known", "not_recorded"),
    }


@pytest.mark.parametrize("answer", ODD.values(), ids=ODD)
def test_odd_answers_have_a_defined_result(answer: str) -> None:
    """A share, or a reason; never full coverage by evidence that says something else."""
    assert analyzed(answer, *CHUNKS).score("query_coverage") == 1.0
    coverage = analyzed(answer, "Whales sing. Cats sleep.").score("answer_coverage")
    assert coverage in (None, 0.0)


def test_accents_of_two_characters_are_those_of_one() -> None:
    """Decomposed text, as macOS and many PDFs have it, is supported by composed text."""
    answer = "The cafe\u0301's re\u0301sume\u0301 of the soire\u0301e is nai\u0308ve."
    assert analyzed(answer, "The café's résumé of the soirée is naïve.").score("answer_coverage") == 1.0


@pytest.mark.parametrize("unit", ["1 ", "1-", "A-1-", "a", "[1] ", "(a ", "| a | 1 |\n", "2019 ", "e\u0301", "限"])
def test_a_huge_answer_of_one_kind_is_read(unit: str) -> None:
    """30 kB, which took minutes where something was read again for each of its parts."""
    found = analyzed(unit * (30_000 // len(unit)), *CHUNKS)
    assert found.score("answer_coverage") in (None, 0.0)


def test_what_was_analyzed_can_be_stored() -> None:
    """Claims of odd texts survive JSON; a half character is refused by the record, not by the analysis."""
    record = RequestRecord(request_id="r", service="s", query=Query(original="\x00 e\u0301 \u202e"))
    assert encode_record(record)
    assert analyze_record(record).diagnosis.verdict == "no_break_found"
