"""Evaluation of a verifier on held-out sources, with intervals by resampling whole sources; its calibration, and that
of any judge, in any role, on pairs that people labelled.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ragtrace.coverage.citations import SUPPORTED
from ragtrace.coverage.verifier import JudgedAnswer, Verifier, supports_of_claims
from ragtrace.engines.calibration import Calibration, Method, as_method, expected_calibration_error
from ragtrace.engines.text_pairs import ROLES, Role
from ragtrace.engines.verifier_examples import Example, Part
from ragtrace.errors import ConfigurationError
from ragtrace.types import Claim, PackedChunk

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ragtrace.engines._builtin_relevance import BuiltinRelevance
    from ragtrace.engines.chat_judge import ChatJudge
    from ragtrace.engines.pair_classifier import RelevanceClassifier
    from ragtrace.engines.verifier import EntailmentVerifier

__all__ = [
    "CALIBRATE_ON",
    "IntervalEstimate",
    "LabelledPair",
    "Measured",
    "auroc",
    "balanced_accuracy",
    "best_threshold",
    "calibrate",
    "calibrate_judge",
    "evaluate",
    "measure",
    "read_pairs",
    "report",
    "some",
    "supports_of",
]

_Judge: TypeAlias = Literal["both", "model", "words"]
OnProgress = Callable[[int], None]
CALIBRATE_ON: Final = ("ragtruth-qa", "ragtruth-summary")
"""Answers of language models. Both help to weigh the model and the words; offset, rate, threshold and error are of the
first set alone: answers to questions, from retrieved passages, are what is verified later."""
_DRAWS: Final = 1000
FEWEST_QUESTIONS: Final = 20  # with chunks of both labels, from which they tell which of two ranks better
_FOLDS: Final = 5


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """A figure with its 95 % interval; None where it is undefined (all claims of one kind)."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found on one data set.

    Attributes:
        judge: `model`, `words` (alone), or `both` as they are stored together.
        claims_auroc, answers_auroc: the probability that a supported claim (an answer all of whose claims are
            supported) gets more support than an unsupported one; of answers by the expected number of such claims.
        certain_auroc: of claims, without those that are unsupported but true by general knowledge.
        accuracy, chosen_accuracy: balanced accuracy at the objective's threshold, and at the one chosen on the
            calibration's sources.
        ece: expected calibration error at the share of supported claims that the calibration was fitted on.
    """

    dataset: str
    judge: _Judge
    claims: int
    sources: int
    unsupported: int
    claims_auroc: IntervalEstimate
    certain_auroc: IntervalEstimate
    answers_auroc: IntervalEstimate
    accuracy: IntervalEstimate
    chosen_accuracy: IntervalEstimate
    ece: float


def supports_of(
    verifier: Verifier,
    examples: Sequence[Example],
    *,
    at_once: int = 256,
    on_progress: Callable[[int], None] | None = None,
) -> NDArray[np.float64]:
    """The support that each example's claim gets by `verifier` as a claim of an answer does, without words."""
    import numpy as np

    found: list[float] = []
    for start in range(0, len(examples), at_once):
        chosen = examples[start : start + at_once]
        found += [row[0] or 0.0 for row in supports_of_claims([_as_answer(each) for each in chosen], verifier)]
        if on_progress is not None:
            on_progress(len(chosen))
    return np.array(found)


def measure(
    examples: Sequence[Example],
    supports: NDArray[np.float64],
    *,
    judge: _Judge = "model",
    threshold: float = SUPPORTED,
    at_rate: Callable[[NDArray[np.float64]], NDArray[np.float64]] = lambda given: given,
) -> list[Measured]:
    """The figures of each data set, in the order in which they come.

    judge: who gave the supports. threshold: the chosen one. at_rate: what makes of supports the probabilities whose
    error is measured.
    """
    import numpy as np

    sets = dict.fromkeys(each.dataset for each in examples)
    places = {name: [place for place, each in enumerate(examples) if each.dataset == name] for name in sets}
    return [
        _measured(
            name,
            judge,
            [examples[place] for place in places[name]],
            np.asarray(supports)[places[name]],
            threshold,
            at_rate,
        )
        for name in sets
    ]


