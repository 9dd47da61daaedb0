"""The applications that the benchmark asks: a real retriever, a fallible reranker and a packer over each domain.

A path is sound where each group of the evidence has a member that is packed whole and the answer is one of the sound
ones. Where the pipeline by itself lost the evidence, the path is a natural failure.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
import re
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from pathlib import Path as File
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from bench.verdicts.model import Domain, Hit, Packed, Path, Question, Setup, Stage
from ragtrace.coverage.text import sentences
from ragtrace.engines.encoder import Encoder, packaged_encoder
from ragtrace.engines.models import load_package

__all__ = [
    "CACHE",
    "MARK",
    "SERVICES",
    "Index",
    "Natural",
    "Service",
    "answer_without_evidence",
    "asked_of",
    "bare",
    "holds_answer",
    "index_of",
    "keywords_of",
    "lost_groups",
    "marks_of",
    "pack",
    "path_of",
    "rerank",
    "sentences_of",
    "spuriously_cited",
    "words_of",
]

CACHE: Final = File(os.environ.get("XDG_CACHE_HOME", File.home() / ".cache")) / "ragtrace-bench"
MARK: Final = re.compile(r"\s?\{([a-z0-9][a-z0-9-]*)\}")
LEXICAL: Final = 0.4  # share of BM25 in a mixed retriever
HELD: Final = 0.8  # share of an answer's words from which a passage may well hold the answer
SAME: Final = 0.7  # share of common words from which two passages with the same figures are near duplicates
OVERLAP: Final = 1.0  # the reranker's weights: of shared words,
ORDERED: Final = 0.3  # of shared pairs of words,
PRIOR: Final = 0.5  # and of the retriever's score
REFUSALS: Final = (
    "I could not find this in the documents I have access to.",
    "I'm sorry, but the information provided does not answer this question.",
    "The documents do not say anything about this, so I cannot answer it.",
    "Unfortunately I don't have enough information to answer that.",
    "There is no mention of this in the sources. You may want to contact support.",
)
FRAMES: Final = (
    "According to the documents, {}",
    "Here is what I found: {}",
    "From the sources: {}",
    "{}",
)
_WORD: Final = re.compile(r"[^\W_]+(?:[._'’-][^\W_]+)*|[^\W_]+")
_FIGURE: Final = re.compile(r"\d+(?:[.,]\d+)*")
_STOPS: Final = frozenset(
    "a about all also an and any are as at be because been but by can could did do does during each for from had has "
    "have he her his how i if in into is it its may me might more most must my no not of on one only or other our out "
    "over shall she should so some such than that the their them then there these they this those to under up was we "
    "were what when where which while who whom whose why will with would you your".split()
)

Break = Literal["retrieval", "ranking"]


@dataclass(frozen=True, slots=True)
class Service:
    """A named way to build an application. lexical: the share of BM25 in its retriever."""

    name: str
    setup: Setup
    lexical: float = 0.0


SERVICES: Final = (
    Service("k3", Setup(3, 3)),
    Service("k3-cites", Setup(3, 3, cites=True, scores=False), LEXICAL),
    Service("k4", Setup(4, 4, cites=True, metadata=True)),
    Service("k4-mixed", Setup(4, 4, scores=False, facets=True), LEXICAL),
    Service("k6", Setup(6, 4)),
    Service("k6-reranked", Setup(6, 4, reranked=True, cites=True, facets=True)),
    Service("k6-rounds", Setup(6, 4, cites=True, rounds=2), LEXICAL),
    Service("k10", Setup(10, 5, cites=True, metadata=True), LEXICAL),
    Service("k10-reranked", Setup(10, 5, reranked=True)),
    Service("k10-rounds", Setup(10, 5, rounds=4, scores=False)),
    Service("k20", Setup(20, 6, cites=True)),
    Service("k20-reranked", Setup(20, 6, reranked=True, metadata=True, facets=True), LEXICAL),
    Service("k20-rounds", Setup(20, 5, reranked=True, cites=True, rounds=3)),
    Service("k50-reranked", Setup(50, 8, reranked=True, cites=True, metadata=True)),
    Service("k50-mixed", Setup(50, 8, reranked=True, scores=False), LEXICAL),
)


@dataclass(frozen=True, slots=True)
class Natural:
    """A path, and the stage that by itself lost the evidence with how it was answered then; None: it is sound."""

    path: Path
    broken: Stage | None = None
    answered: str | None = None


class Index:
    """One domain's passages, found by the similarity of their embeddings, by their words, or by both."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self._ids = list(domain.passages)
        self._rows = {passage_id: row for row, passage_id in enumerate(self._ids)}
        self._queries: dict[str, NDArray[np.float32]] = {}

    def prepare(self) -> None:
        """Embed the passages and the questions, once for each machine."""
        asked = [asked_of(question) for question in self.domain.questions]
        self.embed([*asked, *(keywords_of(question.question) for question in self.domain.questions)])
        _ = self._vectors

    def search(self, query: str, depth: int, *, lexical: float = 0.0, without: Collection[str] = ()) -> tuple[Hit, ...]:
        """The best `depth` passages, best first, but for those that the index is to be `without`."""
        scores = self._vectors @ self._vector(query)
        if lexical and (terms := _terms(query)):
            scores = (1 - lexical) * scores + lexical * _scaled(self._words.get_scores(terms))
        order = np.argsort(-scores, kind="stable")
        hits = (Hit(self._ids[row], round(float(scores[row]), 4)) for row in order)
        kept = (hit for hit in hits if hit.id not in without)
        return tuple(hit for hit, _ in zip(kept, range(depth), strict=False))

    def duplicates(self, ids: Iterable[str]) -> frozenset[str]:
        """Passages that say nearly the same with the same figures, those of `ids` included."""
        found = set(ids)
        for passage_id in tuple(found):
            words, figures = self._profiles[passage_id]
            for other, (its_words, its_figures) in self._profiles.items():
                if figures == its_figures and len(words & its_words) >= SAME * len(words | its_words):
                    found.add(other)
        return frozenset(found)

    def rarity(self, term: str) -> float:
        """How much a word tells: high for one that few passages have."""
        return math.log(1 + len(self._ids) / (1 + self._counts[term]))

    @cached_property
    def _profiles(self) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
        return {
            passage.id: (words_of(passage.chunk), frozenset(_FIGURE.findall(passage.chunk)))
            for passage in self.domain.passages.values()
        }

    @cached_property
    def _counts(self) -> Counter[str]:
        return Counter(term for passage in self.domain.passages.values() for term in set(_terms(passage.chunk)))

    @cached_property
    def _words(self) -> Any:
        index = load_package("bm25s").BM25()
        index.index([_terms(passage.chunk) or ["-"] for passage in self.domain.passages.values()], show_progress=False)
        return index

    @cached_property
    def _vectors(self) -> NDArray[np.float32]:
        return self._embedded([passage.chunk for passage in self.domain.passages.values()])

    def embed(self, queries: Iterable[str]) -> None:
        """Embed queries that are to be searched for, all at once."""
        new = [query for query in dict.fromkeys(queries) if query not in self._queries]
        self._queries |= _embedded_queries(new) if new else {}

    def _vector(self, query: str) -> NDArray[np.float32]:
        self.embed([query])
        return self._queries[query]

    def _embedded(self, texts: Sequence[str]) -> NDArray[np.float32]:
        digest = hashlib.blake2b("\0".join(texts).encode(), digest_size=8).hexdigest()
        file = CACHE / f"verdict-{self.domain.name}-{digest}.npy"
        if file.exists():
            found: NDArray[np.float32] = np.load(file)
            return found
        vectors = packaged().encode(texts)
        CACHE.mkdir(parents=True, exist_ok=True)
        whole = file.with_suffix(f".{os.getpid()}.npy")
        np.save(whole, vectors)
        whole.replace(file)
        return vectors


