"""What was found out about a request, in sentences: what its answer rests on, where the retriever disagrees."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ragtrace.explanations import GeneratorAttribution
from ragtrace.export.explanation_view import View, gain, number

__all__ = ["certainty", "flags", "headline", "method"]

_SURE = 0.995


def headline(view: View) -> str:
    """What the answer rests on, in one or two sentences."""
    found = view.explanation
    generator = found.generator
    ranked = sorted((each for each in view.packed if each.share is not None), key=lambda each: -(each.share or 0.0))
    if generator is None or not ranked:
        return f"What the answer used is not known: {found.skipped.get('generator', 'it was not computed')}."
    first = ranked[0]
    added = gain(generator)
    if (first.share or 0.0) <= 0.0 or (added is not None and added <= 0.0):
        return "The documents do not make this answer more probable: it seems to rest on none of them."
    part = f", with {first.percent:.0f} % of what all documents add" if first.percent is not None else ""
    sentence = f"The answer rests most on {first.letter}, {first.name}{part}."
    if len(ranked) == 1 or first.row is None or ranked[1].row is None:
        return sentence
    sure = certainty(generator, first.row, ranked[1].row)
    if sure is None or sure >= _SURE:
        return sentence
    if generator.exact:
        return f"{sentence} {ranked[1].letter} has the same share."
    return f"{sentence} It is ahead of {ranked[1].letter} with probability {number(sure)} only."


def certainty(generator: GeneratorAttribution, first: int, second: int) -> float | None:
    """The probability that one document's share is above another's, as far as the errors tell; None: no errors."""
    distance = generator.shares[first] - generator.shares[second]
    if generator.exact:
        return 1.0 if distance > 0.0 else 0.5 if distance == 0.0 else 0.0
    errors = [generator.share_errors[row] if row < len(generator.share_errors) else None for row in (first, second)]
    if errors[0] is None or errors[1] is None:
        return None
    shared = generator.share_covariance[first][second] if generator.share_covariance else 0.0
    spread = math.sqrt(max(errors[0] ** 2 + errors[1] ** 2 - 2 * shared, 0.0))
    return 0.5 * (1 + math.erf(distance / (spread * math.sqrt(2)))) if spread else float(distance > 0.0)


def flags(view: View) -> Iterator[str]:
    """Wasted retrieval and noise distraction, each as a sentence."""
    alignment = view.explanation.alignment
    if alignment is None or not alignment.retriever or not alignment.generator:
        return
    best, used = view.by_id[alignment.retriever[0]], view.by_id[alignment.generator[0]]
    size = len(alignment.retriever)
    yield _flag(
        "Wasted retrieval",
        alignment.wasted_retrieval,
        alignment.wasted_probability,
        f"{best.letter}, the retriever's first document, is number {best.generator_rank} of {size} by its share of the "
        "answer",
    )
    yield _flag(
        "Noise distraction",
        alignment.noise_distraction,
        alignment.noise_probability,
        f"{used.letter}, which the answer uses most, is number {used.retriever_rank} of {size} for the retriever",
    )


def _flag(name: str, is_set: bool | None, probability: float | None, reason: str) -> str:
    if is_set is None:
        return f"{name}: undefined with three documents or fewer."
    sure = f" (probability of the flag {number(probability)})" if probability is not None else ""
    return f"{name}: {'yes' if is_set else 'no'}{sure}. {reason}."


def method(view: View) -> Iterator[tuple[str, str]]:
    """How it was computed, as names and values."""
    found = view.explanation
    for name, each in (("documents", found.generator), ("query words", found.query)):
        if each is not None:
            yield name, _of_game(each)
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


def _of_game(each: GeneratorAttribution) -> str:
    if each.exact:
        how = "exact Shapley values"
    else:
        has_errors = any(error is not None for error in each.share_errors)
        how = f"Shapley values estimated by {each.method or 'an unknown method'}"
        how += "" if has_errors else ", without errors"
    return f"{how}, {each.evaluations} evaluations, seed {each.seed}; {_model(each.engine, each.model, each.revision)}"


def _model(engine: str, model: str, revision: str | None) -> str:
    return f"{engine or 'engine unknown'} {model or 'model unknown'}, revision {revision or 'unknown'}"
