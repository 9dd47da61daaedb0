"""The labels of a sequence classifier: what it says of a pair in a role, and how it reads the pair.

Which output means that evidence supports a claim, and which that it contradicts it; or that a chunk or an answer is
relevant to a question: from its config and its family.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from ragtrace.engines._text_pairs import PairForm
from ragtrace.errors import ModelError

__all__ = ["ROLES", "Outputs", "Role", "read_form", "read_outputs"]

Role: TypeAlias = Literal["entails", "relevant", "answers"]
"""What is asked of a pair: whether evidence entails a claim, a chunk is relevant to a question, an answer fits it."""
ROLES: Final[tuple[Role, ...]] = ("entails", "relevant", "answers")

_AGAINST: Final = re.compile(r"contradict|refut|conflict")
_NOT: Final = re.compile(r"\bnot?\b|\bnon|\bun|\bin(?=consisten|correct|accura)|hallucinat|neutral|unknown|\bnei\b")
_FOR: Final = re.compile(r"entail|support|consisten|ground|faithful|attribut|factual|correct|accura")
_IRRELEVANT: Final = re.compile(r"\b(?:not?|non|false|off|part(?:ly|ial\w*))\b|\birrelevant|\bun(?=relat|answer)")
_RELEVANT: Final = re.compile(r"\b(?:yes|true|relevant|related|on topic|answer(?:s|ed|able)?)\b")
_UNNAMED: Final = re.compile(r"label \d+")
_REMEDIES: Final[dict[Role, str]] = {
    "entails": "(entailment, neutral, contradiction; supported, unsupported; or one label for a score)",
    **dict.fromkeys(("relevant", "answers"), "(relevant, irrelevant; yes, no; or one label for a score)"),
}
_MINICHECK: Final = re.compile(r"minicheck", re.IGNORECASE)
_MINICHECK_LABELS: Final = ("unsupported", "supported")  # as its authors document LABEL_0 and LABEL_1
_CRAG_JOINT: Final = " [SEP] "  # no token of T5, but the text that CRAG's evaluator was trained with
_CRAG_SCALE: Final = (-1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Outputs:
    """The places of a classifier's outputs. `support` None: one output, a score.

    support: the output that says yes: supported, relevant, answered.
    scale: the scores that mean 0 and 1, what lies between in proportion; None: the score's sigmoid.
    """

    support: int | None
    contradiction: int | None = None
    scale: tuple[float, float] | None = None


def read_outputs(name: str, config: Any, labels: Sequence[str] | None = None, *, role: Role = "entails") -> Outputs:
    """Read the outputs' meaning from a model's config, or from `labels` in the order of the outputs.

    Raises: ModelError where it cannot be told: outputs without names, two that say yes, none that does.
    """
    count = int(config.num_labels)
    if count == 1:
        return Outputs(None, scale=_CRAG_SCALE if _is_crag(config, role) else None)
    if getattr(config, "problem_type", None) in ("regression", "multi_label_classification"):
        raise ModelError(
            f"model {name!r} has {count} outputs that are no classes ({config.problem_type}); give a model with "
            "classes, or with one score"
        )
    names = _names(name, config.id2label, labels, count)
    if role == "entails" and all(map(_is_unnamed, names)) and _is_minicheck(name, config):
        names = _MINICHECK_LABELS
    meaning: Callable[[str], str | None] = _support if role == "entails" else _relevance
    read = [None if _is_unnamed(each) else meaning(_plain(each)) for each in names]
    if read.count("support") != 1 or read.count("contradiction") > 1 or None in read:
        raise ModelError(
            f"what the outputs of model {name!r} mean for the role {role!r} cannot be told from {list(names)}; name "
            f"them in id2label of its config.json {_REMEDIES[role]}, or give labels"
        )
    against = read.index("contradiction") if "contradiction" in read else None
    return Outputs(read.index("support"), against)


def read_form(name: str, config: Any, tokenizer: Any, role: Role) -> PairForm:
    """How a model of this family reads pairs in a role: as pairs of its tokenizer, but for two families.

    MiniCheck (by its name) reads document and claim as one text, joined by the end-of-sequence token. CRAG's evaluator
    (a T5 with one score) reads `question [SEP] passage`.
    """
    if role == "entails":
        return PairForm(joint=tokenizer.eos_token if _is_minicheck(name, config) else None)
    return PairForm(long_first=False, joint=_CRAG_JOINT if _is_crag(config, role) else None)


def _is_minicheck(name: str, config: Any) -> bool:
    return int(config.num_labels) == len(_MINICHECK_LABELS) and _MINICHECK.search(name) is not None


def _is_crag(config: Any, role: Role) -> bool:
    return role != "entails" and int(config.num_labels) == 1 and getattr(config, "model_type", None) == "t5"


def _names(name: str, given: Mapping[Any, str] | None, labels: Sequence[str] | None, count: int) -> Sequence[str]:
    if labels is not None:
        if len(labels) != count:
            raise ModelError(f"model {name!r} has {count} outputs, not {len(labels)}; give a label for each")
        return labels
    by_place = {int(place): str(label) for place, label in (given or {}).items()}
    return [by_place.get(place, f"LABEL_{place}") for place in range(count)]


def _plain(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", label.casefold()).strip()


def _is_unnamed(label: str) -> bool:
    return _UNNAMED.fullmatch(_plain(label)) is not None


def _support(label: str) -> str | None:
    """`support`, `contradiction` or `other`; None for a name that tells nothing."""
    if _AGAINST.search(label) and not _NOT.search(label):
        return "contradiction"
    if _NOT.search(label):
        return "other"
    return "support" if _FOR.search(label) else None


def _relevance(label: str) -> str | None:
    """`support` for yes, `other` for no; None for a name that tells nothing."""
    if _IRRELEVANT.search(label):
        return "other"
    return "support" if _RELEVANT.search(label) else None