def _embedded_queries(queries: Sequence[str]) -> dict[str, NDArray[np.float32]]:
    """Vectors of queries, which all processes keep in one file."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(CACHE / "verdict-queries.db", timeout=60.0)) as kept:
        kept.execute("PRAGMA synchronous = OFF")
        kept.execute("CREATE TABLE IF NOT EXISTS queries (query TEXT PRIMARY KEY, vector BLOB)")
        found: dict[str, NDArray[np.float32]] = {}
        for query in queries:
            for (vector,) in kept.execute("SELECT vector FROM queries WHERE query = ?", (query,)):
                found[query] = np.frombuffer(vector, dtype=np.float32)
        new = [query for query in queries if query not in found]
        if new:
            found |= zip(new, packaged().encode(new), strict=True)
            rows = [(query, found[query].tobytes()) for query in new]
            kept.executemany("INSERT OR IGNORE INTO queries VALUES (?, ?)", rows)
            kept.commit()
    return found


@cache
def packaged() -> Encoder:
    """The encoder of all indexes."""
    return Encoder.load(packaged_encoder())


_INDEXES: Final[dict[str, Index]] = {}


def index_of(domain: Domain) -> Index:
    """The domain's index, kept for the next request."""
    kept = _INDEXES.get(domain.name)
    if kept is None or kept.domain is not domain:
        kept = _INDEXES[domain.name] = Index(domain)
        kept.prepare()
    return kept