def auroc(scores: NDArray[np.float64], truth: NDArray[np.bool_]) -> float | None:
    """P(score of a true one > score of a false one) + P(equal) / 2; None where all are alike."""
    import numpy as np

    true, false = np.sort(scores[truth]), np.sort(scores[~truth])
    if not len(true) or not len(false):
        return None
    below = np.searchsorted(false, true, side="left")
    upto = np.searchsorted(false, true, side="right")
    return float((below + upto).sum() / (2 * len(true) * len(false)))


def balanced_accuracy(scores: NDArray[np.float64], truth: NDArray[np.bool_], threshold: float) -> float | None:
    """The mean of the shares of true ones at or above the threshold, and of false ones below it."""
    if not truth.any() or truth.all():
        return None
    return float(((scores[truth] >= threshold).mean() + (scores[~truth] < threshold).mean()) / 2)


def best_threshold(scores: NDArray[np.float64], truth: NDArray[np.bool_]) -> float:
    """Where the balanced accuracy is best; the lowest of several. `SUPPORTED` where it is undefined."""
    import numpy as np

    candidates = np.unique(scores)
    found = [balanced_accuracy(scores, truth, each) for each in candidates]
    if not found or found[0] is None:
        return SUPPORTED
    return float(candidates[int(np.argmax(np.array(found, dtype=float)))])


def _as_answer(example: Example) -> JudgedAnswer:
    claim = Claim(start=0, end=len(example.claim), text=example.claim)
    chunks = [
        PackedChunk(chunk_id=str(place), position=place, text=text) for place, text in enumerate(example.evidence, 1)
    ]
    return JudgedAnswer((claim,), ({},), tuple(chunks))


