"""Verification of a batch: models judge its requests' claims in shared calls, and read the names of questions."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from ragtrace.analyze.analysis import judge_id, judged_answer, reader_of
from ragtrace.coverage import JudgedAnswer, ReadEntities, Verifier, is_abstention, united, verify_answers
from ragtrace.coverage.citations import SUPPORTED
from ragtrace.coverage.verifier import ENTAILMENT, AnswerJudge, Calibrated, JudgedRelevance, RelevanceJudge
from ragtrace.errors import NotJudged
from ragtrace.types import PackedChunk, RequestRecord, VerifiedBy

__all__ = [
    "AnswerVerifier",
    "ModelJudgments",
    "Models",
    "judge",
    "judge_batch",
    "judge_relevance",
    "question_nearness",
    "verified_by",
]

_log = logging.getLogger("ragtrace.analyze")
TOGETHER: Final = 3  # chunks outside of the prompt that are judged as one text


class AnswerVerifier(Verifier, Protocol):
    """A verifier that says which weights and which calibration it has."""

    @property
    def digest(self) -> str:
        """What tells its weights from others."""

    @property
    def calibration(self) -> Calibrated | None:
        """None where its probabilities are the model's own."""


@dataclass(frozen=True, slots=True)
class Models:
    """What a worker asks besides words: models that judge claims, each on top of those before it, one for names, and
    those that tell whether chunks are relevant to questions and whether answers speak of what was asked."""

    layers: tuple[AnswerVerifier, ...] = ()
    entities: ReadEntities | None = None
    relevance: RelevanceJudge | None = None
    answers: AnswerJudge | None = None

    @property
    def asks(self) -> bool:
        """Whether a model is asked about claims, chunks or answers."""
        return bool(self.layers) or self.relevance is not None or self.answers is not None

    @property
    def names(self) -> str:
        """All of them by name; "" where words alone judge."""
        by, reader = self.verified_by(), reader_of(self.entities)
        return " + ".join([*([by.name] if by else []), *([f"names: {reader}"] if reader else [])])

    def verified_by(self) -> VerifiedBy | None:
        """What is stored of them with each analysis; None where words alone judge."""
        return verified_by(*self.layers, relevant=self.relevance, answers=self.answers)

    def judge(self, by: VerifiedBy | None) -> str:
        """The digest of what judges a request of which models said what `by` says, without a service's calibration."""
        return judge_id(by, reader=reader_of(self.entities))


def verified_by(
    *layers: AnswerVerifier, relevant: RelevanceJudge | None = None, answers: AnswerJudge | None = None
) -> VerifiedBy | None:
    """What is stored of them with each analysis; None without any. The error is that of the last layer."""
    roles: list[tuple[str, RelevanceJudge | AnswerJudge | None]] = [("relevant", relevant), ("answers", answers)]
    others = [(role, judge) for role, judge in roles if judge is not None]
    judges = [*layers, *(judge for _, judge in others)]
    if not judges:
        return None
    calibrations = [judge.calibration for judge in (*layers[-1:], *(judge for _, judge in others))]
    return VerifiedBy(
        name=" + ".join([*(layer.name for layer in layers), *(f"{role}: {judge.name}" for role, judge in others)]),
        weights=" + ".join(judge.digest for judge in judges),
        calibration=" + ".join(each.id for each in calibrations if each is not None) or None,
        calibration_error=calibrations[0].ece if layers and calibrations[0] is not None else None,
    )


@dataclass(frozen=True, slots=True)
class ModelJudgments:
    """What models say of one request; nothing where words judge alone.

    answer: its verified answer, or why it cannot be verified, which fails the request; relevances: of its chunks and of
    its answer; nearness: of its answer to its question, by the encoder of a built-in judge; by: who said it.
    """

    answer: JudgedAnswer | Exception | None = None
    relevances: JudgedRelevance | None = None
    nearness: float | None = None
    by: VerifiedBy | None = None


def judge(records: Mapping[str, RequestRecord], models: Models) -> dict[str, ModelJudgments]:
    """What the models say of each request, by its id; those that are left out are judged by words.

    They are asked of all together, and request by request where that fails: what a judge does not judge, since its
    budget has ended or it answered something else than it was asked for, words judge, and never a half of one request;
    what cannot be read fails its own request. Where its server does not answer, words judge all.
    """
    if not models.asks:
        return {}
    try:
        return _judged_together(records, models)
    except NotJudged as error:
        _log.warning("%d requests are judged by words alone, or one by one: %s", len(records), error)
        if error.reason == "server":
            return {}
    except Exception as error:
        _log.warning("%d requests cannot be judged together (%s)", len(records), error)
    judged: dict[str, ModelJudgments] = {}
    for key, record in records.items():
        try:
            judged |= _judged_together({key: record}, models)
        except NotJudged as error:
            if error.reason != "odd":
                break
        except Exception as error:  # one request must not stop the others
            judged[key] = ModelJudgments(answer=error)
    return judged