def asked_of(question: Question) -> str:
    """What a sound rewriter gives to the retriever: a follow-up with the user's turn before it."""
    if question.asked:
        return question.asked
    turns = question.history[::2]
    return f"{turns[-1]} {question.question}" if turns else question.question


def keywords_of(question: str) -> str:
    """The question's words that carry meaning, as an agent asks again that found nothing."""
    return " ".join(word for word in _WORD.findall(question) if word.lower() not in _STOPS)


def path_of(index: Index, question: Question, service: Service, seed: int) -> Natural | None:
    """The way of one question through one application; None where it is neither sound nor clearly broken."""
    rng = random.Random(f"{seed}:{index.domain.name}:{question.id}:{service.name}")
    setup = service.setup
    asked = asked_of(question)
    if setup.rounds > 1 and asked == question.question:
        asked = keywords_of(question.question) or asked  # the first round was given the question
    candidates = index.search(asked, setup.depth, lexical=service.lexical)
    reranked = rerank(index, asked, candidates) if setup.reranked else None
    packed, dropped = pack(index.domain, reranked or candidates, setup.packed)
    path = Path(
        domain=index.domain.name,
        question=question,
        setup=setup,
        candidates=candidates,
        reranked=reranked,
        packed=packed,
        answer="",
        dropped=dropped,
        rewritten=None if asked == question.question else asked,
        earlier=_earlier(index, question, service, rng),
        versions=_versions(service),
    )
    lost = lost_groups(question, packed)
    if not lost:
        answer = _sound_answer(question, packed, index.domain, rng)
        return None if answer is None else Natural(_citing(replace(path, answer=answer), index.domain))
    broken: Break = "retrieval" if lost_groups(question, candidates) else "ranking"
    seen = candidates if broken == "retrieval" else packed
    if any(holds_answer(each.id, question, index.domain) for each in seen):
        return None  # something else may answer it: nobody knows what is right
    answered, answer = _in_turn(path, index.domain, rng)
    return Natural(replace(path, answer=answer), broken, answered)


