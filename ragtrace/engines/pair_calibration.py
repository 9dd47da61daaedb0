"""Calibration of any judge, in any role, on pairs that people labelled: classifiers, and models behind a server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragtrace.engines.calibration import Calibration, as_method
from ragtrace.engines.text_pairs import ROLES, Role
from ragtrace.errors import ConfigurationError

if TYPE_CHECKING:
    from ragtrace.engines._builtin_relevance import BuiltinRelevance
    from ragtrace.engines.chat_judge import ChatJudge
    from ragtrace.engines.pair_classifier import RelevanceClassifier
    from ragtrace.engines.verifier import EntailmentVerifier

__all__ = ["LabelledPair", "calibrate_judge", "read_pairs"]


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """A claim or question (`short`), the evidence, chunk or answer beside it (`long`), and whether people said yes."""

    short: str
    long: str
    label: bool


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
        short, long, label = found["short"], found["long"], found["label"]
    except (ValueError, TypeError, KeyError):
        short, long, label = None, None, None
    if not (isinstance(short, str) and isinstance(long, str) and isinstance(label, bool)):
        form = '{"short": "...", "long": "...", "label": true}'
        raise ConfigurationError(f"line {number} of {str(path)!r} is no labelled pair, such as {form}")
    return LabelledPair(short, long, label)


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
    return Calibration.fit_pairs(said, truth, groups, method=as_method(method), model=judge.digest, data=data)


def _bare(role: Role, model: str) -> EntailmentVerifier | RelevanceClassifier | BuiltinRelevance | ChatJudge:
    """The judge without a calibration: a folder may hold one."""
    from ragtrace.engines._builtin_relevance import BuiltinRelevance
    from ragtrace.engines._builtin_verifier import BuiltinVerifier
    from ragtrace.engines.chat_judge import ChatJudge
    from ragtrace.engines.model_names import load_judge

    found = load_judge("entails", model) if role == "entails" else load_judge(role, model)
    if isinstance(found, BuiltinVerifier):
        raise ConfigurationError.of(
            "judge", model, "a classifier or chat:URL#NAME: the built-in one is fitted as it is"
        )
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
