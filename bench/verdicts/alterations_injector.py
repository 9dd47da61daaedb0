"""Faults that alter a sound path: other values in its answer, evidence taken from index or prompt, marks lost."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from bench.verdicts.model import Domain, Fault, Hit, Packed, Path, Stage
from bench.verdicts.pipeline import (
    LEXICAL,
    MARK,
    Index,
    answer_without_evidence,
    asked_of,
    bare,
    holds_answer,
    index_of,
    lost_groups,
    marks_of,
    pack,
    rerank,
    sentences_of,
    spuriously_cited,
    words_of,
)

__all__ = ["AlterationsInjector"]

ANSWERED: Final = ("misled", "refusal", "made_up")
SUPPORTED: Final = 0.5  # share of a claim's words from which a passage may support it
SHORTEST_CUT: Final = 40  # characters of a passage that a cut leaves at least
CUT_SHARE: Final = 0.3  # share of an answer's own words that a cut passage may still hold
NEAREST: Final = 5  # questions like this one that another answer is taken from
STRIPPED: Final = 0.7  # share of a query's words that a rewriter may lose
TRIES: Final = 5  # how often what holds the answer as well is taken from the index
_REASONS: Final = ("budget", "filter", None)  # None: the packer says nothing

_MONTHS: Final = tuple("January February March April May June July August September October November December".split())
_NUMBER: Final = re.compile(
    r"(?<![\w.,#/:-])\d{1,3}(?:[,\u202f ]\d{3})+(?:\.\d+)?(?![\w-])|(?<![\w.,#/:-])\d+(?:\.\d+)?(?![\w/:-]|[.,]\d)"
)
_YEAR: Final = re.compile(r"(?<![\w.,-])(?:1[5-9]|20)\d\d(?![\w-]|[.,]\d)")
_DATE: Final = re.compile(rf"\b(\d{{1,2}}) ({'|'.join(_MONTHS)})\b|\b({'|'.join(_MONTHS)}) (\d{{1,2}})\b(?!\d)")
_NAME: Final = re.compile(r"(?<=[a-z,;:(“\"] )[A-Z][a-zA-Z]{2,}(?:[- ][A-Z][a-zA-Z]+)*(?![\w-])")
_SMALL: Final = re.compile(r"(?<!\w)[a-z]{3,}(?!\w)")
_NOT: Final = re.compile(
    r"\b(is|are|was|were|has|have|had|can|could|may|must|will|would|should|does|do|did) not\b|\b(can)not\b|"
    r"\b(is|are|was|were|has|have|had|could|must|would|should|does|do|did)n['’]t\b"
)
_AUXILIARY: Final = re.compile(r"\b(is|are|was|were|can|could|may|must|will|would|should|has been|have been)\b(?! not)")
_OPPOSITES: Final = (
    ("before", "after"), ("minimum", "maximum"), ("at least", "at most"), ("more than", "less than"),
    ("higher", "lower"), ("increased", "decreased"), ("rose", "fell"), ("enabled", "disabled"),
    ("enables", "disables"), ("true", "false"), ("True", "False"), ("included", "excluded"),
    ("includes", "excludes"), ("always", "never"), ("first", "last"), ("allowed", "forbidden"),
    ("required", "optional"), ("all", "none of the"),
)  # fmt: skip
_UNITS: Final = (
    ("days", "weeks"), ("day", "week"), ("weeks", "months"), ("months", "years"), ("month", "year"),
    ("hours", "minutes"), ("hour", "minute"), ("minutes", "seconds"), ("seconds", "milliseconds"),
    ("million", "billion"), ("thousand", "million"), ("kilobytes", "megabytes"), ("megabytes", "gigabytes"),
    ("kB", "MB"), ("MB", "GB"), ("mg", "g"), ("km", "m"), ("cm", "mm"), ("kg", "g"), ("EUR", "USD"), ("€", "$"),
    ("£", "€"), ("$", "€"), ("working days", "weeks"), ("bytes", "kilobytes"), ("°C", "°F"), ("mm", "cm"),
)  # fmt: skip

_WORD: Final = re.compile(r"[^\W_]+(?:[._'’-][^\W_]+)*")
_UNLIKE: Final = ("chit_chat", "unanswerable", "json", "language")

Place: TypeAlias = tuple[int, int, str]  # from, until, what stands there instead


@dataclass(frozen=True, slots=True)
class _Scene:
    """A sound path that is to be broken, and what that needs: the index, chance, and how the answer is to come out."""

    path: Path
    domain: Domain
    index: Index
    rng: random.Random
    answered: str = ""


Rule: TypeAlias = Callable[[str, _Scene], Iterable[Place]]


class AlterationsInjector:
    """Breaks one stage of a sound path by altering what it gives on; the rest goes on as the pipeline would."""

    name = "alterations"

    def __init__(self) -> None:
        self._inject: dict[str, Callable[[_Scene], Path | None]] = {}
        found = []
        for stage, ways in _WAYS.items():
            for way, inject in ways.items():
                for answered in ANSWERED if stage in ("retrieval", "ranking") else ("",):
                    fault = Fault(f"{way}+{answered}" if answered else way, stage)
                    self._inject[fault.name] = inject
                    found.append(fault)
        self.faults = tuple(found)

    def inject(self, path: Path, domain: Domain, fault: Fault, rng: random.Random) -> Path | None:
        """The path with the fault; None where it offers no way for it."""
        if path.question.kind == "chit_chat" or (fault.stage != "generation" and not path.question.evidence):
            return None
        answered = fault.name.partition("+")[2]
        return self._inject[fault.name](_Scene(path, domain, index_of(domain), rng, answered))


# Generation: the answer says something else than the evidence, which is in the prompt.


def _rewritten(rules: Sequence[Rule]) -> Callable[[_Scene], Path | None]:
    """One place of the sound answer changed by one of the rules."""

    def inject(scene: _Scene) -> Path | None:
        if not scene.path.question.evidence:
            return None
        sound = {" ".join(bare(answer, scene.domain).split()) for answer in scene.path.question.answers}
        for rule in scene.rng.sample(rules, len(rules)):
            answer = _changed(scene.path.answer, rule, scene)
            if answer and " ".join(bare(answer, scene.domain).split()) not in sound:
                return replace(scene.path, answer=answer)
        return None

    return inject


def _changed(answer: str, rule: Rule, scene: _Scene) -> str | None:
    marks = [match.span() for match in MARK.finditer(answer)]
    places = [
        (start, end, other)
        for start, end, other in rule(answer, scene)
        if answer[start:end] != other and not any(start < until and since < end for since, until in marks)
    ]
    if not places:
        return None
    start, end, other = scene.rng.choice(places)
    return answer[:start] + other + answer[end:]


def _numbers(answer: str, scene: _Scene) -> Iterator[Place]:
    dates = [match.span() for pattern in (_DATE, _YEAR) for match in pattern.finditer(answer)]
    for match in _NUMBER.finditer(answer):
        if not any(since <= match.start() < until for since, until in dates):
            yield *match.span(), _other_number(match[0], scene.rng)


def _other_number(digits: str, rng: random.Random) -> str:
    plain = digits.replace(",", "").replace("\u202f", "").replace(" ", "")
    places = len(plain.partition(".")[2])
    value = float(plain)
    step = 10.0**-places if value < 10 else max(10.0**-places, round(value * rng.choice((0.1, 0.25, 0.5)), places))
    other = value - step if value > step and rng.random() < 0.5 else value + step
    return f"{other:,.{places}f}" if "," in digits else f"{other:.{places}f}"


def _dates(answer: str, scene: _Scene) -> Iterator[Place]:
    for match in _YEAR.finditer(answer):
        yield *match.span(), str(int(match[0]) + scene.rng.choice((-3, -2, -1, 1, 2)))
    for match in _DATE.finditer(answer):
        month = match[2] or match[3]
        other = scene.rng.choice([each for each in _MONTHS if each != month])
        yield *match.span(), match[0].replace(month, other)


def _names(answer: str, scene: _Scene) -> Iterator[Place]:
    pool = _names_in(scene.domain)
    for match in _NAME.finditer(answer):
        if match[0] not in pool or match[0].split()[0] in _MONTHS:
            continue
        others = [name for name in pool if name not in answer and name.count(" ") == match[0].count(" ")]
        if others:
            yield *match.span(), scene.rng.choice(others)


def _negation(answer: str, scene: _Scene) -> Iterator[Place]:
    for match in _NOT.finditer(answer):
        yield *match.span(), next(filter(None, match.groups()))
    for match in _AUXILIARY.finditer(answer):
        yield match.end(), match.end(), " not"
    for one, other in _OPPOSITES:
        for said, instead in ((one, other), (other, one)):
            yield from ((*match.span(), instead) for match in re.finditer(rf"\b{said}\b", answer))


def _units(answer: str, scene: _Scene) -> Iterator[Place]:
    for one, other in _UNITS:
        for said, instead in ((one, other), (other, one)):
            behind = re.finditer(rf"(?<=\d)( ?){re.escape(said)}(?!\w)", answer)
            yield from ((*match.span(), match[1] + instead) for match in behind)
            if not said[0].isalnum():
                yield from ((*match.span(), instead) for match in re.finditer(rf"{re.escape(said)}(?=\d)", answer))


_NAMES: Final[dict[str, tuple[str, ...]]] = {}


def _names_in(domain: Domain) -> tuple[str, ...]:
    """The names that several of the passages hold in the middle of a sentence, and that are never written small."""
    if domain.name not in _NAMES:
        texts = [passage.text for passage in domain.passages.values()]
        common = set(_SMALL.findall("\n".join(texts)))
        held = Counter(name for text in texts for name in set(_NAME.findall(text)))
        proper = (name for name in held if not common & set(name.lower().split()))
        _NAMES[domain.name] = tuple(sorted(name for name in proper if held[name] > 1))
    return _NAMES[domain.name]


def _altered(scene: _Scene) -> Path | None:
    """What somebody wrote, else any rule."""
    if scene.path.question.altered:
        return replace(scene.path, answer=scene.path.question.altered)
    return _rewritten(_RULES)(scene)


def _made_up(scene: _Scene) -> Path | None:
    made_up = scene.path.question.made_up
    if made_up is None:
        return None
    return replace(scene.path, answer=spuriously_cited(bare(made_up, scene.domain), scene.path, scene.rng))


def _half(scene: _Scene) -> Path | None:
    """The first half of the sound answer, then sentences of answers to other questions."""
    if scene.path.question.half:
        return replace(scene.path, answer=scene.path.question.half)
    if not scene.path.question.evidence or not scene.path.answer.rstrip().endswith("."):
        return None
    spoken = sentences_of(scene.path.answer)
    others = _other_answers(scene, there=False)
    if not others or len(" ".join(spoken).split()) < 8:
        return None
    kept = spoken[: max(1, len(spoken) // 2)]
    strange = sentences_of(bare(others[0], scene.domain))[: max(1, len(kept))]
    return replace(scene.path, answer=" ".join([*kept, spuriously_cited(" ".join(strange), scene.path, scene.rng)]))


def _refusal(scene: _Scene) -> Path | None:
    if not scene.path.question.evidence:
        return None
    answer = answer_without_evidence("refusal", scene.path, scene.domain, scene.rng)
    return None if answer is None else replace(scene.path, answer=answer)


def _other_answer(there: bool) -> Callable[[_Scene], Path | None]:
    """A sound answer to another question, whose evidence is in the prompt, or is not."""

    def inject(scene: _Scene) -> Path | None:
        others = _other_answers(scene, there=there)
        if not others:
            return None
        answer = others[0]
        if not there:
            answer = spuriously_cited(bare(answer, scene.domain), scene.path, scene.rng)
        return replace(scene.path, answer=answer)

    return inject


def _other_answers(scene: _Scene, *, there: bool) -> list[str]:
    """Answers to the questions that are most like this one, and that do not answer it as well."""
    question, packed = scene.path.question, {each.id for each in scene.path.packed}
    asked = words_of(question.question)
    own = [words_of(bare(answer, scene.domain)) - asked for answer in question.answers]
    found = []
    for other in scene.domain.questions:
        in_prompt = [bool(group & packed) for group in other.evidence]
        answer = other.answers[0]
        said = words_of(bare(answer, scene.domain))
        is_same = any(words and len(words & said) >= SUPPORTED * len(words) for words in own)
        marks = set(marks_of(answer, scene.domain))
        if other.id == question.id or not other.evidence or is_same or other.kind in _UNLIKE:
            continue
        if (all(in_prompt) and marks <= packed) if there else not any(in_prompt):
            found.append((len(asked & words_of(other.question)), answer))
    found.sort(key=lambda each: (-each[0], each[1]))
    nearest = [answer for _, answer in found[:NEAREST]]
    scene.rng.shuffle(nearest)
    return nearest


# Retrieval: the evidence is not among the candidates.


def _removed(scene: _Scene) -> Path | None:
    """The index lost a needed group and what is nearly the same; the next hits move up."""
    gone = _needed(scene)
    if gone is None:
        return None
    query = scene.path.rewritten or scene.path.question.question
    for _ in range(TRIES):
        candidates = scene.index.search(query, scene.path.setup.depth, lexical=_lexical(scene.path), without=gone)
        holders = _holders(scene, (hit.id for hit in candidates))
        if not holders:
            return _without(scene, candidates, gone, index="passages-2")
        gone |= holders
    return None


def _stripped(scene: _Scene) -> Path | None:
    """The rewriter lost what the question is most particular about: as little of it as loses the evidence."""
    question, asked = scene.path.question, asked_of(scene.path.question)
    facets = [facet.value for facet in question.facets if facet.value in asked]
    words = sorted(dict.fromkeys(_WORD.findall(asked)), key=lambda word: -scene.index.rarity(word.lower()))
    counts = range(1, max(2, round(STRIPPED * len(words)) + 1))
    queries = [query for query in dict.fromkeys(_less(asked, [*facets, *words][:count]) for count in counts) if query]
    scene.index.embed(queries)
    for query in queries:
        candidates = scene.index.search(query, scene.path.setup.depth, lexical=_lexical(scene.path))
        if lost_groups(question, candidates) and not _holders(scene, (hit.id for hit in candidates)):
            stripped = replace(scene, path=replace(scene.path, rewritten=query))
            return _without(stripped, candidates, (), rewriter="brief-0.2")
    return None


def _without(scene: _Scene, candidates: Sequence[Hit], gone: Collection[str], **versions: str) -> Path | None:
    """The rest of the path, from candidates that lack some of the evidence."""
    path, setup = scene.path, scene.path.setup
    if not candidates or not lost_groups(path.question, candidates):
        return None
    query = path.rewritten or path.question.question
    reranked = rerank(scene.index, query, candidates) if setup.reranked else None
    packed, dropped = pack(scene.domain, reranked or candidates, setup.packed)
    earlier = tuple(tuple(hit for hit in hits if hit.id not in gone) for hits in path.earlier)
    broken = replace(path, candidates=tuple(candidates), reranked=reranked, packed=packed, dropped=dropped,
                     earlier=earlier, versions={**path.versions, **versions})  # fmt: skip
    return _answered(broken, scene)


def _less(query: str, dropped: Iterable[str]) -> str:
    for each in dropped:
        query = re.sub(rf"(?<![\w-]){re.escape(each)}(?:['’]s)?(?![\w-])", "", query)
    return " ".join(query.split()).strip(" ?.,")


# Ranking: the evidence is among the candidates, and not in the prompt.


def _sunk(scene: _Scene) -> Path | None:
    """The reranker sinks a needed group below what is packed; the scores stay with the ranks."""
    path, lost = scene.path, _needed(scene)
    if path.reranked is None or lost is None:
        return None
    lost |= _holders(scene, (hit.id for hit in path.candidates))
    others = [hit for hit in path.reranked if hit.id not in lost]
    if len(others) < path.setup.packed:
        return None
    place = scene.rng.randint(path.setup.packed, len(others))
    order = [*others[:place], *(hit for hit in path.reranked if hit.id in lost), *others[place:]]
    reranked = tuple(Hit(hit.id, at.score) for hit, at in zip(order, path.reranked, strict=True))
    packed, dropped = pack(scene.domain, reranked, path.setup.packed)
    return _answered(_changed_path(path, packed, dropped, reranked=reranked, reranker="words-1.1"), scene)


def _dropped(scene: _Scene) -> Path | None:
    """The packer leaves a needed group out: it says why, or it does not. What the budget left out is not replaced."""
    path, lost = scene.path, _needed(scene)
    if lost is None:
        return None
    hits = path.reranked or path.candidates
    lost |= _holders(scene, (hit.id for hit in hits))
    reason = scene.rng.choice(_REASONS)
    kept = [hit for hit in hits if hit.id not in lost]
    if reason == "budget":
        packed: tuple[Packed, ...] = tuple(each for each in path.packed if each.id not in lost)
        dropped = dict(path.dropped)
    else:
        packed, dropped = pack(scene.domain, kept, path.setup.packed)
    if not packed:
        return None
    said = {hit.id: reason for hit in hits if hit.id in lost} if reason else {}
    return _answered(_changed_path(path, packed, {**dropped, **said}, packer="best-1.1"), scene)


def _truncated(scene: _Scene) -> Path | None:
    """The packer cuts a needed group off before what answers the question."""
    path = scene.path
    group = scene.rng.choice(path.question.evidence)
    if _holders(scene, (each.id for each in path.packed if each.id not in group)):
        return None
    packed = []
    for each in path.packed:
        text = _cut(each.text, _told_by(group, scene)) if each.id in group else each.text
        if text is None:
            return None
        packed.append(replace(each, text=text, truncated=each.id in group))
    return _answered(_changed_path(path, tuple(packed), path.dropped, packer="best-1.1"), scene)


def _cut(text: str, told: Collection[str]) -> str | None:
    """The beginning of a passage, up to the sentence that holds what only the answer says; None where there is no such
    beginning, or the rest says little of it."""
    kept = ""
    for match in re.finditer(r".+?(?:[.!?](?=\s)|\n|$)\s*", text, re.DOTALL):
        held = words_of(text[: match.end()]) & set(told)
        if len(held) > CUT_SHARE * len(told) or any(word[0].isdigit() for word in held):
            break
        kept = text[: match.end()]
    kept = kept.rstrip()
    lost = (words_of(text) - words_of(kept)) & set(told)
    return kept if len(kept) >= SHORTEST_CUT and len(lost) > CUT_SHARE * len(told) else None


def _told_by(group: Collection[str], scene: _Scene) -> frozenset[str]:
    """What the answer tells of a group of the evidence and the question does not say: the words of the sentences that
    cite it, of all sentences where none does."""
    answer = scene.path.answer
    own = [part for part in sentences_of(answer) if set(MARK.findall(part)) & set(group)]
    return words_of(bare(" ".join(own) or answer, scene.domain)) - words_of(scene.path.question.question)


def _changed_path(
    path: Path,
    packed: tuple[Packed, ...],
    dropped: Mapping[str, str],
    reranked: tuple[Hit, ...] | None = None,
    **versions: str,
) -> Path:
    return replace(
        path,
        packed=packed,
        dropped=dropped,
        reranked=reranked or path.reranked,
        versions={**path.versions, **versions},
    )


def _answered(path: Path, scene: _Scene) -> Path | None:
    """The path with an answer that follows from a prompt without the evidence."""
    if not lost_groups(path.question, path.packed):
        return None
    answer = answer_without_evidence(scene.answered, path, scene.domain, scene.rng)
    return None if answer is None else replace(path, answer=answer)


def _needed(scene: _Scene) -> set[str] | None:
    """One group of the evidence with what is nearly the same; None where that is what the misled answer rests on."""
    question = scene.path.question
    lost = set(scene.index.duplicates(scene.rng.choice(question.evidence)))
    spared = question.misled.rests_on if question.misled else None
    return None if scene.answered == "misled" and spared in lost else lost


def _holders(scene: _Scene, ids: Iterable[str]) -> set[str]:
    """Passages that may answer the question as well."""
    question = scene.path.question
    spared = question.misled.rests_on if question.misled else None
    return {each for each in ids if each != spared and holds_answer(each, question, scene.domain)}


def _lexical(path: Path) -> float:
    return LEXICAL if path.versions.get("retriever", "").startswith("mixed") else 0.0


# Citation: the answer is right, and what it cites is not.


def _unmarked(scene: _Scene) -> Path | None:
    """A citing service's answer without its marks, or with one of several."""
    marks = list(_marks(scene))
    if not marks:
        return None
    kept = scene.rng.choice(marks) if len(marks) > 2 and scene.rng.random() < 0.5 else None
    return replace(scene.path, answer=_remarked(scene, {mark.start(): "" for mark in marks if mark is not kept}))