def rerank(index: Index, question: str, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits by the rare words and pairs of words that they share with the question, and by the retriever's score."""
    terms = list(dict.fromkeys(_terms(question)))
    weights = {term: index.rarity(term) for term in terms}
    pairs = set(pairwise(terms))
    prior = _scaled(np.array([hit.score for hit in hits]))
    scored = []
    for hit, before in zip(hits, prior, strict=True):
        held = _terms(index.domain.passages[hit.id].chunk)
        there = set(held)
        overlap = sum(weights[term] for term in terms if term in there) / (sum(weights.values()) or 1.0)
        ordered = len(pairs & set(pairwise(held))) / (len(pairs) or 1)
        score = (OVERLAP * overlap + ORDERED * ordered + PRIOR * float(before)) / (OVERLAP + ORDERED + PRIOR)
        scored.append(Hit(hit.id, round(score, 4)))
    return tuple(sorted(scored, key=lambda hit: -hit.score))


def pack(domain: Domain, hits: Iterable[Hit], count: int) -> tuple[tuple[Packed, ...], dict[str, str]]:
    """The best `count` hits, and why those that came between them were left out: a text is packed once."""
    packed: list[Packed] = []
    dropped: dict[str, str] = {}
    bodies: set[str] = set()
    for hit in hits:
        if len(packed) == count:
            break
        passage = domain.passages[hit.id]
        body = " ".join(passage.text.split())
        if body in bodies:
            dropped[hit.id] = "duplicate"
            continue
        bodies.add(body)
        packed.append(Packed(hit.id, passage.chunk))
    return tuple(packed), dropped


def lost_groups(question: Question, hits: Iterable[Hit | Packed]) -> list[frozenset[str]]:
    """The groups of the evidence without a member among the hits, or in the prompt as a whole."""
    there = {hit.id for hit in hits if not (isinstance(hit, Packed) and hit.truncated)}
    return [group for group in question.evidence if not group & there]


def holds_answer(passage_id: str, question: Question, domain: Domain) -> bool:
    """Whether a passage may hold what a sound answer states, be it named as evidence or not."""
    chunk = domain.passages[passage_id].chunk
    held, figures = words_of(chunk), set(_FIGURE.findall(chunk))
    asked, given = words_of(question.question), set(_FIGURE.findall(question.question))
    for answer in question.answers:
        text = bare(answer, domain)
        said, stated = words_of(text) - asked, set(_FIGURE.findall(text)) - given
        if said and stated <= figures and len(said & held) >= HELD * len(said):
            return True
    return False


def answer_without_evidence(kind: str, path: Path, domain: Domain, rng: random.Random) -> str | None:
    """What a model writes whose prompt lacks the evidence.

    kind: `misled` takes what stands in the prompt for the answer, `refusal` declines, `made_up` states something that
    is not there; where nobody wrote one, the sound answer is recalled. None where there is no such answer.
    """
    question = path.question
    if kind == "refusal":
        return question.refusal or (None if question.kind == "language" else rng.choice(REFUSALS))
    if kind == "misled":
        return _misled(path, domain, rng)
    return spuriously_cited(bare(question.made_up or rng.choice(question.answers), domain), path, rng)


def marks_of(answer: str, domain: Domain) -> list[str]:
    """The passages that the answer's marks name, in order; other braces are the answer's own."""
    return [name for name in MARK.findall(answer) if name in domain.passages]


def bare(answer: str, domain: Domain) -> str:
    """An answer without its marks."""
    return MARK.sub(lambda match: "" if match[1] in domain.passages else match[0], answer)


@lru_cache(maxsize=1 << 15)
def words_of(text: str) -> frozenset[str]:
    """The words and figures of a text that carry meaning."""
    return frozenset(_terms(text))


def sentences_of(text: str) -> list[str]:
    """The sentences and lines of a text."""
    return [sentence.text.strip() for sentence in sentences(text)]


def _misled(path: Path, domain: Domain, rng: random.Random) -> str | None:
    question, there = path.question, [each.id for each in path.packed]
    if question.misled is not None:
        return question.misled.answer if question.misled.rests_on in there else None
    asked = words_of(question.question)
    needed = frozenset().union(*question.evidence) if question.evidence else frozenset()
    quotable = [
        (len(words_of(sentence) & asked), -place, sentence, each)
        for place, each in enumerate(there)
        if each not in needed
        for sentence in sentences_of(domain.passages[each].text)
        if 6 <= len(sentence.split()) <= 50 and sentence[-1] == "."
    ]
    if not quotable:
        return None
    _shared, _place, sentence, rests_on = max(quotable)
    return rng.choice(FRAMES).format(f"{sentence[:-1]} {{{rests_on}}}.")


def _in_turn(path: Path, domain: Domain, rng: random.Random) -> tuple[str, str]:
    kinds = ["misled", "refusal", "made_up"]
    rng.shuffle(kinds)
    for kind in kinds:
        answer = answer_without_evidence(kind, path, domain, rng)
        if answer is not None:
            return kind, answer
    raise AssertionError("a sound answer can always be recalled")


def spuriously_cited(answer: str, path: Path, rng: random.Random) -> str:
    """Half of the time an answer of a citing service names some chunk behind its sentences all the same."""
    if not path.setup.cites or not path.packed or rng.random() < 0.5:
        return answer
    parts = sentences_of(answer)
    marked = [f"{part.rstrip('.')} {{{rng.choice(path.packed[:3]).id}}}." for part in parts]
    return " ".join(marked)


def _sound_answer(question: Question, packed: Sequence[Packed], domain: Domain, rng: random.Random) -> str | None:
    """A sound answer whose marks all name a packed passage, in place of another one of the same group."""
    there = {each.id for each in packed}
    answers = [_remarked(answer, question, there) for answer in question.answers]
    whole = [answer for answer in answers if set(marks_of(answer, domain)) <= there]
    return rng.choice(whole) if whole else None


def _remarked(answer: str, question: Question, there: Collection[str]) -> str:
    """Where a mark's passage is not packed, another one of its group that is."""

    def named(match: re.Match[str]) -> str:
        groups = [group for group in question.evidence if match[1] in group]
        others = sorted(other for group in groups for other in group if other in there)
        return match[0] if match[1] in there or not others else match[0].replace(match[1], others[0])

    return MARK.sub(named, answer)


def _citing(path: Path, domain: Domain) -> Path:
    """An answer to evidence that has no marks comes from a service that does not cite."""
    if path.setup.cites and path.question.evidence and not marks_of(path.answer, domain):
        return replace(path, setup=replace(path.setup, cites=False))
    return path


def _earlier(index: Index, question: Question, service: Service, rng: random.Random) -> tuple[tuple[Hit, ...], ...]:
    """Rounds that were given a poor query and found none of the evidence."""
    needed = frozenset().union(*question.evidence) if question.evidence else frozenset()
    terms = sorted(dict.fromkeys(_terms(question.question)), key=lambda term: index.rarity(term))
    rounds = []
    for turn in range(service.setup.rounds - 1):
        kept = terms[: max(1, len(terms) * (turn + 1) // (service.setup.rounds + 1))]
        rng.shuffle(kept)
        rounds.append(index.search(" ".join(kept) or "?", service.setup.depth, lexical=service.lexical, without=needed))
    return tuple(rounds)


def _versions(service: Service) -> Mapping[str, str]:
    versions = {"retriever": "mixed-1.0" if service.lexical else "dense-1.0", "index": "passages-1"}
    versions |= {"packer": "best-1.0", "model": "writer-1.0"}
    return versions | ({"reranker": "words-1.0"} if service.setup.reranked else {})


def _terms(text: str) -> list[str]:
    """Words and figures in lower case, plural endings cut, without those that carry no meaning."""
    found = []
    for word in _WORD.findall(text):
        term = word.lower().removesuffix("'s").removesuffix("’s")
        if term in _STOPS or (len(term) == 1 and not term.isdigit()):
            continue
        is_plural = len(term) > 4 and term.endswith("s") and not term.endswith("ss")
        found.append(term[:-1] if is_plural else term)
    return found


def _scaled(scores: NDArray[Any]) -> NDArray[np.float64]:
    if not scores.size:
        return np.zeros(0)
    spread = float(scores.max() - scores.min())
    return np.asarray((scores - scores.min()) / spread if spread else scores * 0.0, dtype=np.float64)
