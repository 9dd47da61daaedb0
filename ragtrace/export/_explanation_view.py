"""A request joined with its explanation, ready for any output: its documents with letters, ranks, shares and texts, and
the findings in sentences: what its answer rests on, where the retriever disagrees.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from ragtrace.analyze.alignment import align_terms, ranking_of
from ragtrace.analyze.attribution import NO_MODEL
from ragtrace.analyze.prompts import SubsetPrompts, Unexplained, retrieval_queries
from ragtrace.explanations import (
    RESOLUTION,
    Explanation,
    GeneratorAttribution,
    MethodShares,
    Precision,
    RetrieverAttribution,
    TermUse,
    Use,
    term_uses,
)
from ragtrace.prompts import rebuild
from ragtrace.safe_text import UNSAFE
from ragtrace.types import Candidate, PackedChunk, RequestRecord, replace

__all__ = [
    "Document",
    "View",
    "advice",
    "bounds",
    "certainty",
    "flags",
    "headline",
    "leaves_words_out",
    "letter",
    "main_p",
    "measured",
    "method",
    "number",
    "phrases_note",
    "precision",
    "precision_of",
    "prompt_parts",
    "terms",
    "unit_of",
    "view",
    "visible",
]

_COLORS: Final = 10  # then they repeat, and the letters tell
_USUAL_P: Final = 0.9
_LEAST_WHOLE: Final = 0.1  # of the largest share: of shares that add up to less, none is a part
_HIDDEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202d\u202e\ud800-\udfff]")
_SURE = 0.995
_MORE = 100.5  # percent; rounded, 100 is the whole
_NOTHING = {
    "log_probability": "No document makes this answer more probable: it seems to rest on none of them.",
    "similarity": "No document stands out: the answer changes alike, or not at all, whichever is left out.",
}
_STOPPED = {
    "settle": " (ended early: its first document and its flags were settled)",
    "target_standard_error": " (ended early: its errors were small enough)",
}


@dataclass(frozen=True, slots=True)
class Document:
    """One document. `row`: its place in the attribution, where it is there; ranks start at 1.

    `percent` is its share of what all documents of the prompt add; None where they add nothing, or all but cancel.
    """

    letter: str
    color: int
    chunk_id: str
    title: str
    text: str
    row: int | None = None
    is_packed: bool = False
    truncated: bool = False
    retrieved_rank: int | None = None
    retriever_rank: int | None = None
    generator_rank: int | None = None
    share: float | None = None
    error: float | None = None
    percent: float | None = None
    why: RetrieverAttribution | None = None
    query_text: str = ""

    @property
    def name(self) -> str:
        """What tells it from others: its id, and its title where the id does not say it."""
        return self.chunk_id if self.title in self.chunk_id else f"{self.chunk_id} ({self.title})"

    @property
    def found(self) -> str:
        """How well it was retrieved, where that was explained: its score, its rank, and whether it was packed."""
        score = number(self.why.score, 3) if self.why is not None else "-"
        rank = f", found at rank {self.retrieved_rank}" if self.retrieved_rank else ""
        return f"score {score}{rank}{'' if self.is_packed else ', not in the prompt'}"


@dataclass(frozen=True, slots=True)
class View:
    """A request with what was found out about it. `documents`: those of the prompt in its order, then the others."""

    record: RequestRecord
    explanation: Explanation
    documents: tuple[Document, ...]
    answer: str
    question: str
    by_id: dict[str, Document] = field(default_factory=dict)

    @property
    def packed(self) -> tuple[Document, ...]:
        """The documents whose share of the answer is known."""
        return tuple(document for document in self.documents if document.row is not None)

    @property
    def unit(self) -> str:
        """In what shares are given."""
        return unit_of(self.explanation.generator)


def view(record: RequestRecord, explanation: Explanation) -> View:
    """Join a record with its explanation."""
    by_id = dict(_documents(record, explanation))
    generation = record.generation
    question = visible(record.query.original)
    return View(
        record=replace(
            record,
            request_id=_name(record.request_id),
            service=_name(record.service),
            segment=_name(record.segment),
            query=replace(record.query, original=question),
        ),
        explanation=explanation,
        documents=tuple(by_id.values()),
        answer=visible((generation.answer if generation else None) or ""),
        question=question,
        by_id=by_id,
    )


def visible(text: str) -> str:
    """A text of the same length without control characters, which would command a terminal, characters that turn all
    that follows round, and lone surrogates."""
    return _HIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def _name(text: str) -> str:
    """The same for a name, which stands in a line of ours: no direction that it begins may outlast it."""
    return UNSAFE.sub("\N{REPLACEMENT CHARACTER}", visible(text))


def letter(place: int) -> str:
    """A, B, ... Z, AA, AB, ... for 0, 1, ..."""
    return ("" if place < 26 else letter(place // 26 - 1)) + chr(ord("A") + place % 26)


def number(value: float | None, digits: int = 2, *, signed: bool = False) -> str:
    """A number as it is read: a true minus sign, no minus zero, `-` for what is unknown."""
    if value is None:
        return "-"
    shown = f"{value:+.{digits}f}" if signed else f"{value:.{digits}f}"
    if float(shown) == 0.0:
        shown = f"{0:.{digits}f}"
    return shown.replace("-", "−")


def measured(value: float | None, error: float | None, digits: int) -> str:
    """A value with its sign and, where it has one, its error."""
    return f"{number(value, digits, signed=True)}{f' ± {number(error, digits)}' if error else ''}"


def precision(values: Iterable[float]) -> int:
    """How many digits behind the point show the largest value with three figures, from 2 to 6."""
    largest = max((abs(value) for value in values), default=0.0)
    return min(max(2, 2 - math.floor(math.log10(largest))), 6) if largest > 0.0 else 2


def precision_of(query: GeneratorAttribution) -> int:
    """The same for the shares of a question's words; what cannot be told from zero asks for no digits."""
    return precision(share for share in query.shares if abs(share) > RESOLUTION)


