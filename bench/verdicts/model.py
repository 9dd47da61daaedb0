"""What the verdict's benchmark is made of: domains, questions, the path of one request, and faults on it.

A path is built by `bench.verdicts.pipeline` from a domain and a setup, broken by an injector, and recorded by
`bench.verdicts.recording`. The injectors share nothing but these types.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

__all__ = [
    "GHOST",
    "MIX",
    "Domain",
    "Facet",
    "Fault",
    "Hit",
    "Injector",
    "Misled",
    "Packed",
    "Passage",
    "Path",
    "Question",
    "Setup",
    "Stage",
]

Stage: TypeAlias = Literal["retrieval", "ranking", "generation", "citation"]

GHOST: Final = "ghost-"  # begins the id of a mark whose chunk is in no prompt


MIX: Final[Mapping[Stage | None, float]] = {
    None: 0.80, "retrieval": 0.08, "generation": 0.06, "ranking": 0.04, "citation": 0.02
}  # fmt: skip
"""The traffic of production: the share of the requests that breaks first at each stage (None: nowhere)."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One chunk of a domain's knowledge base."""

    id: str
    title: str
    text: str

    @property
    def chunk(self) -> str:
        """What the retriever returns and the prompt holds: the title as a first line, where there is one."""
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True)
class Facet:
    """A constraint that a careful host would pass. kind, value: as `ragtrace.types.Facet` has them."""

    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class Misled:
    """What a model writes that was given the near miss `rests_on` instead of the evidence."""

    rests_on: str
    answer: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its evidence, sound answers and broken ones; see bench/domains/README.md.

    evidence: all groups are needed, any one passage of a group will do; empty where nothing can answer, or nothing has
    to be retrieved. Answers carry `{passage-id}` behind each claim that a careful writer would cite.
    """

    id: str
    kind: str
    question: str
    evidence: tuple[frozenset[str], ...]
    answers: tuple[str, ...]
    asked: str | None = None
    history: tuple[str, ...] = ()
    facets: tuple[Facet, ...] = ()
    altered: str | None = None
    made_up: str | None = None
    half: str | None = None
    refusal: str | None = None
    misled: Misled | None = None


@dataclass(frozen=True, slots=True)
class Domain:
    """One application's knowledge base and questions. origin: handwritten, debian (texts of packages) or published."""

    name: str
    passages: Mapping[str, Passage]
    questions: tuple[Question, ...]
    origin: Literal["handwritten", "debian", "published"]
    held_out: bool = False


@dataclass(frozen=True, slots=True)
class Setup:
    """How an application is built. depth: candidates that the retriever returns; packed: chunks in the prompt;
    scores: whether the retriever's scores are recorded; metadata: whether candidates carry source and title;
    cites: whether answers of the service cite; facets: whether the host passes facets; rounds: of retrieval, 1 to 4."""

    depth: int = 6
    packed: int = 4
    reranked: bool = False
    scores: bool = True
    metadata: bool = False
    cites: bool = False
    facets: bool = False
    rounds: int = 1


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage with the retriever's or reranker's score, best first in a list."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class Packed:
    """A passage in the prompt, with the text that stands there (cut where `truncated`)."""

    id: str
    text: str
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Path:
    """One request's way from question to answer.

    candidates: what the retriever returned, best first; reranked: the reranker's order, None without one; dropped: ids
    that a packer left out -> its reason; answer: with `{passage-id}` marks; rewritten: the query that the retriever was
    given where it differs from the question; earlier: candidates of earlier rounds of retrieval, which another round
    followed, oldest first. versions: component -> version.
    """

    domain: str
    question: Question
    setup: Setup
    candidates: tuple[Hit, ...]
    reranked: tuple[Hit, ...] | None
    packed: tuple[Packed, ...]
    answer: str
    dropped: Mapping[str, str] = field(default_factory=dict)
    rewritten: str | None = None
    earlier: tuple[tuple[Hit, ...], ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fault:
    """A way to break a path. name: unique within its injector; stage: the first stage that it breaks."""

    name: str
    stage: Stage


class Injector(Protocol):
    """Breaks sound paths. `faults` lists what it can do."""

    name: str
    faults: tuple[Fault, ...]

    def inject(self, path: Path, domain: Domain, fault: Fault, rng: random.Random) -> Path | None:
        """The path with the fault in it, downstream of it as a real pipeline would go on (another prompt, an answer
        that follows from it); None where the path offers no way for this fault."""
        ...
