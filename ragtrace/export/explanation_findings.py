"""What was found out about a request, in sentences: what its answer rests on, where the retriever disagrees."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ragtrace.analyze.attribution import NO_MODEL
from ragtrace.explanations import RESOLUTION, Explanation, GeneratorAttribution, Precision
from ragtrace.export.explanation_view import Document, View, adds, gain, number, precision

__all__ = ["advice", "certainty", "flags", "headline", "method"]

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


def headline(view: View) -> str:
    """What the answer rests on, in a few sentences."""
    found = view.explanation
    generator = found.generator
    known = [each for each in view.packed if each.share is not None]
    ranked = sorted(known, key=lambda each: each.generator_rank or len(known))  # as the table and the flags have it
    if generator is None or not ranked:
        return _unknown(found)
    first = ranked[0]
    if not adds(first.share or 0.0):
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
    added = gain(generator)
    if added is None or adds(added):
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
    is_exact = generator is not None and generator.exact
    best, used = view.by_id[alignment.retriever[0]], view.by_id[alignment.generator[0]]
    size = len(alignment.retriever)
    role = "the answer uses most" if used.share is None or adds(used.share) else "speaks least against the answer"
    yield _flag(
        "Wasted retrieval",
        alignment.wasted_retrieval,
        None if is_exact else alignment.wasted_probability,
        f"{best.letter}, the retriever's first document, is number {best.generator_rank} of {size} by its share of the "
        "answer",
    )
    yield _flag(
        "Noise distraction",
        alignment.noise_distraction,
        None if is_exact else alignment.noise_probability,
        f"{used.letter}, which {role}, is number {used.retriever_rank} of {size} for the retriever",
    )


def _flag(name: str, is_set: bool | None, probability: float | None, reason: str) -> str:
    if is_set is None:
        return f"{name}: undefined with three documents or fewer."
    sure = "" if probability is None else f" (probability {_bounded(probability if is_set else 1 - probability)})"
    return f"{name}: {'yes' if is_set else 'no'}{sure}. {reason}."


def _bounded(probability: float) -> str:
    """A probability that was estimated: none of them is 0 or 1."""
    if probability >= _SURE:
        return "above 0.99"
    return "below 0.01" if probability <= 1 - _SURE else number(probability)


def advice(view: View) -> str | None:
    """Where to look next, if the answer rests on no document or does not follow the ranking."""
    alignment, generator = view.explanation.alignment, view.explanation.generator
    show = f"ragtrace show {view.record.request_id}"
    if generator is not None and generator.shares and not adds(max(generator.shares)):
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
    if found.generator is not None and found.generator.attention:
        yield "attention × gradient", _attention(view, found.generator.attention)
    if found.retriever:
        first = found.retriever[0]
        deltas = [abs(why.completeness_delta) for why in found.retriever if why.completeness_delta is not None]
        worst = f", completeness within {max(deltas):.2g} of the score" if deltas else ""
        yield (
            "retriever",
            f"Integrated Gradients ({first.rule or 'rule unknown'}, baseline {first.baseline or 'unknown'}), "
            f"{sum(why.evaluations for why in found.retriever)} gradients for {len(found.retriever)} documents{worst}; "
            f"{_model(first.engine, first.model, first.revision)}",
        )
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


def _of_game(each: GeneratorAttribution) -> str:
    if each.method == "leave_one_out":
        model = _model(each.engine, each.model, each.revision)
        return f"each document left out once, {each.evaluations} answers compared, without errors; {model}"
    if each.exact:
        how = "exact Shapley values"
    else:
        has_errors = any(error is not None for error in each.share_errors)
        how = f"Shapley values estimated by {each.method or 'an unknown method'}"
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