def main_p(ps: Sequence[float]) -> int | None:
    """Which of the values of p is shown first: 0.9 where it is there, else the last."""
    if not ps:
        return None
    return min(range(len(ps)), key=lambda place: (abs(ps[place] - _USUAL_P) > 1e-9, -place))


def unit_of(attribution: GeneratorAttribution | None) -> str:
    """In what its shares are given."""
    return "likeness" if attribution is not None and attribution.unit == "similarity" else "nats per token"


def leaves_words_out(found: Explanation) -> bool:
    """Whether the retriever shows no gradients, so that each word was left out instead."""
    return bool(found.retriever) and found.retriever[0].rule == "leave_one_out"


def prompt_parts(view: View) -> list[tuple[Document | None, str, str, float]]:
    """Of a closed model each part of the prompt in its order: its document, its name, its text, its weight from 0 to 1.

    Sentences where they were left out, else documents. Source: RAG-Ex (Sudhi et al.).
    """
    generator = view.explanation.generator
    if generator is None or generator.unit != "similarity":
        return []
    if not generator.parts:
        return [(each, each.name, each.text, min(max(each.share or 0.0, 0.0), 1.0)) for each in view.packed]
    prompt = _prompt(view.record)
    parts: list[tuple[Document | None, str, str, float]] = []
    for part in generator.parts:
        document = view.by_id.get(part.chunk_id) if part.kind == "document" else None
        name = document.name if document is not None else part.kind
        parts.append((document, name, prompt[part.start : part.end], part.weight))
    return parts


def _prompt(record: RequestRecord) -> str:
    """The full prompt, as it can be shown; empty where its texts were not kept."""
    try:
        prompts = SubsetPrompts.of(record)
    except Unexplained:
        return ""
    return visible(rebuild(prompts.template, prompts.chunks))


def phrases_note(query: GeneratorAttribution) -> str:
    """How the words of a long question were asked for, and what their shades are."""
    return (
        f"The question has {len(query.query_words)} words, asked for in {len(query.query_spans)} groups. Shares and "
        "errors are of whole groups; a word's shade is its group's share, divided evenly among its words."
    )