def _measured(
    name: str,
    judge: _Judge,
    examples: Sequence[Example],
    supports: NDArray[np.float64],
    threshold: float,
    at_rate: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> Measured:
    import numpy as np

    truth = np.array([each.supported for each in examples])
    certain = np.array([each.certain for each in examples])
    sources = [each.source for each in examples]
    probabilities = at_rate(supports)
    rows = _by_answer(examples, probabilities)
    answers = [row[0] for row in rows]
    worth, good = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    return Measured(
        dataset=name,
        judge=judge,
        claims=len(examples),
        sources=len(set(sources)),
        unsupported=int((~truth).sum()),
        claims_auroc=_interval(sources, lambda chosen: auroc(supports[chosen], truth[chosen])),
        certain_auroc=_interval(
            sources, lambda chosen: auroc(supports[chosen][certain[chosen]], truth[chosen][certain[chosen]])
        ),
        answers_auroc=_interval(answers, lambda chosen: auroc(worth[chosen], good[chosen]))
        if rows
        else IntervalEstimate(None),
        accuracy=_interval(sources, lambda chosen: balanced_accuracy(supports[chosen], truth[chosen], SUPPORTED)),
        chosen_accuracy=_interval(
            sources, lambda chosen: balanced_accuracy(supports[chosen], truth[chosen], threshold)
        ),
        ece=expected_calibration_error(probabilities, truth),
    )


def _by_answer(examples: Sequence[Example], supports: NDArray[np.float64]) -> list[tuple[str, float, bool]]:
    """Source, minus how many claims are expected to be unsupported, and whether none is, of each answer."""
    found: dict[str, tuple[str, float, bool]] = {}
    for each, support in zip(examples, supports, strict=True):
        if each.answer is not None:
            _, worth, good = found.get(each.answer, (each.source, 0.0, True))
            found[each.answer] = each.source, worth - (1 - float(support)), good and each.supported
    return list(found.values())


def _interval(sources: Sequence[str], figure: Callable[[NDArray[np.int64]], float | None]) -> IntervalEstimate:
    """The figure, and its percentiles over samples of whole sources with replacement."""
    import numpy as np

    by_source: dict[str, list[int]] = defaultdict(list)
    for place, source in enumerate(sources):
        by_source[source].append(place)
    groups = [np.array(places) for places in by_source.values()]
    value = figure(np.arange(len(sources)))
    draw = np.random.default_rng(0)
    draws = [
        figure(np.concatenate([groups[each] for each in draw.integers(len(groups), size=len(groups))]))
        for _ in range(_DRAWS if value is not None else 0)
    ]
    kept = [each for each in draws if each is not None]
    if value is None or not kept:
        return IntervalEstimate(value)
    low, high = np.percentile(kept, [2.5, 97.5])
    return IntervalEstimate(value, float(low), float(high))


def some(examples: Sequence[Example], part: Part, claims: int | None = None) -> list[Example]:
    """The examples of a part; of each data set whole sources until about so many `claims`, by a hash of their names."""
    chosen = [each for each in examples if each.part == part]
    if claims is None:
        return chosen
    kept: list[Example] = []
    for name in dict.fromkeys(each.dataset for each in chosen):
        own = [each for each in chosen if each.dataset == name]
        sources = sorted({each.source for each in own}, key=lambda name: hashlib.blake2b(name.encode()).digest())
        taken: set[str] = set()
        for source in sources:
            if sum(each.source in taken for each in own) >= claims:
                break
            taken.add(source)
        kept += [each for each in own if each.source in taken]
    return kept


def calibrate(
    verifier: EntailmentVerifier,
    examples: Sequence[Example],
    *,
    method: Method = "temperature",
    sets: Sequence[str] = CALIBRATE_ON,
    on_progress: OnProgress | None = None,
) -> Calibration:
    """Fit on the calibration sources of `sets`; the verifier has it from then on.

    sets: all of them weigh what the model says against what words say; the rest is fitted on the first one.

    Raises: ConfigurationError where there are none of the first, or all of one kind.
    """
    import numpy as np

    chosen = [each for each in some(examples, "calibrate") if each.dataset in sets]
    kinds = np.array([list(sets).index(each.dataset) for each in chosen])
    first = kinds == 0
    if not first.any():
        raise ConfigurationError(f"no claims to calibrate on in the set {', '.join(sets[:1])}; name some of the data")
    verifier.calibration = None
    supports = supports_of(verifier, chosen, on_progress=on_progress)
    claims = _Claims(supports, _lexical(chosen), np.array([each.supported for each in chosen]), kinds)
    fitted = claims.fitted(method, verifier.digest)
    said, truth = claims.judged(fitted)[first], claims.truth[first]
    fitted = replace(
        fitted,
        data=tuple(name for name in sets if any(each.dataset == name for each in chosen)),
        sources=len({(each.dataset, each.source) for each in chosen}),
        threshold=round(best_threshold(said, truth), 4),
        ece=_left_out_error(claims, [each.source for each in chosen], method),
    )
    verifier.calibration = fitted
    return fitted


def evaluate(
    verifier: EntailmentVerifier,
    examples: Sequence[Example],
    *,
    claims: int | None = None,
    on_progress: OnProgress | None = None,
) -> list[Measured]:
    """The figures on the held-out sources of each data set: of the model, of words, and of both, where both judge.

    Raises: ConfigurationError where no source is held out.
    """
    import numpy as np

    chosen = some(examples, "held_out", claims)
    if not chosen:
        raise ConfigurationError("no source of the data is held out; give more of them")
    supports = supports_of(verifier, chosen, on_progress=on_progress)
    calibration = verifier.calibration
    if calibration is None:
        return measure(chosen, supports)
    lexical = _lexical(chosen)
    worded = np.flatnonzero(~np.isnan(lexical))
    with_words = [chosen[place] for place in worded]
    judges: list[tuple[_Judge, NDArray[np.float64]]] = [
        ("both", calibration.with_words(supports, lexical)[worded]),
        ("model", supports[worded]),
        ("words", lexical[worded]),
    ]
    by: dict[str, Any] = {"threshold": calibration.threshold, "at_rate": calibration.at_rate}
    found = [each for judge, said in judges for each in measure(with_words, said, judge=judge, **by)]
    rest = np.flatnonzero(np.isnan(lexical))
    found += measure([chosen[place] for place in rest], supports[rest], **by)
    names = list(dict.fromkeys(each.dataset for each in chosen))
    return sorted(found, key=lambda each: names.index(each.dataset))


def report(verifier: EntailmentVerifier, found: Sequence[Measured]) -> dict[str, Any]:
    """All of it as plain data."""
    calibration = verifier.calibration
    return {
        "model": verifier.name,
        "weights": verifier.digest,
        "calibration": None if calibration is None else {"id": calibration.id, **asdict(calibration)},
        "held_out": [asdict(each) for each in found],
    }


@dataclass(frozen=True, slots=True)
class _Claims:
    """What the model and words alone say of claims (NaN: nothing), the truth, and which set each claim is of."""

    supports: NDArray[np.float64]
    lexical: NDArray[np.float64]
    truth: NDArray[np.bool_]
    kinds: NDArray[np.int64]

    def of(self, chosen: NDArray[np.bool_]) -> _Claims:
        return _Claims(self.supports[chosen], self.lexical[chosen], self.truth[chosen], self.kinds[chosen])

    def fitted(self, method: Method, model: str) -> Calibration:
        import numpy as np

        lexical = None if np.isnan(self.lexical).any() else self.lexical
        return Calibration.fit(self.supports, self.truth, method=method, model=model, lexical=lexical, kinds=self.kinds)

    def judged(self, calibration: Calibration) -> NDArray[np.float64]:
        return calibration.with_words(calibration.apply(self.supports), self.lexical)


def _lexical(examples: Sequence[Example]) -> NDArray[np.float64]:
    """What words alone say of the claims; NaN of those that are no part of an answer."""
    import numpy as np

    return np.array([np.nan if each.lexical is None else each.lexical for each in examples])


def _left_out_error(claims: _Claims, sources: Sequence[str], method: Method) -> float | None:
    """The error, on the first set, of calibrations that were each fitted without a fifth of the sources, on it."""
    import numpy as np

    fold_of = {source: place % _FOLDS for place, source in enumerate(sorted(set(sources)))}
    folds = np.array([fold_of[source] for source in sources])
    first = claims.kinds == 0
    said = np.full(len(sources), np.nan)
    for fold in range(_FOLDS):
        rest, left = claims.of(folds != fold), claims.of(folds == fold)
        if len(set(rest.truth[rest.kinds == 0].tolist())) < 2:
            return None
        fitted = rest.fitted(method, "")
        said[folds == fold] = fitted.at_rate(left.judged(fitted))
    return round(expected_calibration_error(said[first], claims.truth[first]), 4)


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """A claim or question (`short`), the evidence, chunk or answer beside it (`long`), and whether people said yes; of
    a chunk also the score of the host's own reranker (`host`), if that is known."""

    short: str
    long: str
    label: bool
    host: float | None = None


def read_pairs(path: Path) -> list[LabelledPair]:
    """Pairs from lines of JSON. Raises: ConfigurationError with the number of a line that is none."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # JSON may hold other line ends
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"the pairs {str(path)!r} cannot be read: {error}") from error
    return [_pair(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _pair(path: Path, number: int, line: str) -> LabelledPair:
    try:
        found = json.loads(line)
        short, long, label, host = found["short"], found["long"], found["label"], found.get("host")
    except (ValueError, TypeError, KeyError, AttributeError):
        short, long, label, host = None, None, None, None
    is_score = host is None or (isinstance(host, int | float) and not isinstance(host, bool) and math.isfinite(host))
    if not (isinstance(short, str) and isinstance(long, str) and isinstance(label, bool) and is_score):
        form = '{"short": "...", "long": "...", "label": true}'
        raise ConfigurationError(f"line {number} of {str(path)!r} is no labelled pair, such as {form}")
    return LabelledPair(short, long, label, None if host is None else float(host))


def calibrate_judge(model: str, role: str, pairs: Sequence[LabelledPair], *, method: str, data: str) -> Calibration:
    """Ask a judge about labelled pairs, and fit its probabilities. A calibration that it has is not used.

    model: as `ragtrace analyze --judge` names it. data: what the pairs are called.

    Raises: ConfigurationError for another role, and for pairs of one kind; else as the judge does (NotJudged).
    """
    asked = next((known for known in ROLES if known == role), None)
    if asked is None:
        raise ConfigurationError.of("--role", role, ", ".join(ROLES))
    truth = [pair.label for pair in pairs]
    if len(set(truth)) < 2:
        raise ConfigurationError("nothing to calibrate by: give pairs of both labels")
    judge = _bare(asked, model)
    said = _support(judge, asked, [(pair.short, pair.long) for pair in pairs])
    groups = [pair.short for pair in pairs]
    fitted = Calibration.fit_pairs(said, truth, groups, method=as_method(method), model=judge.digest, data=data)
    return replace(fitted, lead=_lead(pairs, said)) if role == "relevant" else fitted


def _lead(pairs: Sequence[LabelledPair], said: Sequence[float]) -> float | None:
    """The least by which a judge ranks the chunks of a question better than the host did: the lower end of the 95 %
    interval of the mean difference in AUROC. None where few questions have chunks of both labels with a host's score.
    """
    import numpy as np

    scored: dict[str, list[tuple[float, float, bool]]] = defaultdict(list)
    for pair, share in zip(pairs, said, strict=True):
        if pair.host is not None:
            scored[pair.short].append((share, pair.host, pair.label))
    differences = []
    for rows in scored.values():
        judge, host, truth = (np.array(column) for column in zip(*rows, strict=True))
        if 0 < truth.sum() < len(truth):
            differences.append((auroc(judge, truth) or 0.0) - (auroc(host, truth) or 0.0))
    if len(differences) < FEWEST_QUESTIONS:
        return None
    each = np.array(differences)
    found = _interval([str(place) for place in range(len(each))], lambda chosen: float(each[chosen].mean()))
    return None if found.low is None else round(found.low, 6)


def _bare(role: Role, model: str) -> EntailmentVerifier | RelevanceClassifier | BuiltinRelevance | ChatJudge:
    """The judge without a calibration: a folder may hold one."""
    from ragtrace.engines._builtin_relevance import BuiltinRelevance
    from ragtrace.engines.chat_judge import ChatJudge
    from ragtrace.engines.model_names import load_judge

    found = load_judge("entails", model) if role == "entails" else load_judge(role, model)
    if not isinstance(found, ChatJudge | BuiltinRelevance):
        found.calibration = None
    return found


def _support(
    judge: EntailmentVerifier | RelevanceClassifier | BuiltinRelevance | ChatJudge,
    role: Role,
    pairs: Sequence[tuple[str, str]],
) -> list[float]:
    """What the judge says by itself of each pair, in [0, 1]."""
    from ragtrace.engines._builtin_relevance import BuiltinRelevance
    from ragtrace.engines.chat_judge import ChatJudge

    if isinstance(judge, BuiltinRelevance):
        return judge.relevant(pairs)

    if not isinstance(judge, ChatJudge):
        return [float(share) for share in judge.probabilities(pairs)[0]]
    if role == "entails":
        return [support for support, _ in judge.verify(pairs)]
    return judge.relevant(pairs) if role == "relevant" else judge.answers(pairs)
