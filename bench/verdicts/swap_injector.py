"""Faults made by recombining what a domain holds: its passages, its questions, its answers.

What a fault puts in stood elsewhere in the domain, follows from the question, or is general knowledge; the broken
answers written for a question serve only downstream of a broken prompt of its own.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from bench.verdicts.model import Domain, Fault, Hit, Packed, Passage, Path, Stage
from bench.verdicts.swap_answers import CITATION, GENERATION, following_answer
from bench.verdicts.swap_texts import named_words, numbers, resemblance, sentences, unmarked, words

__all__ = ["SwapInjector"]


class Index:
    """A domain's passages by the words they share with a query, rare words counting more."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self._words = {passage.id: words(passage.chunk) for passage in domain.passages.values()}
        counts = Counter(word for held in self._words.values() for word in held)
        self._twins: dict[frozenset[str], frozenset[str]] = {}
        self._weights = {word: math.log(1 + len(self._words) / count) for word, count in counts.items()}

    def weight(self, word: str) -> float:
        """How rare a word is in the domain; 0 for one that does not occur."""
        return self._weights.get(word, 0.0)

    def ranked(self, wanted: Iterable[str], without: frozenset[str] = frozenset()) -> list[str]:
        """The ids of all passages but `without`, most of the wanted words' weight for their length first."""
        sought = sorted(set(wanted))

        def nearness(passage_id: str) -> float:
            held = self._words[passage_id]
            return sum(self.weight(word) for word in sought if word in held) / math.sqrt(10 + len(held))

        return sorted((each for each in self._words if each not in without), key=lambda each: -nearness(each))

    def twins(self, passage_ids: Iterable[str]) -> frozenset[str]:
        """The passages, and those that say the same in nearly the same words."""
        asked = frozenset(passage_ids)
        if asked not in self._twins:
            self._twins[asked] = self._find_twins(asked)
        return self._twins[asked]

    def _find_twins(self, passage_ids: frozenset[str]) -> frozenset[str]:
        found = set(passage_ids)
        for passage_id in sorted(found):
            own = self._words[passage_id]
            for other, held in self._words.items():
                alike = len(own & held) >= 0.9 * len(own | held)
                if alike and not any(word[0].isdigit() for word in own ^ held):
                    found.add(other)
        return frozenset(found)


PathFault = Callable[[Path, Index, random.Random], Path | None]


def _groups(path: Path, index: Index) -> list[frozenset[str]]:
    return [index.twins(group) for group in path.question.evidence]


def _lost(path: Path, index: Index, rng: random.Random) -> frozenset[str]:
    """The passages of one needed group or of all; those that another, kept group needs too are among them."""
    groups = _groups(path, index)
    return frozenset().union(*groups) if rng.random() < 0.5 else rng.choice(groups)


def _query(path: Path) -> frozenset[str]:
    return words(path.rewritten or path.question.asked or path.question.question)


def _source(passage: Passage) -> str:
    """What a passage was cut from, as far as its title or id shows: the part before a colon, comma or dash."""
    if passage.title:
        prefix = re.split(r"\s*[:,|/(]\s*|\s+[-–—]\s+", passage.title.strip(), maxsplit=1)[0]
        return prefix.lower() if prefix != passage.title.strip() else " ".join(passage.title.lower().split()[:2])
    return re.split(r"[-_#/.:]", passage.id, maxsplit=1)[0]


# Lists and prompts made anew


def _falling(scores: Sequence[float], count: int, rng: random.Random) -> list[float]:
    """`count` scores like the given ones, continued below the last."""
    falling = sorted(scores, reverse=True)[:count]
    step = (falling[0] - falling[-1]) / max(len(falling) - 1, 1) if falling else 0.1
    while len(falling) < count:
        last = falling[-1] if falling else 1.0
        below = last - step * rng.uniform(0.2, 0.8)
        falling.append(below if below > 0 or last <= 0 else last * rng.uniform(0.9, 0.99))
    return falling


def _hits(ids: Sequence[str], scores: Sequence[float]) -> list[Hit]:
    return [Hit(passage_id, score) for passage_id, score in zip(ids, scores, strict=True)]


def _weakened(scores: Sequence[float], rng: random.Random) -> list[float]:
    factor = rng.uniform(0.75, 1.0)
    return [score * factor if score > 0 else score for score in scores]