def bounds(documents: Sequence[Document]) -> tuple[float, float]:
    """The least and the greatest value that bars and whiskers of these documents reach, zero among them.

    Both are zero where all are too small to be told from zero.
    """
    known = [(each.share, each.error or 0.0) for each in documents if each.share is not None]
    ends = [end for share, error in known for side in (-1, 1) if abs(end := share + side * error) > RESOLUTION]
    return min([0.0, *ends]), max([0.0, *ends])


def _adds(value: float) -> bool:
    """Whether a share, or a sum of them, can be told from zero, and is above it."""
    return value > RESOLUTION


def _gain(generator: GeneratorAttribution) -> float | None:
    """What all documents together add."""
    if generator.full is None or generator.empty is None:
        return None
    return generator.full - generator.empty


def _documents(record: RequestRecord, found: Explanation) -> Iterator[tuple[str, Document]]:
    packing = record.packing
    packed = {chunk.chunk_id: chunk for chunk in packing.chunks} if packing else {}
    candidates = {candidate.chunk_id: candidate for candidate in record.candidates}
    reasons = {why.chunk_id: why for why in found.retriever}
    generator, alignment = found.generator, found.alignment
    in_prompt = generator.chunk_ids if generator else tuple(packed)
    order = alignment.retriever if alignment else ranking_of(record, in_prompt) or ()
    queries = [visible(query) for query in retrieval_queries(record)]
    ranked = alignment.generator if alignment else _by_share(generator)
    for place, chunk_id in zip(count(), dict.fromkeys([*in_prompt, *order, *ranked, *reasons]), strict=False):
        why, candidate, chunk = reasons.get(chunk_id), candidates.get(chunk_id), packed.get(chunk_id)
        yield (
            chunk_id,
            Document(
                letter=letter(place),
                color=place % _COLORS,
                chunk_id=_name(chunk_id),
                title=_name(_title(candidate)),
                text=visible(_text(candidate, chunk, why)),
                is_packed=chunk is not None,
                truncated=chunk is not None and chunk.truncated,
                retrieved_rank=candidate.rank if candidate else None,
                retriever_rank=_place(order, chunk_id),
                generator_rank=_place(ranked, chunk_id),
                why=why,
                query_text=queries[why.query_number if why and why.query_number < len(queries) else 0],
                **_share(generator, chunk_id),
            ),
        )


def _share(generator: GeneratorAttribution | None, chunk_id: str) -> dict[str, Any]:
    """Row, share, error and percentage of one document, as far as they are known."""
    if generator is None or chunk_id not in generator.chunk_ids:
        return {}
    row = generator.chunk_ids.index(chunk_id)
    share = generator.shares[row] if row < len(generator.shares) else None
    error = generator.share_errors[row] if row < len(generator.share_errors) else None
    added = _gain(generator)
    largest = max(map(abs, generator.shares), default=0.0)
    is_whole = added is not None and _adds(added) and added >= _LEAST_WHOLE * largest
    percent = 100 * share / added if share is not None and added is not None and is_whole else None
    return {"row": row, "share": share, "error": error, "percent": percent}


def _by_share(generator: GeneratorAttribution | None) -> tuple[str, ...]:
    """The documents by descending share; none where several have the same, which is no order."""
    if generator is None or (len(generator.shares) > 1 and max(generator.shares) - min(generator.shares) <= RESOLUTION):
        return ()
    pairs = zip(generator.chunk_ids, generator.shares, strict=False)
    return tuple(chunk_id for chunk_id, _ in sorted(pairs, key=lambda pair: -pair[1]))


def _place(ranking: Sequence[str], chunk_id: str) -> int | None:
    return ranking.index(chunk_id) + 1 if chunk_id in ranking else None


def _title(candidate: Candidate | None) -> str:
    if candidate is None:
        return ""
    title = candidate.metadata.get("title")
    return title if isinstance(title, str) and title else candidate.doc_id or ""


def _text(candidate: Candidate | None, chunk: PackedChunk | None, why: RetrieverAttribution | None) -> str:
    """The text that the retriever scored: the whole chunk where it is kept, else what stood in the prompt."""
    texts = [each.text for each in (candidate, chunk) if each is not None and each.text]
    size = max((end for _, end in why.document.spans), default=0) if why else 0
    return next((text for text in texts if len(text) >= size), texts[0] if texts else "")