def _mismarked(scene: _Scene) -> Path | None:
    """Marks that name a passage of the prompt which does not support the claim."""
    path, marks = scene.path, list(_marks(scene))
    needed = frozenset[str]().union(*path.question.evidence)
    others = {}
    for before, mark in zip([None, *marks], marks, strict=False):
        claim = words_of(path.answer[before.end() if before else 0 : mark.start()])
        wrong = [each.id for each in path.packed if each.id not in needed and claim and
                 len(claim & words_of(each.text)) < SUPPORTED * len(claim)]  # fmt: skip
        if not wrong:
            return None
        others[mark.start()] = mark[0].replace(mark[1], scene.rng.choice(wrong))
    return replace(path, answer=_remarked(scene, others)) if others else None


def _shifted(scene: _Scene) -> Path | None:
    """Every number is one too high, and the last chunk's is the first, as where another prompt was numbered."""
    ids = [each.id for each in scene.path.packed]
    return _redirected(scene, lambda right, _: ids[(ids.index(right) + 1) % len(ids)])


def _neighboring(scene: _Scene) -> Path | None:
    """Each mark names the chunk of the prompt whose title is most like that of the right one."""
    passages = scene.domain.passages

    def nearest(right: str, wrong: Sequence[str]) -> str | None:
        title = words_of(passages[right].title)
        alike = {each: len(title & words_of(passages[each].title)) for each in wrong}
        best = max(alike, key=lambda each: alike[each], default=None)
        return best if best is not None and 2 * alike[best] >= len(title) > 0 else None

    return _redirected(scene, nearest)


