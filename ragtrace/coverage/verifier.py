"""Layer 2 of a claim's support: what a model says of claim and evidence, merged with what words alone say.

A claim is put beside the packed chunks that hold most of its words, beside those that it cites, and beside the best
sentences of all packed chunks together (`gather`), since one claim may rest on two of them. A claim that none supports
is then put beside the packed chunk that holds most of the question's words, since an answer in other words ("it goes
dead after a quarter of an hour") has few in common with what it rests on, and beside the unselected candidates that
hold most of its own. One of which a calibrated verifier is not sure is put once more, beside those packed chunks as one
text: a second judgment. All answers of a call share each batch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace as replaced
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple, Protocol, TypeAlias

from ragtrace.coverage.citations import SUPPORTED, without_citations
from ragtrace.coverage.text import content_words, sentences, words
from ragtrace.types import Candidate, Claim, PackedChunk, replace

__all__ = [
    "ENTAILMENT",
    "LEAST_BY_WORDS",
    "TOGETHER",
    "AnswerJudge",
    "Borne",
    "Calibrated",
    "JudgedAnswer",
    "JudgedRelevance",
    "Pair",
    "RelevanceJudge",
    "Verdict",
    "Verifier",
    "containment",
    "gather",
    "log_odds",
    "repeated",
    "sparse",
    "supports_of_claims",
    "terms",
    "verify_answers",
]

ENTAILMENT: Final = "entailment"
"""The layer of a claim that a model has judged."""
CHUNKS: Final = 3  # packed chunks that a claim is put beside, those that it cites not counted
UNSELECTED: Final = 2
LEAST_BY_WORDS: Final = 1e-3
"""What words alone say counts as lying between this and its complement: they are never that sure."""
_LEAST_BY_MODEL: Final = 1e-6
_DIGITS: Final = 4  # of what is stored
_KEPT: Final = 0.2  # support or contradiction by one chunk, from which it is kept with the claim
_STEPS: Final = 100  # of two digits
SURE: Final = 3.0  # log odds that a claim is borne out, from which on it is not judged once more
GATHERED: Final = 0.8  # of claims that one chunk bears out, those that its gathered sentences bear out as well
TOGETHER: Final = 0.97  # the same, of all those chunks as one text
AGAIN: Final = 0.1  # of errors of a model of one text, those that it makes again where that stands among others
SEVERAL: Final = 0.03  # of claims that the evidence bears out, those that no chunk does by itself
_LEAST_OF_PAIR: Final = 1 / (1 + math.exp(5.0))  # no single judgment is believed beyond these log odds
_ANY: Final = 0.03  # what counts for each chunk beside its support by words
LEAST: Final = 0.3  # share of a claim's terms that an unselected candidate must hold to be worth a look

Pair: TypeAlias = tuple[str, str]
"""A claim and the evidence that it is put beside."""
Verdict: TypeAlias = tuple[float, float]
"""The probabilities that the evidence supports the claim, and that it contradicts it."""


class Verifier(Protocol):
    """What judges claims by evidence; `name` says which model did.

    One that has a `lexical_weight` gets so much of the log odds that words alone give to a claim added to its own. Its
    `layer` is stored with the claims, `ENTAILMENT` where it has none.
    """

    @property
    def name(self) -> str:
        """The model's name, which is stored with what it said."""

    def verify(self, pairs: Sequence[Pair]) -> Sequence[Verdict]:
        """(support, contradiction) of each (claim, evidence), each in [0, 1]; one half: as likely as not."""