def headline(view: View) -> str:
    """What the answer rests on, in a few sentences."""
    found = view.explanation
    generator = found.generator
    known = [each for each in view.packed if each.share is not None]
    ranked = sorted(known, key=lambda each: each.generator_rank or len(known))  # as the table and the flags have it
    if generator is None or not ranked:
        return _unknown(found)
    first = ranked[0]
    if not _adds(first.share or 0.0):
        return _NOTHING[generator.unit]
    part = _part(first.percent) if first.percent is not None else ""
    lead = _lead(generator, *ranked[:2])
    return f"The answer rests most on {first.letter}, {first.name}{part}.{lead}{_canceled(generator, ranked[-1])}"


def _unknown(found: Explanation) -> str:
    """That nothing is known of the answer, and why; what a model would tell is left to who has one."""
    why = found.skipped.get("generator", NO_MODEL)
    if why != NO_MODEL:
        return f"What the answer used is not known: {why}."
    return "This explains the retrieval alone: what the answer used was not computed (--generator MODEL computes it)."


def _part(percent: float) -> str:
    against = ", as others speak against it" if percent > _MORE else ""
    return f", with {percent:.0f} % of what all documents add{against}"


def _lead(generator: GeneratorAttribution, first: Document, second: Document | None = None) -> str:
    """How sure it is that the first is the first, where it is not."""
    if second is None or first.row is None or second.row is None:
        return ""
    sure = certainty(generator, first.row, second.row)
    if sure is None or sure >= _SURE:
        return ""
    if generator.exact:
        return f" {second.letter} has the same share."
    return f" It is ahead of {second.letter} with probability {number(sure)} only; a larger budget may tell more."


def _canceled(generator: GeneratorAttribution, last: Document) -> str:
    """That others take away what some documents add, where that leaves nothing."""
    added = _gain(generator)
    if added is None or _adds(added):
        return ""
    against = f" {last.letter}, {last.name}, speaks most against it." if (last.share or 0.0) < -RESOLUTION else ""
    return f" Yet all documents together do not make it more probable.{against}"


def certainty(generator: GeneratorAttribution, first: int, second: int) -> float | None:
    """The probability that one document's share is above another's, as far as the errors tell; None: no errors."""
    distance = generator.shares[first] - generator.shares[second]
    if generator.exact:
        return 0.5 if abs(distance) <= RESOLUTION else float(distance > 0.0)
    errors = [generator.share_errors[row] if row < len(generator.share_errors) else None for row in (first, second)]
    if errors[0] is None or errors[1] is None:
        return None
    shared = generator.share_covariance[first][second] if generator.share_covariance else 0.0
    spread = math.sqrt(max(errors[0] ** 2 + errors[1] ** 2 - 2 * shared, 0.0))
    return 0.5 * (1 + math.erf(distance / (spread * math.sqrt(2)))) if spread else float(distance > 0.0)


def flags(view: View) -> Iterator[str]:
    """Wasted retrieval and noise distraction, each as a sentence."""
    alignment, generator = view.explanation.alignment, view.explanation.generator
    if alignment is None or not alignment.retriever or not alignment.generator:
        return
    if alignment.unused:
        added = (generator.full or 0.0) - (generator.empty or 0.0) if generator is not None else 0.0
        yield (
            f"Wasted retrieval: undefined. The answer rests on no document; together they add {number(added)} nats a"
            " token to it, so they were not used."
        )
        yield "Noise distraction: undefined, for the same reason."
        return
    is_exact = generator is not None and generator.exact
    meaning = {
        "wasted": "the retriever's best document was hardly used; the answer may be good all the same",
        "noise": "the answer rests on a document that was ranked low; that is where the evidence stood, or noise",
    }
    best, used = view.by_id[alignment.retriever[0]], view.by_id[alignment.generator[0]]
    size = len(alignment.retriever)
    role = "the answer uses most" if used.share is None or _adds(used.share) else "speaks least against the answer"
    yield _flag(
        "Wasted retrieval",
        alignment.wasted_retrieval,
        None if is_exact else alignment.wasted_probability,
        f"{best.letter}, the retriever's first document, is number {best.generator_rank} of {size} by its share of the "
        "answer",
        meaning["wasted"],
    )
    yield _flag(
        "Noise distraction",
        alignment.noise_distraction,
        None if is_exact else alignment.noise_probability,
        f"{used.letter}, which {role}, is number {used.retriever_rank} of {size} for the retriever",
        meaning["noise"],
    )