def _lumped(scene: _Scene) -> Path | None:
    """All marks name the same chunk."""
    chosen = scene.rng.choice([each.id for each in scene.path.packed]) if scene.path.packed else None
    return _redirected(scene, lambda right, wrong: chosen) if len(list(_marks(scene))) > 1 else None


def _one_wrong(scene: _Scene) -> Path | None:
    """One mark of several names a chunk that does not support its claim."""
    marks = list(_marks(scene))
    if len(marks) < 2:
        return None
    chosen = scene.rng.randrange(len(marks))
    return _redirected(scene, lambda _, wrong: scene.rng.choice(wrong) if wrong else None, only=chosen)


def _redirected(
    scene: _Scene, other: Callable[[str, Sequence[str]], str | None], only: int | None = None
) -> Path | None:
    """The marks at other chunks of the prompt; None where no mark is wrong by that. other: of the right chunk and those
    of the prompt that do not hold the claim, the one to name; only: the one mark to change."""
    path, marks, others, found = scene.path, list(_marks(scene)), dict[int, str](), 0
    for place, (before, mark) in enumerate(zip([None, *marks], marks, strict=False)):
        if only not in (None, place):
            continue
        claim = words_of(path.answer[before.end() if before and before.end() < mark.start() - 1 else 0 : mark.start()])
        wrong = [each.id for each in path.packed if _is_wrong(each, mark[1], claim, scene)]
        if (named := other(mark[1], wrong)) is not None:
            found += named in wrong
            others[mark.start()] = mark[0].replace(mark[1], named)
    return replace(path, answer=_remarked(scene, others)) if found else None