def _filled(path: Path, kept: Sequence[Hit], fill: Sequence[str], rng: random.Random) -> list[Hit]:
    """The kept hits, and behind them passages of `fill` until the list is as long as it was."""
    held = {hit.id for hit in kept}
    added = [passage_id for passage_id in fill if passage_id not in held][: len(path.candidates) - len(kept)]
    scores = _falling(
        [hit.score for hit in kept] or [hit.score for hit in path.candidates], len(kept) + len(added), rng
    )
    return [*kept, *_hits(added, scores[len(kept) :])]


def _retrieved(path: Path, index: Index, hits: Sequence[Hit], lost: frozenset[str], rng: random.Random) -> Path:
    """The path with other candidates, and all that follows from them."""
    reranked = path.reranked
    if reranked is not None:
        held = {hit.id for hit in hits}
        without = frozenset(index.domain.passages) - held
        order = index.ranked(words(path.question.question), without)[: len(reranked)]
        scores = _weakened(_falling([hit.score for hit in reranked], len(order), rng), rng)
        reranked = tuple(_hits(order, scores))
    earlier = tuple(tuple(hit for hit in hits_then if hit.id not in lost) for hits_then in path.earlier)
    order = [hit.id for hit in (hits if reranked is None else reranked)]
    known = {hit.id for hit in path.candidates}
    carried = [chunk.id for chunk in path.packed if chunk.id not in known and chunk.id not in lost]
    found = replace(path, candidates=tuple(hits), reranked=reranked, earlier=earlier)
    return _answered(_packed(found, index, [*carried, *order]), index, rng)


def _packed(path: Path, index: Index, order: Sequence[str], reasons: Mapping[str, str] | None = None) -> Path:
    """The path with the first passages of an order in its prompt, as many as it had. reasons: passages that the packer
    leaves out, and why."""
    left_out = reasons or {}
    before = {chunk.id: chunk for chunk in path.packed}
    chosen = [passage_id for passage_id in dict.fromkeys(order) if passage_id not in left_out][: len(path.packed)]
    packed = tuple(
        before.get(passage_id) or Packed(passage_id, index.domain.passages[passage_id].chunk) for passage_id in chosen
    )
    return replace(path, packed=packed, dropped=_dropped(path, chosen, left_out))


def _dropped(path: Path, chosen: Sequence[str], reasons: Mapping[str, str]) -> dict[str, str]:
    """Why candidates are not in the prompt, where the packer tells."""
    if not path.dropped:
        return {}
    usual = Counter(path.dropped.values()).most_common(1)[0][0]
    left = [hit.id for hit in (path.candidates if path.reranked is None else path.reranked) if hit.id not in chosen]
    return {passage_id: reasons.get(passage_id) or path.dropped.get(passage_id, usual) for passage_id in left}


def _answered(path: Path, index: Index, rng: random.Random) -> Path:
    return replace(path, answer=following_answer(path, index.domain, rng))


def _order(path: Path) -> list[str]:
    """The prompt's passages, then the others in the order of the last ranking."""
    last = path.candidates if path.reranked is None else path.reranked
    return list(dict.fromkeys([*(chunk.id for chunk in path.packed), *(hit.id for hit in last)]))


# Retrieval


def lost_source(path: Path, index: Index, rng: random.Random) -> Path | None:
    """The index lost everything of the evidence's source; the next passages fill in."""
    needed = _lost(path, index, rng)
    sources = {_source(index.domain.passages[passage_id]) for passage_id in needed}
    gone = needed | {passage.id for passage in index.domain.passages.values() if _source(passage) in sources}
    left = index.ranked(_query(path), gone)
    if len(left) < len(path.candidates) or len(gone) > 0.6 * len(index.domain.passages):
        return None
    kept = [hit for hit in path.candidates if hit.id not in gone]
    return _retrieved(path, index, _filled(path, kept, left, rng), gone, rng)


def _foreign(path: Path, index: Index, needed: frozenset[str], rng: random.Random) -> list[str] | None:
    """What the retriever finds for another question of the domain."""
    others = [
        other
        for other in index.domain.questions
        if other.id != path.question.id and other.evidence and not needed & frozenset().union(*other.evidence)
    ]
    rng.shuffle(others)
    for other in others:
        found = index.ranked(words(other.asked or other.question))[: len(path.candidates)]
        if not needed & set(found):
            return found
    last = others[-1:]
    return index.ranked(words(last[0].asked or last[0].question), needed)[: len(path.candidates)] if last else None