def _flag(name: str, is_set: bool | None, probability: float | None, reason: str, meaning: str) -> str:
    """One flag: whether it is set, how sure that is, why, and what it means where it is set."""
    if is_set is None:
        return f"{name}: undefined with three documents or fewer."
    sure = "" if probability is None else f" (probability {_bounded(probability if is_set else 1 - probability)})"
    return f"{name}: {'yes' if is_set else 'no'}{sure}. {reason}{f': {meaning}' if is_set else ''}."


def _bounded(probability: float) -> str:
    """A probability that was estimated: none of them is 0 or 1."""
    if probability >= _SURE:
        return "above 0.99"
    return "below 0.01" if probability <= 1 - _SURE else number(probability)


_WENT_BY: Final[dict[Use, str]] = {
    "both": "retriever and generator",
    "retriever": "only the retriever",
    "generator": "only the generator",
}


def terms(view: View) -> Iterator[tuple[str, str]]:
    """By which terms of the question retriever and generator went, and how far they agree, as names and values; nothing
    where one of them was not explained."""
    query = view.explanation.query
    found = term_uses(view.explanation, view.question, [visible(each) for each in retrieval_queries(view.record)])
    if query is None or not found:
        return
    for use, name in _WENT_BY.items():
        named = [term.text for term in found if term.used_by == use]
        yield name, ", ".join(named) or "no term"
    yield "agreement", _terms_agree(found, query)


def _terms_agree(found: Sequence[TermUse], query: GeneratorAttribution) -> str:
    try:
        alignment = align_terms(found, query)
    except Unexplained as reason:
        return f"not known: {reason}"
    place = main_p(alignment.ps) or 0
    said = f"WARG {number(alignment.adjusted[place])} (0 the same order of terms, 1 a random one)"
    for name, is_set in (("wasted", alignment.wasted_retrieval), ("noise", alignment.noise_distraction)):
        said += "" if is_set is None else f"; {_TERM_FLAGS[name][is_set]}"
    return said


_TERM_FLAGS: Final = {
    "wasted": ("the retriever's first term is needed", "the retriever's first term is hardly needed by the answer"),
    "noise": (
        "the answer's first term led to documents",
        "the term that the answer needs most hardly led to documents",
    ),
}


def advice(view: View) -> str | None:
    """Where to look next, if the answer rests on no document or does not follow the ranking."""
    alignment, generator = view.explanation.alignment, view.explanation.generator
    show = f"ragtrace show {view.record.request_id}"
    if generator is not None and generator.shares and not _adds(max(generator.shares)):
        return f"{show} tells which of its claims the documents support."
    if alignment is not None and (alignment.wasted_retrieval or alignment.noise_distraction):
        return f"{show} tells at which rank the evidence was found, reranked and packed."
    return None


def method(view: View) -> Iterator[tuple[str, str]]:
    """How it was computed, as names and values."""
    found = view.explanation
    for name, each in (("documents", found.generator), ("query words", found.query)):
        if each is not None:
            yield name, _of_game(each)
    for other in found.generator.compared if found.generator is not None else ():
        yield other.method, _by_method(view, other)
    if found.generator is not None and found.generator.attention:
        yield "attention × gradient", _attention(view, found.generator.attention)
    if found.retriever:
        first = found.retriever[0]
        deltas = [abs(why.completeness_delta) for why in found.retriever if why.completeness_delta is not None]
        worst = f", completeness within {max(deltas):.2g} of the score" if deltas else ""
        asked = sum(why.evaluations for why in found.retriever)
        how = f"Integrated Gradients ({first.rule or 'rule unknown'}, baseline {first.baseline or 'unknown'}), "
        how += f"{asked} gradients for {len(found.retriever)} documents{worst}"
        if leaves_words_out(found):
            how = f"each word left out once, {asked} vectors compared for {len(found.retriever)} documents"
        yield "retriever", f"{how}; {_model(first.engine, first.model, first.revision)}"
    gpu = f", of these {found.gpu_seconds:.1f} s on the GPU" if found.gpu_seconds else ""
    yield "cost", f"{found.seconds:.1f} s on {found.device}{gpu}"