def _judged_together(records: Mapping[str, RequestRecord], models: Models) -> dict[str, ModelJudgments]:
    answers = judge_batch(records, *models.layers) if models.layers else {}
    relevances = judge_relevance(records, models.relevance, models.answers, *models.layers)
    near = question_nearness(records, models.relevance, *models.layers)
    by = models.verified_by()
    return {key: ModelJudgments(answers.get(key), relevances.get(key), near.get(key), by) for key in records}


def judge_batch(records: Mapping[str, RequestRecord], *layers: Verifier) -> dict[str, JudgedAnswer | Exception]:
    """The verified answer of each request by its id; the exception of a request that cannot be verified.

    Each layer judges the claims on top of what words and earlier layers said. A request without an answer that can be
    judged is left out. An error of the whole batch is looked for request by request, so that one of them does not fail
    the others. Raises: NotJudged, which fails no request: words judge then (`judge`).
    """
    judged: dict[str, JudgedAnswer | Exception] = {}
    answers: dict[str, JudgedAnswer] = {}
    for key, record in records.items():
        try:
            if (answer := judged_answer(record)) is not None:
                answers[key] = answer
        except Exception as error:  # one request must not stop the others
            judged[key] = error
    try:
        found = _with_cosines(_through(list(answers.values()), layers), [records[key] for key in answers], layers)
        return judged | dict(zip(answers, found, strict=True))
    except NotJudged:
        raise
    except Exception as error:
        _log.warning("a batch of %d requests cannot be verified together (%s)", len(answers), error)
    for key, answer in answers.items():
        try:
            judged[key] = _with_cosines(_through([answer], layers), [records[key]], layers)[0]
        except NotJudged:
            raise
        except Exception as error:  # one request must not stop the others
            judged[key] = error
    return judged


def judge_relevance(
    records: Mapping[str, RequestRecord],
    relevance: RelevanceJudge | None,
    answers: AnswerJudge | None,
    *layers: Verifier,
) -> dict[str, JudgedRelevance]:
    """What the models say of each request's chunks and answer, by its id; all pairs of a role in one call.

    A text that was not recorded is not judged, and a request of which there is none is left out. layers: what judges
    the claims; one that reads claim and evidence together has to be calibrated too, or nothing counts as calibrated.
    """
    records = {key: united(record) for key, record in records.items()}
    texts = {key: _texts(record) for key, record in records.items()} if relevance else {}
    replies = {key: answer for key, record in records.items() if answers and (answer := _answer(record))}
    asked = {key: records[key].query.original for key in (*texts, *replies)}
    chunks = dict.fromkeys((asked[key], text) for key, found in texts.items() for text in found)
    pairs = dict.fromkeys((asked[key], answer) for key, answer in replies.items())
    relevant = dict(zip(chunks, relevance.relevant(list(chunks)) if relevance and chunks else (), strict=True))
    answered = dict(zip(pairs, answers.answers(list(pairs)) if answers and pairs else (), strict=True))
    judges = [relevance, answers, *(each for each in layers if getattr(each, "layer", ENTAILMENT) == ENTAILMENT)]
    is_calibrated = all(getattr(judge, "calibration", None) is not None for judge in judges if judge is not None)
    judged = {}
    for key in asked:
        record, question = records[key], asked[key]
        judged[key] = JudgedRelevance(
            {item.chunk_id: relevant[question, item.text] for item in record.candidates if texts and item.text},
            {chunk.chunk_id: relevant[question, chunk.text] for chunk in _packed(record) if texts and chunk.text},
            answered.get((question, replies.get(key, ""))),
            is_calibrated,
            relevance.name if relevance else None,
            outranks=bool(getattr(getattr(relevance, "calibration", None), "outranks", False)),
        )
    return _once_more(records, judged, relevance) if relevance and is_calibrated else judged