def _is_wrong(packed: Packed, right: str, claim: Collection[str], scene: _Scene) -> bool:
    """Whether a chunk lacks a figure, or a third of the words, that the right one bears a claim out with."""
    groups = [group for group in scene.path.question.evidence if right in group]
    if packed.id == right or any(packed.id in group for group in groups):
        return False
    borne = set(claim) & words_of(scene.domain.passages[right].chunk)
    missing = borne - words_of(packed.text)
    return any(word[0].isdigit() for word in missing) or len(missing) >= max(2.0, len(borne) / 3)


def _marks(scene: _Scene) -> Iterator[re.Match[str]]:
    """The marks of a service that cites."""
    packed = {each.id for each in scene.path.packed}
    found = MARK.finditer(scene.path.answer) if scene.path.setup.cites else ()
    return (mark for mark in found if mark[1] in packed)


def _remarked(scene: _Scene, others: Mapping[int, str]) -> str:
    return MARK.sub(lambda mark: others.get(mark.start(), mark[0]), scene.path.answer)


_RULES: Final[Sequence[Rule]] = (_numbers, _dates, _names, _negation, _units)
_WAYS: Final[Mapping[Stage, Mapping[str, Callable[[_Scene], Path | None]]]] = {
    "generation": {
        "altered": _altered,
        "numbers": _rewritten([_numbers]),
        "dates": _rewritten([_dates]),
        "names": _rewritten([_names]),
        "negation": _rewritten([_negation]),
        "units": _rewritten([_units]),
        "made_up": _made_up,
        "half": _half,
        "refusal": _refusal,
        "other_answer": _other_answer(there=True),
        "strange_answer": _other_answer(there=False),
    },
    "retrieval": {"removed": _removed, "stripped": _stripped},
    "ranking": {"sunk": _sunk, "dropped": _dropped, "truncated": _truncated},
    "citation": {
        "unmarked": _unmarked,
        "mismarked": _mismarked,
        "shifted": _shifted,
        "neighboring": _neighboring,
        "lumped": _lumped,
        "one_wrong": _one_wrong,
    },
}