def _attention(view: View, sums: Sequence[float]) -> str:
    """The documents by attention, beside the one that has the largest share."""
    order = sorted((each for each in view.packed if each.row is not None), key=lambda each: -sums[each.row or 0])
    digits = precision(sums)
    told = ", ".join(f"{each.letter} {number(sums[each.row or 0], digits, signed=True)}" for each in order)
    first = min(view.packed, key=lambda each: each.generator_rank or len(sums) + 1)
    is_same = (first.share or 0.0) - (order[0].share or 0.0) <= RESOLUTION
    agrees = "as the shares do" if is_same else f"where the shares put {first.letter}"
    return f"for comparison, puts {order[0].letter} first, {agrees}: {told}"


def _by_method(view: View, found: MethodShares) -> str:
    """The documents as another method ranks them, beside the one that has the largest share here."""
    if found.skipped is not None:
        return f"for comparison, not computed: {found.skipped}"
    order = sorted(view.packed, key=lambda each: -found.shares[each.row or 0])
    digits = precision(found.shares)
    told = ", ".join(
        f"{each.letter} {measured(found.shares[each.row or 0], found.share_errors[each.row or 0], digits)}"
        for each in order
    )
    first = min(view.packed, key=lambda each: each.generator_rank or len(order) + 1)
    agrees = "as the shares do" if order[0] == first else f"where the shares put {first.letter}"
    read = "all" if found.exact else str(found.evaluations)
    how = f"for comparison, on {read} of the subsets that were scored{_settings(found.settings)}"
    return f"{how}, puts {order[0].letter} first, {agrees}: {told}"


def _settings(settings: Mapping[str, bool | int | float | str]) -> str:
    """The settings of a method, in brackets; nothing where it has none."""
    told = ", ".join(f"{name} {str(value).lower()}" for name, value in settings.items())
    return f" ({told})" if told else ""


def _of_game(each: GeneratorAttribution) -> str:
    if each.method == "leave_one_out":
        model = _model(each.engine, each.model, each.revision)
        parts = " and each sentence" if each.parts else ""
        by = f" by {each.similarity}" if each.similarity else ""
        return f"each document{parts} left out once, {each.evaluations} answers compared{by}, without errors; {model}"
    if each.exact:
        how = "exact Shapley values"
    else:
        has_errors = any(error is not None for error in each.share_errors)
        how = f"Shapley values estimated by {each.method or 'an unknown method'}{_settings(each.settings)}"
        how += "" if has_errors else ", without errors"
    how += f", {each.evaluations} evaluations{_STOPPED.get(each.stopped or '', '')}, seed {each.seed}"
    precise = _precision(each.precision) if each.precision is not None else ""
    return f"{how}; {_model(each.engine, each.model, each.revision)}{precise}"


def _precision(found: Precision) -> str:
    """How values of reduced precision compare with float32."""
    if found.difference is None:
        return f", in {found.dtype}, not compared with float32 ({found.skipped or 'reason unknown'})"
    prompts = f"{found.prompts} prompt{'s' if found.prompts != 1 else ''}"
    difference = f"{number(found.difference)} nats"
    if found.repeated:
        return f", in float32, since {found.dtype} was off by up to {difference} on {prompts}"
    return f", in {found.dtype}, within {difference} of float32 on {prompts}"


def _model(engine: str, model: str, revision: str | None) -> str:
    return f"{engine or 'engine unknown'} {model or 'model unknown'}, revision {revision or 'unknown'}"