@dataclass(frozen=True, slots=True)
class Borne:
    """What all judgments of one claim say together. odds: the log odds that the packed chunks bear it out, at even odds
    before; rests: the share of each chunk in what it then rests on, by its id; they sum to 1."""

    odds: float
    rests: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """The claims of an answer, what each packed chunk says to each of them, chunks, candidates and question.

    cosine: of the embeddings of question and answer, in [-1, 1]; None where no model was asked. by_words: the claims as
    words alone judge them; borne: what all judgments of a calibrated verifier together say of each claim, None of one
    that states nothing; both are empty where no calibrated verifier judged.
    """

    claims: tuple[Claim, ...]
    supports: tuple[dict[str, float], ...]
    packed: tuple[PackedChunk, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    question: str = ""
    cosine: float | None = None
    by_words: tuple[Claim, ...] = ()
    borne: tuple[Borne | None, ...] = ()


class Calibrated(Protocol):
    """The calibration of a model."""

    @property
    def id(self) -> str:
        """What tells it from others."""

    @property
    def ece(self) -> float | None:
        """Its expected calibration error."""


class RelevanceJudge(Protocol):
    """What tells which chunks hold what answers a question."""

    @property
    def name(self) -> str:
        """The model's name."""

    @property
    def digest(self) -> str:
        """What tells its weights, or its prompts, from others."""

    @property
    def calibration(self) -> Calibrated | None:
        """None where its probabilities are the model's own."""

    def relevant(self, pairs: Sequence[Pair]) -> Sequence[float]:
        """The probability that the chunk of each (question, chunk) holds what answers it, or a needed part of it, each
        in [0, 1] where both are as likely before."""


class AnswerJudge(Protocol):
    """What tells whether an answer speaks of what was asked."""

    @property
    def name(self) -> str:
        """The model's name."""

    @property
    def digest(self) -> str:
        """What tells its weights, or its prompts, from others."""

    @property
    def calibration(self) -> Calibrated | None:
        """None where its probabilities are the model's own."""

    def answers(self, pairs: Sequence[Pair]) -> Sequence[float]:
        """The probability that the answer of each (question, answer) speaks of what was asked, each in [0, 1]; one that
        declines does not."""


@dataclass(frozen=True, slots=True)
class JudgedRelevance:
    """What models say of a request's chunks and answer.

    candidates, packed: the relevance of each text by its chunk's id, as it was retrieved and as it stands in the
    prompt; answer: whether the answer speaks of what was asked, None where it was not judged; is_calibrated: whether
    these are probabilities that were checked against labels, so that the states of the stages may rest on them; by:
    the judge of the chunks; outranks: whether labels show that it ranks better than the host's own reranker. prompt: of
    all packed chunks as one text, and left: of the best ones outside of the prompt (`likely_left`) as one text: a
    calibrated judge's second judgments, and third ones of the same chunks in reverse order where these contradict the
    first ones or both speak for a break; empty where they were not asked for.
    """

    candidates: Mapping[str, float] = field(default_factory=dict)
    packed: Mapping[str, float] = field(default_factory=dict)
    answer: float | None = None
    is_calibrated: bool = False
    by: str | None = None
    outranks: bool = False
    prompt: tuple[float, ...] = ()
    left: tuple[float, ...] = ()
    likely_left: tuple[str, ...] = ()


@dataclass(slots=True)
class _Asked:
    """One claim, what it was put beside (None: the best sentences of all chunks), and what was said of it."""

    claim: Claim
    chunk_ids: list[str | None]
    pairs: list[Pair]
    weight: float = 0.0
    layer: str = ENTAILMENT
    verdicts: Sequence[Verdict] = ()
    likely: Mapping[str, float] = field(default_factory=dict)  # by words, which chunk it rests on

    @property
    def gathered(self) -> float | None:
        """The log odds of its support by the best sentences of all chunks; None where they were not asked."""
        return next((_said(said) for key, said in zip(self.chunk_ids, self.verdicts, strict=True) if key is None), None)

    @property
    def by_chunk(self) -> dict[str, Verdict]:
        """The verdict of each chunk that was asked."""
        return {key: said for key, said in zip(self.chunk_ids, self.verdicts, strict=True) if key is not None}

    @property
    def support(self) -> float:
        """The largest of all, with what words alone say of the claim."""
        largest = max((support for support, _ in self.verdicts), default=0.0)
        if not self.weight or self.claim.support is None:
            return largest
        odds = log_odds(largest, _LEAST_BY_MODEL) + self.weight * log_odds(self.claim.support, LEAST_BY_WORDS)
        return 1 / (1 + math.exp(-odds))


def verify_answers(answers: Sequence[JudgedAnswer], verifier: Verifier) -> list[JudgedAnswer]:
    """The answers with their factual claims judged by `verifier`; claims that state nothing stay as they are.

    The support of a claim is the largest of all evidence that it was put beside. It is contradicted by a chunk that it
    cites, unless another cited chunk supports it; else by any chunk, as long as none supports it. What words alone
    found against it (another number, a negation) counts there as well.
    """
    asked = _asked(answers, verifier)
    others = [
        [_beside_others(each, answer) if each and each.support < SUPPORTED else None for each in row]
        for row, answer in zip(asked, answers, strict=True)
    ]
    is_calibrated = getattr(verifier, "calibration", None) is not None
    once_more = [
        [_together(each, answer) if is_calibrated and each and borne_out(each).odds < SURE else None for each in row]
        for row, answer in zip(asked, answers, strict=True)
    ]
    _ask([each for rows in (others, once_more) for answer in rows for each in answer if each], verifier)
    third = [
        [_reversed(each, second, answer) if each and second else None for each, second in zip(*both, strict=True)]
        for *both, answer in zip(asked, once_more, answers, strict=True)
    ]
    _ask([each for answer in third for each in answer if each], verifier)
    borne = [
        tuple(borne_out(each, *filter(None, more)) if each else None for each, *more in zip(*rounds, strict=True))
        if is_calibrated
        else ()
        for rounds in zip(asked, once_more, third, strict=True)
    ]
    return [_merged(*each) for each in zip(answers, asked, others, borne, strict=True)]


def borne_out(asked: _Asked, *more: _Asked) -> Borne:
    """What the judgments of a claim say together, each by its log odds, and less where it agrees with those before it.

    If the evidence bears the claim out, one chunk does, mostly, and words tell which is likely; the gathered sentences
    do so too, unless what it needs was left out of them. If not, nothing does. more: further judgments, of the chunks
    as one text.
    """
    odds = {key: _said(said) for key, said in asked.by_chunk.items()}
    likely = {key: _ANY + asked.likely.get(key, 0.0) for key in odds}
    weights = {key: likely[key] * math.exp(odds[key]) for key in odds}
    total, whole = math.fsum(weights.values()), math.fsum(likely.values())
    direct = total / whole if whole else 1.0
    gathered = 1.0 if asked.gathered is None else math.exp(repeated(asked.gathered, math.log(direct)))
    one = direct * (GATHERED * gathered + 1 - GATHERED)
    several = gathered if asked.gathered is not None else direct
    found = (1 - SEVERAL) * one + SEVERAL * several
    for each in more:
        found *= TOGETHER * math.exp(repeated(_said(each.verdicts[0]), math.log(found))) + 1 - TOGETHER
    return Borne(math.log(found), {key: weight / total for key, weight in weights.items()})


def _said(verdict: Verdict) -> float:
    return log_odds(verdict[0], _LEAST_OF_PAIR)


def supports_of_claims(answers: Sequence[JudgedAnswer], verifier: Verifier) -> list[list[float | None]]:
    """The support of each claim by the packed chunks as `verify_answers` finds it, unrounded; None if not factual."""
    asked = _asked(answers, verifier)
    return [[each.support if each else None for each in row] for row in asked]


def _asked(answers: Sequence[JudgedAnswer], verifier: Verifier) -> list[list[_Asked | None]]:
    how = float(getattr(verifier, "lexical_weight", 0.0)), getattr(verifier, "layer", ENTAILMENT)
    asked = [
        [_beside_packed(*each, answer, *how) for each in zip(answer.claims, answer.supports, strict=True)]
        for answer in answers
    ]
    _ask([each for answer in asked for each in answer if each], verifier)
    more = [
        (each, also)
        for answer, row in zip(answers, asked, strict=True)
        for each in row
        if each and each.support < SUPPORTED and (also := _beside_asked(each, answer))
    ]
    _ask([also for _, also in more], verifier)
    for each, also in more:
        each.chunk_ids += also.chunk_ids
        each.verdicts = (*each.verdicts, *also.verdicts)
        each.pairs += also.pairs
    return asked


def log_odds(probability: float, least: float) -> float:
    """The log odds of a probability, which counts as lying between `least`, above 0, and its complement."""
    inside = min(max(probability, least), 1 - least)
    return math.log(inside / (1 - inside))


def repeated(odds: float, known: float, chances: int = 1) -> float:
    """The log odds of a further judgment of what others said `known` of. One that agrees tells less than one that does
    not: where a model erred it errs again in a share of the cases (`AGAIN`), in each of so many `chances`."""
    if odds * known <= 0.0:
        return odds
    again = 1 - (1 - AGAIN) ** chances
    right = 1 / (1 + math.exp(-abs(odds)))
    return math.copysign(math.log((again + (1 - again) * right) / (again + (1 - again) * (1 - right))), odds)


def _ask(asked: Sequence[_Asked], verifier: Verifier) -> None:
    """Every pair of all claims in one call."""
    pairs = [pair for each in asked for pair in each.pairs]
    verdicts = iter(verifier.verify(pairs) if pairs else ())
    for each in asked:
        each.verdicts = list(islice(verdicts, len(each.pairs)))


def _beside_packed(
    claim: Claim, supports: Mapping[str, float], answer: JudgedAnswer, weight: float, layer: str
) -> _Asked | None:
    if not claim.factual:
        return None
    text = without_citations(claim.text).strip()
    chunks = {chunk.chunk_id: chunk.text for chunk in answer.packed if chunk.text}
    cited = {citation.chunk_id for citation in claim.citations}
    nearest = sorted(chunks, key=lambda key: -containment(text, chunks[key]))[:CHUNKS]
    chosen = [key for key in chunks if key in nearest or key in cited]
    likely = supports if claim.layer != ENTAILMENT else {}
    asked = _Asked(claim, list(chosen), [(text, chunks[key]) for key in chosen], weight, layer, likely=likely)
    if len(chunks) > 1:
        asked.chunk_ids.append(None)
        asked.pairs.append((text, gather(text, list(chunks.values()))))
    return asked


def _beside_asked(asked: _Asked, answer: JudgedAnswer) -> _Asked | None:
    """A claim beside the packed chunk that holds most of the question's words, of those that it was not put beside."""
    chunks = {each.chunk_id: each.text for each in answer.packed if each.text and each.chunk_id not in asked.by_chunk}
    held = {key: containment(answer.question, text) for key, text in chunks.items()}
    best = max(held, key=lambda key: held[key], default=None)
    if best is None or not held[best]:
        return None
    return _Asked(asked.claim, [best], [(without_citations(asked.claim.text).strip(), chunks[best])])


def _together(asked: _Asked, answer: JudgedAnswer) -> _Asked | None:
    """A claim beside the same chunks as one text; of a single one, beside its best sentences, if it has others."""
    text = without_citations(asked.claim.text).strip()
    chosen = [chunk.text for chunk in answer.packed if chunk.text and chunk.chunk_id in asked.by_chunk]
    told = "\n\n".join(chosen) if len(chosen) > 1 else gather(text, chosen) if chosen else ""
    if not told or any(told == evidence for _, evidence in asked.pairs):
        return None
    return _Asked(asked.claim, [None], [(text, told)])


def _reversed(asked: _Asked, second: _Asked, answer: JudgedAnswer) -> _Asked | None:
    """A claim that a judgment denies, beside the same chunks in reverse order: one that contradicts another one is
    decided, and one that all deny breaks no request by two errors. None where all bear it out, or of one chunk."""
    single = max((_said(said) for said in asked.by_chunk.values()), default=0.0)
    said = [single, single if asked.gathered is None else asked.gathered, _said(second.verdicts[0])]
    chosen = [chunk.text for chunk in answer.packed if chunk.text and chunk.chunk_id in asked.by_chunk]
    if len(chosen) < 2 or min(said) >= 0.0:
        return None
    return _Asked(asked.claim, [None], [(second.pairs[0][0], "\n\n".join(reversed(chosen)))])


def _beside_others(asked: _Asked, answer: JudgedAnswer) -> _Asked | None:
    text = without_citations(asked.claim.text).strip()
    packed = {chunk.chunk_id for chunk in answer.packed}
    texts = {each.chunk_id: each.text for each in answer.candidates if each.text and each.chunk_id not in packed}
    held = {key: containment(text, said) for key, said in texts.items()}
    near = sorted((key for key in held if held[key] >= LEAST), key=lambda key: -held[key])[:UNSELECTED]
    return _Asked(asked.claim, list(near), [(text, texts[key]) for key in near]) if near else None


def _merged(
    answer: JudgedAnswer,
    asked: Sequence[_Asked | None],
    others: Sequence[_Asked | None],
    borne: tuple[Borne | None, ...],
) -> JudgedAnswer:
    claims, supports = [], []
    for claim, known, each, other in zip(answer.claims, answer.supports, asked, others, strict=True):
        claims.append(_judged(claim, each, other) if each else claim)
        said = {key: round(support, _DIGITS) for key, (support, _) in each.by_chunk.items()} if each else known
        supports.append(said)
    by_words = answer.by_words or (answer.claims if any(borne) else ())
    return replaced(answer, claims=tuple(claims), supports=tuple(supports), by_words=by_words, borne=borne)


def _judged(claim: Claim, asked: _Asked, others: _Asked | None) -> Claim:
    by_chunk = asked.by_chunk
    best = max(by_chunk, key=lambda key: by_chunk[key][0], default=None)
    contradiction, against, reason = _against(claim, asked)
    unselected = others.by_chunk if others else {}
    contradictions = dict(claim.contradictions)  # what words found stays where the model was not asked, or is silent
    contradictions.update((key, contradicted) for key, (_, contradicted) in by_chunk.items() if contradicted)
    if against is not None:
        contradictions[against] = contradiction
    other = max(unselected, key=lambda key: unselected[key][0], default=None)
    elsewhere = unselected[other][0] if other else None
    return replace(
        claim,
        support=round(asked.support, _DIGITS),
        contradiction=round(contradiction, _DIGITS),
        best_chunk=against or best,
        layer=asked.layer,
        unselected_chunk=other if elsewhere is not None and elsewhere >= SUPPORTED else None,
        unselected_support=None if elsewhere is None else round(elsewhere, _DIGITS),
        reason=reason,
        supports=sparse({key: support for key, (support, _) in by_chunk.items()}),
        contradictions=sparse(contradictions),
    )


def _against(claim: Claim, asked: _Asked) -> tuple[float, str | None, str | None]:
    """How far, by which chunk and why the claim is contradicted."""
    by_chunk = asked.by_chunk
    cited = [by_chunk[mark.chunk_id] for mark in claim.citations if mark.chunk_id in by_chunk]
    if any(support >= SUPPORTED for support, _ in cited):
        return 0.0, None, None
    heard = {mark.chunk_id for mark in claim.citations} & by_chunk.keys()
    if not any(by_chunk[key][1] >= SUPPORTED for key in heard if key is not None):
        if asked.support >= SUPPORTED:
            return 0.0, None, None
        heard = set(by_chunk)
    worst = max((key for key in heard if key is not None), key=lambda key: by_chunk[key][1], default=None)
    found = by_chunk[worst][1] if worst else 0.0
    if (claim.contradiction or 0.0) >= max(found, SUPPORTED):
        return claim.contradiction or 0.0, claim.best_chunk, claim.reason
    return found, worst if found >= SUPPORTED else None, "contradicted by the evidence" if found >= SUPPORTED else None


def sparse(by_chunk: Mapping[str, float]) -> dict[str, float]:
    """What is kept with a claim of its support or contradiction by each chunk: the values from 0.2 on.

    They are cut to two digits and not rounded, so that none rises to a threshold that it does not reach.
    """
    return {key: int(value * _STEPS + 1e-9) / _STEPS for key, value in by_chunk.items() if value >= _KEPT}


WORDS: Final = 100  # with a claim of thirty words they fit into 192 word pieces
_AGAIN: Final = 0.1  # what a word counts that another chosen sentence has said already


class _Sentence(NamedTuple):
    text: str
    terms: frozenset[str]
    length: int


def terms(text: str) -> frozenset[str]:
    """What `text` speaks of: the stems of its content words, and its numbers as written."""
    return frozenset((*content_words(text), *(word for word in words(text) if word[0].isdigit())))


def containment(claim: str, text: str) -> float:
    """The share of the claim's terms that `text` holds, in [0, 1]; 0 for a claim without terms."""
    claimed = terms(claim)
    held = frozenset().union(*(sentence.terms for sentence in _read(text)))
    return len(claimed & held) / len(claimed) if claimed else 0.0


def gather(claim: str, texts: Sequence[str], *, limit: int = WORDS) -> str:
    """Sentences of `texts`, in their order, chosen one by one for the rarest words of the claim that they add.

    At least one and at most about `limit` words; the first sentences where none has a word in common with the claim.
    """
    pool = [sentence for text in texts for sentence in _read(text)]
    if sum(sentence.length for sentence in pool) <= limit:
        return " ".join(sentence.text for sentence in pool)
    frequency = Counter(term for sentence in pool for term in sentence.terms)
    weights = {term: math.log1p(len(pool) / (frequency[term] + 0.5)) for term in terms(claim)}
    chosen = _chosen(pool, weights, limit) or list(range(min(1, len(pool))))
    used = sum(pool[place].length for place in chosen)
    for place in range(len(pool)):  # what stands first tells most of what the rest is about
        if place not in chosen and used + pool[place].length <= limit:
            chosen.append(place)
            used += pool[place].length
    return " ".join(pool[place].text for place in sorted(chosen))


def _chosen(pool: Sequence[_Sentence], weights: dict[str, float], limit: int) -> list[int]:
    found: list[int] = []
    covered: set[str] = set()
    left = {place for place, sentence in enumerate(pool) if sentence.terms & weights.keys()}
    used = 0
    while left:
        gains = {place: _gain(pool[place].terms, weights, covered) for place in left}
        best = max(left, key=lambda place: (gains[place], -place))
        left.discard(best)
        if found and used + pool[best].length > limit:
            continue
        found.append(best)
        used += pool[best].length
        covered |= pool[best].terms
    return found


def _gain(said: frozenset[str], weights: dict[str, float], covered: set[str]) -> float:
    return math.fsum(weights[term] * (_AGAIN if term in covered else 1.0) for term in said & weights.keys())


@lru_cache(maxsize=2048)
def _read(text: str) -> tuple[_Sentence, ...]:
    return tuple(_Sentence(each.text, terms(each.text), len(each.text.split())) for each in sentences(text))