def _once_more(
    records: Mapping[str, RequestRecord], judged: Mapping[str, JudgedRelevance], relevance: RelevanceJudge
) -> dict[str, JudgedRelevance]:
    """With second judgments, since one alone breaks nothing: of the packed chunks together, and of the chunks outside
    of the prompt together that are the most relevant by themselves, if one of them is or none in the prompt is; and
    third ones (`further_judgments`). What would be judged as the text that it is already is not judged again."""
    texts: dict[tuple[str, str], Doubted] = {}
    likely: dict[str, tuple[str, ...]] = {}
    for key, said in judged.items():
        record = records[key]
        packed = [chunk.text for chunk in _packed(record) if chunk.text]
        inside = max(said.packed.values(), default=0.0)
        if len(packed) > 1:
            declines = is_abstention(_answer(record) or "")
            texts[key, "prompt"] = Doubted(record.query.original, packed, inside, breaks=declines)
        held = {chunk.chunk_id for chunk in _packed(record) if not chunk.truncated}
        left = {item.chunk_id: item.text for item in record.candidates if item.text and item.chunk_id not in held}
        best = tuple(sorted(left, key=lambda name: -said.candidates[name])[:TOGETHER])  # ties: as they were ranked
        if len(best) > 1 and (said.candidates[best[0]] >= SUPPORTED or inside < SUPPORTED):
            likely[key] = best
            chunks = [left[name] or "" for name in best]
            texts[key, "left"] = Doubted(record.query.original, chunks, said.candidates[best[0]], breaks=True)
    more = further_judgments(relevance, list(texts.values()))
    found = dict(zip(texts, more, strict=True))
    return {
        key: replace(
            said,
            prompt=found.get((key, "prompt"), ()),
            left=found.get((key, "left"), ()),
            likely_left=likely.get(key, ()),
        )
        for key, said in judged.items()
    }


@dataclass(frozen=True, slots=True)
class Doubted:
    """Chunks that are judged further as one text. first: the best of their first judgments, each by itself; breaks:
    whether it speaks for a break that they answer the question (outside of the prompt, and in it where the answer
    declines), or that they do not."""

    question: str
    chunks: Sequence[str]
    first: float
    breaks: bool


def further_judgments(judge: RelevanceJudge, asked: Sequence[Doubted]) -> list[tuple[float, ...]]:
    """The second judgment of chunks, as one text, and the third, of the same chunks in reverse order: where the second
    contradicts the first ones, and where both speak for a break, since a model that errs of one chunk may err again of
    a text that begins with it. Raises: NotJudged."""
    second = _relevant(judge, [(each.question, "\n\n".join(each.chunks)) for each in asked])
    odd = [
        place
        for place, (said, each) in enumerate(zip(second, asked, strict=True))
        if (said >= SUPPORTED) != (each.first >= SUPPORTED) or (each.first >= SUPPORTED) == each.breaks
    ]
    third = _relevant(judge, [(asked[place].question, "\n\n".join(reversed(asked[place].chunks))) for place in odd])
    decided = dict(zip(odd, third, strict=True))
    return [(said, decided[place]) if place in decided else (said,) for place, said in enumerate(second)]


def _relevant(judge: RelevanceJudge, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """What the judge says of each pair, each distinct one asked once."""
    distinct = list(dict.fromkeys(pairs))
    said = dict(zip(distinct, judge.relevant(distinct) if distinct else (), strict=True))
    return [said[pair] for pair in pairs]


def _packed(record: RequestRecord) -> tuple[PackedChunk, ...]:
    return record.packing.chunks if record.packing else ()


def question_nearness(records: Mapping[str, RequestRecord], *judges: object) -> dict[str, float]:
    """How near the answer of each request is to its question, in [-1, 1], by its id: by the first of the judges that
    has an encoder of its own, all texts in one call. Without one, or an answer, a request is left out."""
    nearness = next((found for judge in judges if (found := getattr(judge, "nearness", None))), None)
    if nearness is None:
        return {}
    pairs = {
        key: (one.query.original, answer) for key, one in records.items() if (answer := (_answer(one) or "").strip())
    }
    return dict(zip(pairs, nearness(list(pairs.values())), strict=True))


def _texts(record: RequestRecord) -> list[str]:
    """The texts of candidates and prompt that were recorded."""
    texts = [*(candidate.text for candidate in record.candidates), *(chunk.text for chunk in _packed(record))]
    return [text for text in texts if text]


def _answer(record: RequestRecord) -> str | None:
    return record.generation.answer if record.generation else None


def _with_cosines(
    answers: Sequence[JudgedAnswer], records: Sequence[RequestRecord], layers: Sequence[Verifier]
) -> list[JudgedAnswer]:
    """The answers, each with how near it is to its question by the first layer that embeds texts, if there is one."""
    cosines = next((found for layer in layers if (found := getattr(layer, "cosines", None))), None)
    if cosines is None:
        return list(answers)
    texts = [(each.query.original, (each.generation.answer if each.generation else None) or "") for each in records]
    return [replace(answer, cosine=cosine) for answer, cosine in zip(answers, cosines(texts), strict=True)]


def _through(answers: list[JudgedAnswer], layers: Sequence[Verifier]) -> list[JudgedAnswer]:
    for layer in layers:
        answers = verify_answers(answers, layer)
    return answers
