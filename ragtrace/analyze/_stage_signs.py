"""The signs of one request: what its question, chunks and answer show of each stage, in figures.

The rules of `ragtrace.analyze._stage_states` read nothing else of the texts. One that is not computed is None, never 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ragtrace import coverage
from ragtrace.coverage.miscitation import miscitation, miscitation_odds
from ragtrace.coverage.relevance import Background, Rarity, question_match, spoken_of
from ragtrace.coverage.support import Evidence, Statement
from ragtrace.coverage.support.figures import Figures, is_day_of_month
from ragtrace.coverage.support.lexical import Ground, ground_of
from ragtrace.coverage.support.readings import SentenceWindow
from ragtrace.coverage.text import content_words, is_prose, speaks_english
from ragtrace.coverage.values import NUMBER_WORDS, Value, values
from ragtrace.coverage.values.dates import MONTHS
from ragtrace.coverage.verifier import TOGETHER, JudgedRelevance, log_odds, repeated
from ragtrace.types import Candidate, Claim, Facet, PackedChunk, RequestRecord

__all__ = ["LEAST", "Signs", "count_relevant", "evidence_odds", "odds_by_place", "once_more", "signs_of", "with_facets"]


MOST: Final = 20  # figures and dates of one claim that are looked up
SUREST: Final = 5.0  # log odds beyond which no model of relevance or entailment is believed
SUREST_CLAIM: Final = 7.0  # the same, of all judgments of one claim together
SUREST_CITATION: Final = 10.0  # the same, of those of one citation, with what words say
TELLING: Final = 6.0  # log odds by which a chunk with all of the question's words is the likelier evidence
LEAST: Final = 1 / (1 + math.exp(SUREST))  # the probability of `SUREST` log odds against something
RIVAL: Final = 0.5  # share of the match of the best chunk of the prompt, from which another may be the better evidence
_WEEKDAY: Final = re.compile(r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\b")
FEWEST: Final = 4  # pairs of words of a claim, from which it can be a copy of what the prompt says


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """Shares in [0, 1]; a sign that cannot be computed is None. Those of the question are means over its parts.

    - asked: content words of the question. pool_match, packed_match, left_match: of its words, what the best candidate,
      the best chunk of the prompt and the best candidate outside of it (`left_chunk`, of `left_count`) hold in one
      place; first_match: what the candidates hold that a retriever ranked first.
    - graded_lead: the log odds by which the built-in judge of relevance grades the best candidate outside of the prompt
      (`left_graded`) above the best chunk of the prompt.
    - left_standing: how far the retriever's score of `left_chunk` stands out of the rest (`standings`); it judges what
      came after the retriever.
    - pool_facets, packed_facets, left_facets: the same for the facets that one chunk meets together; left_facets counts
      only `rivals`, the candidates outside that match half as well as the best chunk of the prompt (None: not known).
    - declined: the answer abstains, wholly; hedged: it says somewhere that the evidence is silent; readable: it is
      prose in English, as are the chunks of the prompt.
    - supported: the weight of its claims that the prompt supports over that of all; weakest: the least support of a
      claim; answered: of the question's words, what a supported claim holds together with the chunk that supports it;
      on_topic: what any claim holds.
    - outside: the share of the claims' words beyond the question that stand in no chunk of the prompt; foreign: the
      largest such share of one claim; absent: how many such words there are.
    - odd_figures, odd_dates, odd_names: claims with a figure that is neither stated nor computed, with a date or a name
      that the prompt does not state, over all claims; odd: how many of these there are; reckoned: how many of these
      prove no invention, since simple arithmetic may give them all the same (`Figures.may_give`), or they name a month
      or what another candidate names; unproven: figures that a claim says it computes, and that no operation gives,
      and dates in a prompt that tells days as they lie from its own.
    - contradicted: the largest contradiction of a claim; exchanged: the same, of those that are no negation, which
      words read least surely; altered: of a claim that the prompt contradicts, the share of its pairs of words that
      one place of the contradicting chunk has: near 1, it is a copy with something changed.
    - relevance: how likely the answer is one to this question and not to another (`coverage.answer_relevance`);
      nearness: the cosine of both, by the encoder of a built-in judge.
    - packed_odds, left_odds: log odds that the evidence is in the prompt, or outside of it, against that it is nowhere,
      as far as a calibrated model of relevance tells; rest_odds: that what the answer rests on is evidence; borne: the
      log odds of each claim that the prompt bears it out, by a model of entailment; answer_odds: that the answer speaks
      of what was asked, by a model; left_judged: the most relevant chunk outside of the prompt, by the model; by_words:
      the signs as they are where words alone judge the claims.
    - cited: of the claims that the prompt supports (`citable`), the share that carry a citation; miscited: how sure it
      is that a claim cites the wrong chunk, of the claim for which it is surest; wrong_citation: that claim, the chunk
      that it cites, and the one that bears it out. miscited_odds: of each claim that cites, the log odds that it cites
      the wrong chunk, by a calibrated model of entailment and words.
    """

    left_chunk: str | None = None
    left_count: int = 0
    asked: int = 0
    pool_match: float | None = None
    first_match: float | None = None
    packed_match: float | None = None
    left_match: float | None = None
    left_standing: float | None = None
    pool_facets: float | None = None
    packed_facets: float | None = None
    left_facets: float | None = None
    declined: bool = False
    hedged: bool = False
    readable: bool = True
    claims: int = 0
    supported: float | None = None
    weakest: float | None = None
    answered: float | None = None
    on_topic: float | None = None
    outside: float | None = None
    foreign: float | None = None
    odd_figures: float | None = None
    odd_dates: float | None = None
    odd_names: float | None = None
    absent: int | None = None
    odd: int | None = None
    unproven: int = 0
    reckoned: int = 0
    contradicted: float | None = None
    exchanged: float | None = None
    altered: float | None = None
    relevance: float | None = None
    nearness: float | None = None
    packed_odds: float | None = None
    left_odds: float | None = None
    rest_odds: float | None = None
    borne: tuple[float, ...] = ()
    answer_odds: float | None = None
    left_judged: str | None = None
    by_words: Signs | None = None
    citable: int = 0
    cited: float | None = None
    miscited: float | None = None
    wrong_citation: str | None = None
    miscited_odds: tuple[float, ...] = ()
    rivals: frozenset[str] | None = None
    graded_lead: float | None = None
    left_graded: str | None = None

    def before_answer(self) -> Signs:
        """The signs that do not depend on what the answer says."""
        return replace(
            self,
            declined=False,
            hedged=False,
            supported=None,
            answered=None,
            relevance=None,
            nearness=None,
            rest_odds=None,
            borne=(),
            answer_odds=None,
            miscited_odds=(),
            by_words=None,
        )


def signs_of(
    record: RequestRecord,
    facets: Sequence[Facet],
    matrix: NDArray[np.float64],
    judged: coverage.JudgedAnswer | None,
    background: Background | None = None,
    relevance: float | None = None,
    prompt: coverage.PromptEvidence | None = None,
    relevances: JudgedRelevance | None = None,
    grades: JudgedRelevance | None = None,
) -> Signs:
    """The signs of a record. matrix: `facet_matrix` of the facets and the record's candidates; judged: the claims of
    its answer, None where they cannot be judged; background: what the service usually returns; relevance: of its
    answer to its question; prompt: what stands in it, read here where it is not given; relevances: what calibrated
    models say of chunks and answer; grades: what the built-in judge says of chunks."""
    candidates = record.candidates
    chunks = record.packing.chunks if record.packing else ()
    pool = [Evidence.read(item.chunk_id, item.text or "") for item in candidates]
    packed = [Evidence.read(chunk.chunk_id, chunk.text or "") for chunk in chunks]
    rarity = Rarity(pool or packed, background)
    answer = (record.generation.answer if record.generation else None) or ""
    claims = [claim for claim in judged.claims if claim.factual] if judged else []
    prompt = prompt or coverage.PromptEvidence(record.query.original, chunks, candidates)
    asked = _question_signs(record, pool, packed, rarity, prompt)
    by_words = [claim for claim in judged.by_words if claim.factual] if judged else []
    signs = Signs(
        **asked,
        **_facet_signs(candidates, chunks, facets, matrix, asked.get("rivals")),
        declined=coverage.is_abstention(answer),
        hedged=coverage.abstains_somewhere(answer),
        readable=is_prose(answer) and not any(_is_foreign(chunk.text or "") for chunk in chunks),
        claims=len(claims),
        relevance=relevance,
        **(_graded_signs(record, prompt, grades) if grades else {}),
        **(_model_signs(record, judged, relevances, pool, packed, rarity, prompt) if relevances else {}),
        **(_citation_signs(record, judged, packed, rarity) if judged and claims else {}),
        **(_answer_signs(record.query.original, claims, packed, pool, rarity) if claims else {}),
    )
    if not (relevances and by_words):
        return signs
    return replace(
        signs, by_words=replace(signs, **_answer_signs(record.query.original, by_words, packed, pool, rarity))
    )


def with_facets(signs: Signs, record: RequestRecord, facets: Sequence[Facet], matrix: NDArray[np.float64]) -> Signs:
    """The signs of a record as they are by other facets. matrix: as in `signs_of`."""
    chunks = record.packing.chunks if record.packing else ()
    found: dict[str, Any] = dict.fromkeys(("pool_facets", "packed_facets", "left_facets"))
    return replace(signs, **found | _facet_signs(record.candidates, chunks, facets, matrix, signs.rivals))


def _is_foreign(text: str) -> bool:
    if text.isascii():
        return not coverage.is_english(text)
    has_letters = any(letter.isalpha() and not letter.isascii() for letter in text)  # "£" and "°" are of no language
    return not coverage.is_english(text) or (has_letters and not speaks_english(text))


def _question_signs(
    record: RequestRecord,
    pool: Sequence[Evidence],
    packed: Sequence[Evidence],
    rarity: Rarity,
    prompt: coverage.PromptEvidence,
) -> dict[str, Any]:
    query, candidates = record.query.original, record.candidates
    chunks = record.packing.chunks if record.packing else ()
    asked = content_words(query)
    if not asked:
        return {}
    held = {chunk.chunk_id for chunk in chunks if not chunk.truncated}
    of_pool = question_match(query, pool, rarity)
    match = of_pool.mean(axis=0)
    outside = [place for place, item in enumerate(candidates) if item.chunk_id not in held]
    left = _not_stood_in(sorted(outside, key=lambda at: -match[at]), candidates, prompt)
    best_left = left[0] if left else None
    of_packed = _best(question_match(query, packed, rarity)) if any(c.text for c in chunks) else None
    first = [place for place, item in enumerate(candidates) if item.rank == candidates[0].rank]
    found = (
        {}
        if best_left is None
        else {
            "left_chunk": candidates[best_left].chunk_id,
            "left_standing": float(coverage.standings(candidates)[best_left]),
        }
    )
    return found | {
        "left_count": len(outside),
        "asked": len(set(asked)),
        "pool_match": _best(of_pool) if any(item.text for item in candidates) else None,
        "first_match": _best(of_pool[:, first]) if any(candidates[at].text for at in first) else None,
        "packed_match": of_packed,
        "left_match": _best(of_pool[:, left]) if any(candidates[at].text for at in left) else None,
        "rivals": frozenset(candidates[at].chunk_id for at in outside if match[at] >= RIVAL * (of_packed or 0.0)),
    }


def _not_stood_in(
    places: Sequence[int], candidates: Sequence[Candidate], prompt: coverage.PromptEvidence
) -> Sequence[int]:
    """The places of candidates outside of the prompt from the best on that nothing in it stands in for."""
    for at, place in enumerate(places):
        if prompt.leaves_out(candidates[place]):
            return places[at:]
    return ()


def _best(match: NDArray[np.float64]) -> float:
    """Of each part of the question the best chunk; of these the mean."""
    return float(match.max(axis=1, initial=0.0).mean()) if match.size else 0.0


def _graded_signs(record: RequestRecord, prompt: coverage.PromptEvidence, said: JudgedRelevance) -> dict[str, Any]:
    held = {chunk.chunk_id for chunk in record.packing.chunks if not chunk.truncated} if record.packing else set()
    left = [item for item in record.candidates if item.chunk_id in said.candidates and item.chunk_id not in held]
    left = sorted(left, key=lambda item: -said.candidates[item.chunk_id])
    best = next((item.chunk_id for item in left if prompt.leaves_out(item)), None)
    if best is None or not said.packed:
        return {}
    lead = log_odds(said.candidates[best], LEAST) - log_odds(max(said.packed.values()), LEAST)
    return {"graded_lead": lead, "left_graded": best}


def _facet_signs(
    candidates: Sequence[Candidate],
    chunks: Sequence[PackedChunk],
    facets: Sequence[Facet],
    matrix: NDArray[np.float64],
    rivals: Set[str] | None,
) -> dict[str, Any]:
    if not facets or not candidates:
        return {}
    weights = np.array([facet.weight for facet in facets])
    unmet = weights @ (1.0 - np.nan_to_num(matrix, nan=0.0))
    joint = 1.0 - unmet / max(1.0, weights.sum())  # an amount alone, which may be the asker's own, gives no great lead
    held = {chunk.chunk_id for chunk in chunks if not chunk.truncated}
    inside = np.array([item.chunk_id in held for item in candidates], dtype=bool)
    rival = np.array([rivals is None or item.chunk_id in rivals for item in candidates], dtype=bool)
    return {
        "pool_facets": float(1.0 - unmet.min() / weights.sum()),
        "packed_facets": float(joint[inside].max(initial=0.0)),
        "left_facets": float(joint[~inside & rival].max(initial=0.0)) if (~inside).any() else None,
    }


def _answer_signs(
    query: str, claims: Sequence[Claim], packed: Sequence[Evidence], pool: Sequence[Evidence], rarity: Rarity
) -> dict[str, Any]:
    asked = frozenset(content_words(query))
    by_id = {chunk.chunk_id: chunk for chunk in packed}
    ground = ground_of(tuple(chunk.reading for chunk in packed), query) if packed else None
    found = ground_of(tuple(chunk.reading for chunk in pool), query) if pool else None
    weight = sum(claim.weight for claim in claims)
    answered, on_topic, altered = [0.0], [0.0], [0.0]
    foreign, outside, beyond, count, unproven, reckoned = [0.0], 0, 0, 0, 0, 0
    odd = {"odd_figures": 0, "odd_dates": 0, "odd_names": 0}
    statements = [Statement.read(claim) for claim in claims]
    answer = "\n".join(claim.text for claim in claims)
    for claim, statement in zip(claims, statements, strict=True):
        words = frozenset(content_words(claim.text))
        on_topic.append(rarity.share(asked, words & asked))
        chunk = by_id.get(claim.best_chunk or "")
        if chunk is not None and (claim.support or 0.0) >= coverage.SUPPORTED:
            told = words & asked
            rest = asked - told
            held = rarity.share(asked, told)
            answered.append(held + (1 - held) * spoken_of(rest, chunk, rarity) if rest else held)
        if chunk is not None and (claim.contradiction or 0.0) >= coverage.SUPPORTED:
            altered.append(max(_copied(statement, window) for window in chunk.windows))
        new = [word for word in words if word not in asked and word not in NUMBER_WORDS]
        absent = [word for word in new if ground is None or not _stands(word, ground)]
        beyond += len(new)
        outside += len(absent)
        if len(new) >= 4:
            foreign.append(len(absent) / len(new))
        if ground is not None:
            origins = _origins(statement, claim.text, ground, answer)
            unproven += origins.count("unproven")
            reckoned += origins.count("reckoned") + _names_elsewhere(statement, ground, found)
            for what, number in _odd(statement, ground, origins, f"{query} {answer}").items():
                odd[what] += number > 0
                count += number
    return {
        "supported": sum(claim.weight for claim in claims if (claim.support or 0.0) >= coverage.SUPPORTED) / weight,
        "weakest": min(claim.support or 0.0 for claim in claims),
        "answered": max(answered),
        "on_topic": max(on_topic),
        "outside": outside / beyond if beyond else None,
        "foreign": max(foreign),
        **{what: number / len(claims) for what, number in odd.items()},
        "absent": outside,
        "odd": count,
        "unproven": unproven,
        "reckoned": reckoned,
        "altered": max(altered),
        "contradicted": max(claim.contradiction or 0.0 for claim in claims),
        "exchanged": max(_exchanged(claim, ground) for claim in claims),
    }


def _model_signs(
    record: RequestRecord,
    judged: coverage.JudgedAnswer | None,
    said: JudgedRelevance,
    pool: Sequence[Evidence],
    packed: Sequence[Evidence],
    rarity: Rarity,
    prompt: coverage.PromptEvidence,
) -> dict[str, Any]:
    found: dict[str, Any] = {"answer_odds": None if said.answer is None else log_odds(said.answer, LEAST)}
    borne = [each for each in judged.borne if each is not None] if judged else []
    found["borne"] = tuple(min(max(each.odds, -SUREST_CLAIM), SUREST_CLAIM) for each in borne)
    if not said.packed:
        return found
    query = record.query.original
    matches = question_match(query, packed, rarity).mean(axis=0)
    likely = {chunk.chunk_id: match for chunk, match in zip(packed, matches, strict=True)}
    single = odds_by_place(said.packed, likely)
    relevant = count_relevant(said.packed.values())
    found["packed_odds"] = single + once_more(said.prompt, single, relevant)
    rests: dict[str, float] = {}
    for each in borne:
        for chunk_id, share in each.rests.items():
            rests[chunk_id] = rests.get(chunk_id, 0.0) + share / len(borne)
    judged_rests = {key: share for key, share in rests.items() if key in said.packed and share > 0}
    if judged_rests:
        single = _mean_odds(said.packed, judged_rests)
        found["rest_odds"] = single + once_more(said.prompt, single, relevant)
    held = {chunk.chunk_id for chunk in record.packing.chunks if not chunk.truncated} if record.packing else set()
    left = {item.chunk_id for item in record.candidates if item.chunk_id not in held and prompt.leaves_out(item)}
    outside = {key: value for key, value in said.candidates.items() if key in left}
    if outside:
        matches = question_match(query, pool, rarity).mean(axis=0)
        likely = {chunk.chunk_id: match for chunk, match in zip(pool, matches, strict=True)}
        again = {key: outside[key] for key in said.likely_left if key in outside}
        relevant = count_relevant(again.values())
        more = {key: once_more(said.left, log_odds(chance, LEAST), relevant) for key, chance in again.items()}
        found["left_odds"] = odds_by_place(outside, likely, more)
        found["left_judged"] = max(outside, key=lambda key: outside[key])
    return found


def odds_by_place(
    chances: Mapping[str, float], likely: Mapping[str, float], more: Mapping[str, float] | None = None
) -> float:
    """The log odds that one of several chunks is the evidence, against that none is.

    chances: of each by itself, at even odds before; likely: how well each matches the question by words, which tells
    where to look for it and not whether it is there; more: the log odds of second judgments of some.
    """
    most = max(likely.get(key, 0.0) for key in chances)
    weights = {key: math.exp(TELLING * (likely.get(key, 0.0) - most)) for key in chances}
    return _mean_odds(chances, weights, more or {})


def _mean_odds(
    chances: Mapping[str, float], weights: Mapping[str, float], more: Mapping[str, float] | None = None
) -> float:
    odds = {key: log_odds(chances[key], LEAST) + (more or {}).get(key, 0.0) for key in weights}
    return math.log(math.fsum(weights[key] * math.exp(odds[key]) for key in odds) / math.fsum(weights.values()))


def count_relevant(chances: Iterable[float]) -> int:
    return sum(chance >= coverage.SUPPORTED for chance in chances)


def once_more(said: Iterable[float], first: float, relevant: int) -> float:
    """The log of the ratio of likelihoods of further judgments of chunks as one text, which may not show what one of
    them shows. first: the log odds of the judgments of each by itself; relevant: how many of the chunks these called
    relevant, of any of which a model that erred may err again."""
    known = first
    for each in said:
        odds = log_odds(each, LEAST)
        odds = repeated(odds, known, max(1, relevant) if odds > 0.0 else 1)
        known += math.log(TOGETHER * math.exp(odds) + 1 - TOGETHER)
    return known - first


def evidence_odds(chances: Iterable[float], count: int | None = None) -> float:
    """The log odds that one of several chances holds, where at most one does and each of `count` may be it.

    chances: each that of one by itself, at even odds before, in [0, 1]. The mean of their odds: among many that are
    judged one by one, one that stands out by mistake is nothing unusual.
    """
    odds = [math.exp(log_odds(chance, LEAST)) for chance in chances]
    mean = math.fsum(odds) / max(1, count or len(odds))
    return math.log(min(max(mean, math.exp(-SUREST)), math.exp(SUREST)))


def _citation_signs(
    record: RequestRecord, judged: coverage.JudgedAnswer, packed: Sequence[Evidence], rarity: Rarity
) -> dict[str, Any]:
    factual = [both for both in zip(judged.claims, judged.supports, strict=True) if both[0].factual]
    supported = [claim for claim, _ in factual if (claim.support or 0.0) >= coverage.SUPPORTED]
    template = record.generation.prompt_template if record.generation else None
    is_numbered = coverage.first_number(template) is not None
    found = [
        (wrong, claim)
        for claim, support in factual
        if (wrong := miscitation(claim, packed, support, rarity, is_numbered=is_numbered)) is not None
    ]
    wrong, claim = max(found, key=lambda each: each[0].sureness, default=(None, None))
    heard = _heard_citations(judged, packed, rarity, is_numbered=is_numbered) if judged.borne else []
    told = f"“{claim.text}” cites {wrong.cited}; {wrong.other} bears it out" if wrong and claim else None
    return {
        "citable": len(supported),
        "cited": sum(_is_cited(claim) for claim in supported) / len(supported) if supported else None,
        "miscited": wrong.sureness if wrong else None,
        "miscited_odds": tuple(min(max(odds, -SUREST_CITATION), SUREST_CITATION) for odds, _ in heard),
        "wrong_citation": max(heard)[1] if heard else told,
    }


def _heard_citations(
    judged: coverage.JudgedAnswer, packed: Sequence[Evidence], rarity: Rarity, *, is_numbered: bool
) -> list[tuple[float, str]]:
    """Of each claim that cites, the log odds by a calibrated model and words that it cites the wrong chunk, and which
    one bears it out then."""
    found = []
    for claim, support, by_words in zip(judged.claims, judged.supports, judged.by_words, strict=True):
        odds = {key: log_odds(share, LEAST) for key, share in support.items()} if claim.factual else {}
        wrong = miscitation_odds(claim, packed, odds, by_words, rarity, is_numbered=is_numbered)
        if wrong is not None:
            found.append((wrong[0], f"“{claim.text}” cites {wrong[1]}; {wrong[2]} bears it out"))
    return found


def _is_cited(claim: Claim) -> bool:
    return any(mark.chunk_id for mark in claim.citations)


def _exchanged(claim: Claim, ground: Ground | None) -> float:
    """How surely a claim has something else in its place than the prompt: 0 for a negation, and for a figure that
    simple arithmetic may give, or a date that a length of time which the claim names does."""
    reason, against = claim.reason or "", claim.contradiction or 0.0
    if reason.endswith(coverage.NEGATED):
        return 0.0
    if not against or ground is None:
        return against
    told = [value for value in values(claim.text) if value.raw and reason.startswith(f"{value.raw},")]
    known = ground.figures
    follows = any(known.may_give(value, claim.text) or known.gives_date(value, claim.text) for value in told)
    return 0.0 if follows else against


def _names_elsewhere(statement: Statement, ground: Ground, found: Ground | None) -> int:
    """How many names of a claim that stand nowhere in the prompt are those of a month, which may be reckoned, or stand
    in another candidate: they are no invention."""
    names = [name for name in statement.names if not (ground.names(name) or _WEEKDAY.fullmatch(name.written))]
    return sum(name.written.casefold() in MONTHS or (found is not None and found.names(name)) for name in names)


def _origins(statement: Statement, text: str, ground: Ground, answer: str) -> list[str]:
    """Where the values of a claim come from that its evidence does not state: `date`, of one that no other date gives,
    `reckoned` where simple arithmetic may give a figure all the same, or as `Figures.origin`."""
    exact = [value for value in statement.stated if value.is_exact]
    unheld = [
        value for value in exact[:MOST] if not (ground.holds(value) or ground.is_asked(value) or ground.borders(value))
    ]
    return [_origin(value, text, ground.figures, answer) for value in unheld]


def _origin(value: Value, text: str, figures: Figures, answer: str) -> str:
    if value.dates:
        if figures.gives_date(value, text, answer):
            return "computed"
        return "unproven" if figures.may_give(value, text) else "date"
    origin = figures.origin(value, text, answer)
    if origin != "unknown" or not figures.may_give(value, text):
        return origin
    return "unproven" if is_day_of_month(value, text) else "reckoned"


def _odd(statement: Statement, ground: Ground, origins: Sequence[str], said: str) -> dict[str, int]:
    """How many figures, dates and names of unknown origin a claim has.

    said: question and answer; a day of the week beside another one of them is reckoned: "five days after Monday".
    """
    days = {match[0].casefold() for match in _WEEKDAY.finditer(said)}
    names = [name for name in statement.names if not (len(days) > 1 and name.written.casefold() in days)]
    return {
        "odd_figures": origins.count("unknown") + origins.count("reckoned"),
        "odd_dates": origins.count("date"),
        "odd_names": sum(not ground.names(name) for name in names),
    }


def _copied(statement: Statement, window: SentenceWindow) -> float:
    """The share of a claim's neighboring words, its values apart, that are neighbors in a window; 0 for a short one."""
    words = [term for term, place in zip(statement.terms, statement.places, strict=True) if place < 0]
    pairs = [" ".join(two) for two in pairwise(words)]
    if len(pairs) < FEWEST:
        return 0.0
    return sum(pair in window.pairs for pair in pairs) / len(pairs)


def _stands(word: str, ground: Ground) -> bool:
    return word in ground.vocabulary or ground.begins(word)
