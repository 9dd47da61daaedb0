"""Calibration: from what a model says to how often it is right, fitted on claims whose truth is known.

The expected calibration error is Σ_b (n_b / n) · |accuracy_b − mean probability_b| over ten bins of equal width (Guo et
al. 2017, "On Calibration of Modern Neural Networks").
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, get_args

from ragtrace.coverage.verifier import LEAST_BY_WORDS
from ragtrace.engines.models import load_package
from ragtrace.errors import ConfigurationError, ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = ["FILE", "Calibration", "Method", "as_method", "expected_calibration_error", "logits"]

FILE: Final = "calibration.json"
Method: TypeAlias = Literal["temperature", "isotonic"]
_LEAST: Final = 1e-6
_BINS: Final = 10
_RIDGE: Final = 0.1
_FOLDS: Final = 5


@dataclass(frozen=True, slots=True)
class Calibration:
    """How a model's support becomes a probability: under even odds, so that one threshold serves all layers.

    Attributes:
        method: `temperature`: sigmoid(logit / temperature + offset). The offset makes up for a share of supported
            claims that differs from that of the training. `isotonic`: a rising line through (x, y).
        lexical_weight: how much of the log odds that words alone give is added to those of the model.
        rate: the share of supported claims among those of the first kind that it was fitted on.
        model: the digest of the weights that it belongs to.
        data, claims, sources: on what it was fitted, the first kind first.
        threshold: the probability with the best balanced accuracy on these claims.
        ece: the expected calibration error at `rate`, on sources left out of the fit, one fifth after the other.
        lead: of a judge of relevance, the least by which it ranks better than the host's own reranker (the lower end of
            the 95 % interval, in AUROC within a question); None where no labels tell.
    """

    method: Method
    model: str
    temperature: float = 1.0
    offset: float = 0.0
    lexical_weight: float = 0.0
    rate: float = 0.5
    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()
    data: tuple[str, ...] = ()
    claims: int = 0
    sources: int = 0
    threshold: float = 0.5
    ece: float | None = None
    lead: float | None = None

    @property
    def id(self) -> str:
        """Twelve hexadecimal digits that follow from all the rest."""
        stated = {name: value for name, value in asdict(self).items() if name != "lead" or value is not None}
        return hashlib.blake2b(json.dumps(stated, sort_keys=True).encode(), digest_size=6).hexdigest()

    @property
    def outranks(self) -> bool:
        """Whether labels show that the judge ranks better than the host's own reranker."""
        return self.lead is not None and self.lead > 0.0

    @classmethod
    def fit(
        cls,
        support: ArrayLike,
        supported: ArrayLike,
        *,
        method: Method,
        model: str,
        lexical: ArrayLike | None = None,
        kinds: ArrayLike | None = None,
    ) -> Self:
        """Fit on the support that a model gave to claims, and whether they are supported.

        lexical: what words alone say of each claim; `temperature` finds out how much that adds, `isotonic` ignores it.
        kinds: which kind each claim is of, by number. All help to find the two slopes of `temperature`, each kind has
        an offset of its own; that of kind 0 and its rate are kept. `isotonic` looks at kind 0 only.

        Raises: ConfigurationError where all claims of kind 0 are supported, or none is.
        """
        import numpy as np

        given, truth = np.asarray(support, dtype=float), np.asarray(supported, dtype=float)
        kind = np.zeros(len(truth), dtype=int) if kinds is None else np.asarray(kinds, dtype=int)
        first = kind == 0
        if len(set(truth[first].tolist())) < 2:
            raise ConfigurationError("nothing to calibrate by: give both supported and unsupported claims")
        rate = round(float(truth[first].mean()), 6)
        if method == "isotonic":
            x, y = _isotonic(given[first], truth[first])
            return cls(method, model, x=x, y=y, rate=rate, claims=int(first.sum()))
        words = None if lexical is None else _word_logits(lexical)
        slope, offset, weight = _weights(logits(given), words, truth, kind)
        return cls(
            method,
            model,
            temperature=round(1.0 / slope, 9),
            offset=round(offset, 9),
            lexical_weight=round(weight, 9),
            rate=rate,
            claims=len(truth),
        )

    @classmethod
    def fit_pairs(
        cls, said: ArrayLike, truth: ArrayLike, groups: Sequence[str], *, method: Method, model: str, data: str
    ) -> Self:
        """Fit on what a judge says of pairs of any role, with the error on groups that a fit did not see.

        groups: of each pair what must not stand on both sides, such as its question. data: the name of the pairs.

        Raises: ConfigurationError where all pairs are of one kind, or all groups but one fifth of them are.
        """
        import numpy as np

        given, true = np.asarray(said, dtype=float), np.asarray(truth, dtype=float)
        fitted = cls.fit(given, true, method=method, model=model)
        names = sorted(set(groups))
        folds = np.array([names.index(each) % _FOLDS for each in groups])
        left_out = np.zeros(len(given))
        for fold in range(min(_FOLDS, len(names))):
            other = cls.fit(given[folds != fold], true[folds != fold], method=method, model=model)
            left_out[folds == fold] = other.at_rate(other.apply(given[folds == fold]))
        error = expected_calibration_error(left_out, true)
        return replace(fitted, data=(data,), sources=len(names), ece=round(error, 6))

    def apply(self, support: ArrayLike) -> NDArray[np.float64]:
        """Probabilities of support were supported and unsupported claims alike many, in the order given."""
        import numpy as np

        given: NDArray[np.float64] = np.asarray(support, dtype=float)
        if self.method == "isotonic":
            said = logits(np.interp(given, self.x, self.y))
        else:
            said = logits(given) / self.temperature + self.offset
        return _shares(said - logits(self.rate))

    def with_words(self, applied: ArrayLike, lexical: ArrayLike) -> NDArray[np.float64]:
        """What `apply` gave, with what words alone say of the same claims; NaN where they say nothing."""
        import numpy as np

        words = np.asarray(lexical, dtype=float)
        added = np.where(np.isnan(words), 0.0, self.lexical_weight * _word_logits(words))
        return _shares(logits(applied) + added)

    def at_rate(self, support: ArrayLike) -> NDArray[np.float64]:
        """What `apply` gave, as probabilities where `rate` of the claims are supported."""
        return _shares(logits(support) + logits(self.rate))

    def save(self, path: Path) -> None:
        """Write it as JSON, with its id."""
        path.write_text(json.dumps({"id": self.id, **asdict(self)}, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read it. Raises: ModelError where there is none, or what is there was changed by hand."""
        try:
            fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            stated = fields.pop("id")
            lists = {name: tuple(fields[name]) for name in ("x", "y", "data")}
            found = cls(**{**fields, **lists})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ModelError(
                f"{str(path)!r} is no calibration ({error}); write one by `ragtrace verifier calibrate`"
            ) from error
        if found.id != stated:
            raise ModelError(
                f"{str(path)!r} was changed since it was fitted; `ragtrace verifier calibrate` fits it again"
            )
        return found


def as_method(text: str) -> Method:
    """The method of this name. Raises: ConfigurationError for another one."""
    known: Method
    for known in get_args(Method):
        if text == known:
            return known
    raise ConfigurationError.of("calibration method", text, "temperature or isotonic")


def logits(probabilities: ArrayLike) -> NDArray[np.float64]:
    """ln(p / (1 − p)), finite also for 0 and 1."""
    import numpy as np

    inside = np.clip(np.asarray(probabilities, dtype=float), _LEAST, 1 - _LEAST)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _word_logits(lexical: ArrayLike) -> NDArray[np.float64]:
    """The log odds that words alone give, as `coverage.verifier` adds them."""
    import numpy as np

    return logits(np.clip(np.asarray(lexical, dtype=float), LEAST_BY_WORDS, 1 - LEAST_BY_WORDS))


def expected_calibration_error(probabilities: ArrayLike, truth: ArrayLike) -> float:
    """Σ_b (n_b / n) · |accuracy_b − mean probability_b| over ten bins of equal width; 0 for no claims."""
    import numpy as np

    given, true = np.asarray(probabilities, dtype=float), np.asarray(truth, dtype=float)
    places = np.minimum((given * _BINS).astype(int), _BINS - 1)
    gaps = [abs(float(np.sum(true[places == each]) - np.sum(given[places == each]))) for each in range(_BINS)]
    return sum(gaps) / len(given) if len(given) else 0.0


def _shares(given: NDArray[np.float64]) -> NDArray[np.float64]:
    """The reverse of `logits`."""
    import numpy as np

    return np.asarray(0.5 * (1 + np.tanh(given / 2)))


def _weights(
    given: NDArray[np.float64],
    lexical: NDArray[np.float64] | None,
    truth: NDArray[np.float64],
    kind: NDArray[np.int64],
) -> tuple[float, float, float]:
    """Slope of the model, offset, and slope of the words, of least log loss; no slope is negative.

    A model that is worse than chance must not be turned around.
    """
    import numpy as np

    columns = [given, np.ones_like(given)]
    others = [(kind == each).astype(float) for each in sorted(set(kind.tolist()) - {0})]
    if lexical is not None:
        slope, offset, weight, *_ = _newton(np.stack([*columns, lexical, *others], axis=1), truth)
        if slope > _LEAST and weight > 0:
            return float(slope), float(offset), float(weight)
    slope, offset, *_ = _newton(np.stack([*columns, *others], axis=1), truth)
    return max(float(slope), _LEAST), float(offset), 0.0


def _newton(columns: NDArray[np.float64], truth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logistic regression by Newton's method; a little ridge keeps separable claims finite."""
    import numpy as np

    target = np.zeros(columns.shape[1])
    target[0] = 1.0

    def loss(weights: NDArray[np.float64]) -> float:
        said = columns @ weights
        return float(np.sum(np.logaddexp(0, said) - truth * said) + 0.5 * _RIDGE * np.sum((weights - target) ** 2))

    weights = target
    for _ in range(100):
        said = _shares(columns @ weights)
        slope = columns.T @ (said - truth) + _RIDGE * (weights - target)
        curve = (columns * (said * (1 - said))[:, None]).T @ columns + _RIDGE * np.eye(len(weights))
        step = np.linalg.solve(curve, slope)
        while loss(weights - step) > loss(weights) and float(np.abs(step).max()) > _LEAST:
            step = step / 2
        weights = weights - step
        if float(np.abs(step).max()) < _LEAST:
            break
    return weights


def _isotonic(given: NDArray[np.float64], truth: NDArray[np.float64]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    import numpy as np

    order = np.argsort(given, kind="stable")
    x, first = np.unique(given[order], return_index=True)
    counts = np.diff(np.append(first, len(given)))
    means = np.add.reduceat(truth[order], first) / counts
    optimize: Any = load_package("scipy.optimize", package="scipy")
    y = optimize.isotonic_regression(means, weights=counts).x
    edge = np.concatenate([[True], np.diff(y) > 0]) | np.concatenate([np.diff(y) > 0, [True]])
    return tuple(round(float(each), 9) for each in x[edge]), tuple(round(float(each), 9) for each in y[edge])