def foreign_candidates(path: Path, index: Index, rng: random.Random) -> Path | None:
    """The embedding model went wrong: the candidates are another question's."""
    needed = frozenset().union(*_groups(path, index))
    found = _foreign(path, index, needed, rng)
    if not found:
        return None
    scores = _weakened(_falling([hit.score for hit in path.candidates], len(found), rng), rng)
    return _retrieved(path, index, _hits(found, scores), needed, rng)


def half_foreign_candidates(path: Path, index: Index, rng: random.Random) -> Path | None:
    """The embedding model went wrong for a part of the index: half of the candidates are another question's."""
    needed = _lost(path, index, rng)
    found = _foreign(path, index, needed, rng)
    if not found:
        return None
    kept = [hit.id for hit in path.candidates if hit.id not in needed][: len(path.candidates) // 2]
    foreign = [passage_id for passage_id in found if passage_id not in kept]
    foreign = foreign[: len(path.candidates) - len(kept)]
    places = set(rng.sample(range(len(kept) + len(foreign)), len(kept)))
    mixed = [kept.pop(0) if place in places else foreign.pop(0) for place in range(len(kept) + len(foreign))]
    scores = _weakened(_falling([hit.score for hit in path.candidates], len(mixed), rng), rng)
    return _retrieved(path, index, _hits(mixed, scores), needed, rng)


def stale_index(path: Path, index: Index, rng: random.Random) -> Path | None:
    """The index holds what looks most like the evidence in its place."""
    needed = _lost(path, index, rng)
    evidence = needed.union(*_groups(path, index))
    held: set[str] = set()
    hits: list[Hit] = []
    for hit in path.candidates:
        put = hit
        if hit.id in needed:
            near = _nearest(index, hit.id, evidence | held)
            if near is None:
                return None
            put = Hit(near, hit.score * rng.uniform(0.93, 1.0) if hit.score > 0 else hit.score)
        if put.id not in held:
            held.add(put.id)
            hits.append(put)
    hits.sort(key=lambda hit: -hit.score)
    hits = _filled(path, hits, index.ranked(_query(path), needed), rng)
    return _retrieved(path, index, hits, needed, rng)


def _nearest(index: Index, passage_id: str, without: frozenset[str]) -> str | None:
    """The passage with most of another's words."""
    ranked = index.ranked(words(index.domain.passages[passage_id].chunk), without)
    return ranked[0] if ranked else None


def dropped_constraint(path: Path, index: Index, rng: random.Random) -> Path | None:
    """The rewrite left out what the question names; the candidates match the words that remain."""
    named = named_words(path.question)
    asked = path.rewritten or path.question.asked or path.question.question
    tokens = asked.split()
    remaining = [token for token in tokens if not words(token) & named]
    query = " ".join(remaining).strip(" ,;:-")
    if len(remaining) == len(tokens) or len(words(query)) < 2:
        return None
    needed = _lost(path, index, rng)
    found = index.ranked(words(query), needed)[: len(path.candidates)]
    scores = _weakened(_falling([hit.score for hit in path.candidates], len(found), rng), rng)
    rewritten = replace(path, rewritten=query)
    return _retrieved(rewritten, index, _hits(found, scores), needed, rng)


# Ranking


def _reordered(path: Path, index: Index, order: Sequence[str], rng: random.Random) -> Path:
    """The path with the reranker's list in another order."""
    before = path.reranked or ()
    scores = _falling([hit.score for hit in before], len(order), rng)
    reranked = tuple(_hits(order, scores))
    return _answered(_packed(replace(path, reranked=reranked), index, order), index, rng)


def reranked_by_length(path: Path, index: Index, rng: random.Random) -> Path | None:
    """The reranker's scores follow the chunks' lengths, the longest or the shortest first."""
    ranked = [hit.id for hit in path.reranked or ()]
    signs = [1, -1]
    rng.shuffle(signs)
    for sign in signs:
        order = sorted(ranked, key=lambda each: sign * len(index.domain.passages[each].chunk))
        if _unpacked_group(order[: len(path.packed)], path, index):
            return _reordered(path, index, order, rng)
    return None


def reversed_ranking(path: Path, index: Index, rng: random.Random) -> Path | None:
    """The reranker's worst comes first."""
    order = [hit.id for hit in reversed(path.reranked or ())]
    lost = _unpacked_group(order[: len(path.packed)], path, index)
    return _reordered(path, index, order, rng) if order and lost else None


def _unpacked_group(packed: Sequence[str], path: Path, index: Index) -> bool:
    return any(not group & set(packed) for group in _groups(path, index))


def first_of_document(path: Path, index: Index, rng: random.Random) -> Path | None:
    """The packer keeps one chunk of each document, the best or the document's first, and not the evidence."""
    ranked = _order(path)
    places = {passage_id: place for place, passage_id in enumerate(index.domain.passages)}
    for order in (ranked, sorted(ranked, key=places.__getitem__)):
        first: dict[str, str] = {}
        for passage_id in order:
            first.setdefault(_source(index.domain.passages[passage_id]), passage_id)
        kept = set(first.values())
        reasons = {passage_id: "duplicate" for passage_id in ranked if passage_id not in kept}
        packed = _packed(path, index, ranked, reasons)
        chosen = {chunk.id for chunk in packed.packed}
        lost = [group for group in _groups(path, index) if not group & chosen]
        stays = {_source(index.domain.passages[passage_id]) for passage_id in chosen}
        if any(_source(index.domain.passages[each]) in stays for group in lost for each in group & set(ranked)):
            return _answered(packed, index, rng)
    return None


def wrong_duplicate(path: Path, index: Index, rng: random.Random) -> Path | None:
    """The packer takes the evidence for a duplicate of what looks most like it, which stays."""
    group = rng.choice(_groups(path, index))
    ranked = _order(path)
    wanted = frozenset().union(*_groups(path, index))
    chunk = {passage_id: index.domain.passages[passage_id].chunk for passage_id in ranked}
    evidence = [chunk_.id for chunk_ in path.packed if chunk_.id in group]
    alike = [
        (resemblance(chunk[own], chunk[other]), other) for own in evidence for other in ranked if other not in wanted
    ]
    likest, lookalike = max(alike, default=(0.0, ""))
    if likest < 0.15:
        return None
    order = [lookalike if passage_id == evidence[0] else passage_id for passage_id in ranked]
    packed = _packed(path, index, order, {passage_id: "duplicate" for passage_id in ranked if passage_id in group})
    return _answered(packed, index, rng)


def budget_cut(path: Path, index: Index, rng: random.Random) -> Path | None:
    """A token budget cuts the evidence before what answers; of all the prompt, or of every chunk in it."""
    group = rng.choice(_groups(path, index))
    at = next(place for place, chunk in enumerate(path.packed) if chunk.id in group)
    kept = _start_without_answer(path, index, path.packed[at], rng)
    if kept is None:
        return None
    cut = Packed(path.packed[at].id, kept, truncated=True)
    others = [chunk for chunk in path.packed[at + 1 :] if chunk.id not in group]
    if at and rng.random() < 0.6:
        packed = [*path.packed[:at], cut]
    else:
        packed = [*(_cut(chunk, len(kept)) for chunk in path.packed[:at]), cut, *(_cut(c, len(kept)) for c in others)]
    return _given(path, index, packed, "budget", rng)


def _cut(chunk: Packed, length: int) -> Packed:
    """The chunk's whole words within so many characters and a few more."""
    if len(chunk.text) <= length + 20:
        return chunk
    return Packed(chunk.id, chunk.text[:length].rsplit(None, 1)[0], truncated=True)


def _given(path: Path, index: Index, packed: Sequence[Packed], reason: str, rng: random.Random) -> Path:
    """The path with exactly these texts in its prompt; what else was there fell to `reason`."""
    chosen = [chunk.id for chunk in packed]
    reasons = {chunk.id: reason for chunk in path.packed if chunk.id not in chosen}
    given = replace(path, packed=tuple(packed), dropped=_dropped(path, chosen, reasons))
    return _answered(given, index, rng)


def _telling(path: Path, index: Index, text: str) -> dict[str, float]:
    """The words of the sound answer that the text holds and the question does not, with their weights."""
    answer = words(unmarked(path.answer, index.domain)) & words(text)
    asked = words(f"{path.question.question} {path.question.asked or ''} {' '.join(path.question.history)}")
    return {word: index.weight(word) for word in sorted((answer - asked) or answer)}


def _tells(kept: str, telling: Mapping[str, float]) -> bool:
    """Whether a part of a passage still holds a number of the answer, or more than a quarter of its words' weight."""
    held = words(kept)
    still = sum(weight for word, weight in telling.items() if word in held)
    return bool(numbers(kept) & telling.keys()) or still > 0.25 * sum(telling.values())


def _start_without_answer(path: Path, index: Index, chunk: Packed, rng: random.Random) -> str | None:
    """A start of the chunk that ends before what answers, of four words or more."""
    telling = _telling(path, index, chunk.text)
    ends = [found.start() for found in re.finditer(r"\s+", chunk.text)]
    fitting = [end for end in ends[3:] if telling and not _tells(chunk.text[:end], telling)]
    if not fitting:
        return None
    last_half = fitting[len(fitting) // 2 :]
    return chunk.text[: rng.choice(last_half)]


def summary_only(path: Path, index: Index, rng: random.Random) -> Path | None:
    """A compressor leaves the first sentence of the evidence, or of every chunk, and that does not answer."""
    group = rng.choice(_groups(path, index))
    everywhere = rng.random() < 0.5
    packed = [_compressed(chunk, index) if everywhere or chunk.id in group else chunk for chunk in path.packed]
    for chunk, before in zip(packed, path.packed, strict=True):
        if chunk.id in group and (chunk == before or _tells(chunk.text, _telling(path, index, before.text))):
            return None
    return _given(path, index, packed, "budget", rng)


def _compressed(chunk: Packed, index: Index) -> Packed:
    """The chunk's first sentence that is more than a heading."""
    title = index.domain.passages[chunk.id].title
    body = chunk.text[len(title) :].lstrip() if title and chunk.text.startswith(title) else chunk.text
    first = next((text for text in sentences(body) if len(text.split()) >= 4), body).strip()
    return Packed(chunk.id, first)


_RETRIEVAL: tuple[PathFault, ...] = (
    lost_source,
    foreign_candidates,
    half_foreign_candidates,
    stale_index,
    dropped_constraint,
)
_RANKING: tuple[PathFault, ...] = (
    reranked_by_length,
    reversed_ranking,
    first_of_document,
    wrong_duplicate,
    budget_cut,
    summary_only,
)


class SwapInjector:
    """Breaks sound paths with the domain's own passages, questions and answers, at other places than theirs."""

    name = "swaps"

    def __init__(self) -> None:
        self._path_faults = {function.__name__: function for function in (*_RETRIEVAL, *_RANKING)}
        stages: dict[Stage, Iterable[str]] = {
            "retrieval": [function.__name__ for function in _RETRIEVAL],
            "ranking": [function.__name__ for function in _RANKING],
            "generation": GENERATION,
            "citation": CITATION,
        }
        self.faults = tuple(Fault(name, stage) for stage, names in stages.items() for name in names)
        self._indexes: dict[str, Index] = {}

    def inject(self, path: Path, domain: Domain, fault: Fault, rng: random.Random) -> Path | None:
        """The path with the fault in it; None where it was not sound, or would not surely be broken first there."""
        index = self._index(domain)
        if path.question.kind == "chit_chat" or not _whole(path, index):
            return None
        if fault.stage in ("retrieval", "ranking"):
            broken = self._path_faults[fault.name](path, index, rng) if path.question.evidence else None
            return broken if broken is not None and _breaks(broken, fault.stage, index) else None
        if fault.stage == "generation":
            answer = GENERATION[fault.name](path, domain, rng)
            sound = [unmarked(each, domain) for each in (path.answer, *path.question.answers)]
            changed = answer is not None and unmarked(answer, domain) not in sound
        else:
            answer = CITATION[fault.name](path, domain, rng) if path.setup.cites else None
            changed = answer != path.answer
        return replace(path, answer=answer) if answer and changed else None

    def _index(self, domain: Domain) -> Index:
        known = self._indexes.get(domain.name)
        if known is None or known.domain is not domain:
            known = self._indexes[domain.name] = Index(domain)
        return known


def _whole(path: Path, index: Index) -> bool:
    """Whether every needed group has a passage in the prompt, as it stands in the domain."""
    given = {chunk.id for chunk in path.packed if index.domain.passages[chunk.id].text.strip() in chunk.text}
    return all(group & given for group in path.question.evidence)


def _breaks(path: Path, stage: Stage, index: Index) -> bool:
    """Whether retrieval lacks a needed group, or else the prompt does, and the answer is not right all the same."""
    groups = _groups(path, index)
    found = {hit.id for hits in (path.candidates, *path.earlier) for hit in hits}
    given = {chunk.id for chunk in path.packed if index.domain.passages[chunk.id].text.strip() in chunk.text}
    lacks = any(not group & found for group in groups)
    if not path.packed or lacks != (stage == "retrieval") or all(group & given for group in groups):
        return False
    asked = words(path.question.question)
    return not any(
        (telling := words(unmarked(answer, index.domain)) - asked) and telling <= words(path.answer)
        for answer in path.question.answers
    )
