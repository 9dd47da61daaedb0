"""The state of each stage of a request: sound, broken, suspected or not known, and why.

Sound needs evidence as broken does; what single requests cannot prove is suspected or not known. With gold evidence
retrieval and ranking are known. Without it retrieval is broken only by proof (a constraint that the rewrite dropped and
nothing meets), since words and scores can only cast doubt; the answer may acquit retrieval and ranking, where a
supported claim that answers the question rests on a chunk of the prompt, and never convicts them. Nothing is lost in
ranking where nothing was left out. Generation is judged where words can follow it: English prose.
Source: "Diagnosing Hallucinations with Attribution Traces and Retrieval Coverage Metrics", §4; the states are ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace as replaced
from typing import Final, TypeAlias

from ragtrace.analyze._doubt_model import (
    ACQUITTAL,
    GENERATION,
    GRADED,
    MISSED,
    RANKING,
    RETRIEVAL,
    Chances,
    DoubtModel,
    Level,
    Usual,
    chances,
    is_distant,
    usable,
)
from ragtrace.analyze._stage_signs import Signs
from ragtrace.coverage import SUPPORTED
from ragtrace.coverage.miscitation import SURE
from ragtrace.coverage.verifier import ENTAILMENT
from ragtrace.registry.wording import probe_lines
from ragtrace.types import (
    Citation,
    Claim,
    FacetMatch,
    IndexProbe,
    LostChunk,
    Reference,
    Stage,
    StageFinding,
    StageState,
    replace,
)

__all__ = ["MAY_HAVE_BROKEN", "REASONS", "RULES", "Case", "Raised", "is_certain", "is_lost", "judge_stages", "proofs"]

RULES: Final[Mapping[str, Stage]] = {
    "rewrite": "retrieval",  # the rewritten query dropped a constraint that nothing meets
    "ranking": "ranking",
    "generation": "generation",
    "altered": "generation",  # one thing of the answer that the prompt states otherwise
    "miscited": "citation",
    "uncited": "citation",  # no citation, or none that names a chunk of the prompt
}
"""What can prove a stage broken without gold evidence and without a probe, in the order of the path."""

Raised: TypeAlias = Mapping[str, float | None]
"""By how much, in log odds, a service's calibration raises the line of proof of each rule; None: it never proves."""

REASONS: Final = (
    "corpus_gap",  # the same, and the whole index holds nothing better: a probe has asked it
    "facet_not_found",  # no candidate meets a facet that is certain: a gap of the corpus, or of recall
    "low_match",  # no chunk speaks of the question as evidence would, or one outside of the prompt does so better
    "unsupported",  # weakly supported: claims whose support by the prompt's words is below `SUPPORTED`
    "contradicted",  # claims that the prompt seems to contradict
    "refused",  # the answer declines, and nothing tells whether rightly
    "not_recorded",  # the stage, or the texts that it is judged by, were not recorded
    "language",  # words cannot follow it: data, or another language than English
    "undecided",  # words tell neither
)
"""Why a stage is suspected or not known: the values of the label `reason`."""

CERTAIN: Final = ("version",)  # kinds that are read with precision; a time may be the asker's own ("two weeks ago")
FACET_MET: Final = 0.5  # match from which a facet is met
MATCHED: Final = 0.8  # share of the question's words in one chunk that meets all facets, which then matches it
REFUSED: Final = 0.6  # the same, beside which an answer that declines is suspected
ABSENCE: Final = 8.0  # log odds that generation needs above its line for each by which the evidence is in doubt
BESIDE: Final = 2.0  # log odds that a proof needs above its line for each by which the first chunks miss the question
LITTLE: Final = 0.1  # doubt of the evidence, in log odds above the line, up to which one wrong thing proves
FEW_ABSENT: Final = 1  # words that stand nowhere in the prompt, up to which an answer is told in its words
OWN_WORDS: Final = 1 / 3  # the same, of one claim's words beyond the question
OPPOSED: Final = 0.7  # contradiction that proves
COPIED: Final = 0.75  # share of a claim's pairs of words in one place of the prompt, from which it is a copy of it
CITED: Final = 0.9  # share of the claims with a citation, from which on they are cited
FEW_CITED: Final = 0.5  # share below which citations are missing
MISCITED: Final = 0.93  # sureness that a claim cites the wrong chunk, from which it is suspected; `SURE` breaks
RIGHT: Final = 0.5  # sureness below which no citation is held to be wrong
CLAIMS: Final = 2  # supported claims of an answer, from which the lack of any citation is no matter of style
UNEVEN: Final = 0.7  # log odds of generation, from which it is in doubt whatever is usual
LEAD: Final = 0.1  # share of the question's words, or of its facets, that a chunk must have more to have the better
SPEAKS: Final = 0.3  # share of the question's words below which a chunk that leads by words alone proves nothing
_SHOWN: Final = 0.01  # lead that a reason names
WORDS: Final = 3  # content words of a question, from which shares of them tell that much
SHORT: Final = 2.0  # log odds that a proof of ranking needs above its line where the question has no more words
# By calibrated models and words together: how likely a request is at most sound, and how likely a stage broke first at
# least, that it is broken; that it is suspected; at most, that it is sound.
STILL_SOUND: Final = 0.2
BROKE: Final = 0.6
MAY_HAVE_BROKEN: Final = 0.2
UNLIKELY: Final = 0.03


_NOWHERE: Final = "nothing in the index answers the question, and the answer claims something that the prompt lacks"
_NOT_SHOWN: Final = "no labels show that the model ranks better than the service's own reranker, so that it is no proof"
_UNCITED: Final = (
    "the answer cites nothing at all, and the answers of this service cite; "
    "if they are no longer meant to, set cites=False"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What the stages of one request are judged by.

    before_answer: the signs as they are whatever the answer says, with the facets that count then; retrieved, packed,
    answered: whether these stages were recorded; is_empty: whether no candidate was found; left_out: whether a
    candidate is not whole in the prompt; cut: the chunks that are in it in part; cites: whether citations are judged;
    resolves: whether marks of other answers of the service named chunks of their prompts; unjudged: why the claims
    cannot be, if so (`language`, `no_evidence_text` ...); reference: of `lost`, the reference chunks that are not
    whole in the prompt; is_unanswerable: whether gold says that no chunk answers the question; facets: how the
    candidates meet each; terms: how they meet the question's key terms, which judge nothing and are named where
    retrieval is suspected; claims: of the answer; probe: what the index said when it was asked once more; usual: the
    scores of the service's other requests; raised: the lines of its calibration, and calibration: its id; may_outrank:
    whether a model of relevance may prove that the host's reranker erred, as labels show or as it has none; reader: the
    name of what reads names in questions.
    """

    signs: Signs
    before_answer: Signs
    retrieved: bool
    is_empty: bool = False
    packed: bool
    answered: bool
    left_out: bool
    cut: Set[str] = frozenset()
    cites: bool
    resolves: bool = False
    unjudged: str | None
    reference: Reference
    is_unanswerable: bool = False
    lost: Sequence[LostChunk] = ()
    facets: Sequence[FacetMatch] = ()
    terms: Sequence[FacetMatch] = ()
    claims: Sequence[Claim] = ()
    probe: IndexProbe | None = None
    usual: Usual = field(default_factory=dict)
    raised: Raised = field(default_factory=dict)
    calibration: str | None = None
    may_outrank: bool = True
    reader: str | None = None

    def is_proven(self, rule: str, margin: float = 0.0) -> bool:
        """Whether a margin above the line of a rule is a proof for this service."""
        raised = self.raised.get(rule, 0.0)
        return raised is not None and margin >= raised

    def level(self, doubt: DoubtModel) -> Level:
        """The score of the request's signs, beside what is usual."""
        return doubt.level(self.signs, self.usual)

    def heard(self) -> Chances | None:
        """How likely the request broke where, by calibrated models and words, and by what they say of the index where
        it was asked; None where words alone judge."""
        if self.reference == "oracle" or not (self.retrieved and self.packed and self.answered):
            return None
        found = chances(self.signs, left_out=self.left_out, cites=self.cites and self.signs.readable)
        odds = None if self.probe is None else self.probe.odds
        return found if found is None or odds is None else found.with_index(odds)


def judge_stages(case: Case) -> tuple[StageFinding, ...]:
    """The finding of each stage that applies, in the order of the path."""
    found = (_with_probe(_retrieval(case), case.probe), _ranking(case), _generation(case))
    return tuple(_with_doubt(each, case) for each in ((*found, _citation(case)) if case.cites else found))


def _with_doubt(found: StageFinding, case: Case) -> StageFinding:
    """The finding, whether the stage is in doubt by what no later stage can change, and whether the answer is far from
    its question.

    Faults of generation leave these shares of retrieval and ranking as they are, so that a rise in many requests tells
    where it began. The states do not: an answer may acquit, and one that declines may cast suspicion.
    """
    if found.state == "broken":
        doubted = True
    elif found.stage == "retrieval":
        doubted = case.reference != "oracle" and _is_retrieval_doubted(case, found)
    elif found.stage == "ranking":
        doubted = case.reference != "oracle" and _is_ranking_doubted(case)
    else:
        is_uneven = found.stage == "generation" and _is_generation_doubted(case, found)
        doubted = found.state == "suspected" or found.reason == "refused" or is_uneven
    return replace(found, doubted=doubted, distant=found.stage == "generation" and is_distant(case.signs, case.usual))


def _is_retrieval_doubted(case: Case, found: StageFinding) -> bool:
    if found.reason in ("facet_not_found", "corpus_gap") or (case.retrieved and case.is_empty):
        return True
    signs = case.before_answer
    if signs.packed_odds is not None:
        return max(signs.packed_odds, signs.packed_odds if signs.left_odds is None else signs.left_odds) < 0.0
    return _is_missed(case)


def _is_missed(case: Case) -> bool:
    """Whether what the retriever ranked first does not speak of the question, so that a match may be a near miss."""
    signs = case.before_answer
    return "MISSED" in usable(signs) and MISSED.level(signs, {}).is_suspected


def _held_back(case: Case) -> float:
    """How much more than its line a proof of a later stage needs, in log odds, for what the retriever ranked first: the
    less that speaks of the question, the likelier the evidence is not there and what follows is no fault of theirs."""
    signs = case.before_answer
    if not _is_missed(case):
        return 0.0
    return BESIDE * (MISSED.log_odds(signs) - (MISSED.lines.suspected or 0.0))


def _is_ranking_doubted(case: Case) -> bool:
    signs = case.before_answer
    if not (case.packed and case.left_out) or signs.left_match is None or signs.packed_match is None:
        return False
    if signs.packed_odds is not None and signs.left_odds is not None:
        return signs.left_odds > signs.packed_odds
    return _ranking_doubt(signs).level(signs, {}).is_suspected


def _is_generation_doubted(case: Case, found: StageFinding) -> bool:
    if found.reason in ("language", "not_recorded") or "GENERATION" not in usable(case.signs):
        return False
    heard = case.heard()
    if heard is not None:
        return heard.generation >= MAY_HAVE_BROKEN
    return GENERATION.log_odds(case.signs) >= UNEVEN


def _finding(stage: Stage, state: StageState, reason: str | None = None, *evidence: str) -> StageFinding:
    return StageFinding(stage=stage, state=state, reason=reason, evidence=evidence)


def _retrieval(case: Case) -> StageFinding:
    signs = case.signs
    if not case.retrieved:
        return _finding("retrieval", "not_known", "not_recorded")
    if case.reference == "oracle":
        absent = [
            f"evidence {loss.chunk_id} is not among the candidates{f'; {loss.reason}' if loss.reason else ''}"
            for loss in case.lost
            if loss.where == "retrieval"
        ]
        dropped = [f"the rewritten query dropped {_named(match)}" for match in case.facets if match.in_rewrite is False]
        return _finding("retrieval", "broken", None, *absent, *dropped) if absent else _finding("retrieval", "sound")
    unmet = [match for match in case.facets if is_certain(match) and match.match < FACET_MET and match.reason is None]
    gone = [match for match in unmet if match.in_rewrite is False]
    if gone and case.is_proven("rewrite"):
        lines = [
            f"the rewritten query dropped {_named(each)}, and no candidate meets it{_instead(each)}" for each in gone
        ]
        return _finding("retrieval", "broken", None, *lines)
    if case.is_empty:
        return _finding("retrieval", "suspected", "low_match", "the retriever returned nothing")
    if signs.pool_match is None:
        return _finding("retrieval", "not_known", "not_recorded" if not _has_texts(case) else "undecided")
    if unmet:
        lines = [f"no candidate meets {_named(match)}{_instead(match)}" for match in unmet]
        return _finding("retrieval", "suspected", "facet_not_found", *lines)
    if (heard := case.heard()) is not None:
        return _by_chance(heard, "retrieval", "refused" if signs.declined else "low_match", *_retrieval_lines(signs))
    if _is_matched(signs) or case.level(ACQUITTAL).is_sound:
        return _finding("retrieval", "sound")
    if case.level(RETRIEVAL).is_suspected:
        return _finding(
            "retrieval",
            "suspected",
            "refused" if signs.declined else "low_match",
            *_retrieval_lines(signs),
            *_term_lines(case),
        )
    return _finding("retrieval", "not_known", "refused" if signs.declined else "undecided")


def _by_chance(heard: Chances, stage: Stage, reason: str, *lines: str) -> StageFinding:
    """What calibrated models and words say of a stage that they do not prove broken."""
    chance = heard.of(stage)
    if chance >= MAY_HAVE_BROKEN:
        return _finding(stage, "suspected", reason, *lines, _chance_line(heard, stage))
    if chance <= UNLIKELY:
        return _finding(stage, "sound")
    return _finding(stage, "not_known", "refused" if reason == "refused" else "undecided")


def _chance_line(heard: Chances, stage: Stage) -> str:
    chance = heard.of(stage)
    return f"by models and words, {stage} broke in {chance:.0%} of such requests, and {heard.sound:.0%} are sound"


def _heard_margin(heard: Chances, stage: Stage) -> float:
    """By how much what models and words say of a stage lies above its lines of proof, in log odds."""
    broken = _odds_of(1 - heard.sound) - _odds_of(1 - STILL_SOUND)
    return min(broken, _odds_of(heard.of(stage)) - _odds_of(BROKE))


def is_lost(heard: Chances) -> bool:
    """Whether retrieval lies above the lines of proof, once the index was asked."""
    return _heard_margin(heard, "retrieval") >= 0.0


def _with_probe(found: StageFinding, probe: IndexProbe | None) -> StageFinding:
    """The state of retrieval, and what the index said when it was asked once more: evidence that the candidates lack
    proves a break; that nothing is better proves none, and makes a facet that nothing meets a gap of the corpus."""
    if probe is None or probe.outcome not in ("found", "nothing_better"):
        return found
    lines = (*found.evidence, *probe_lines(probe))
    if probe.cause is not None:
        return _finding("retrieval", "broken", None, *lines)
    if found.reason == "facet_not_found" and probe.outcome == "nothing_better" and probe.exact:
        told = (f"for the owners of the sources: {', '.join(probe.sources)}",) if probe.sources else ()
        return replace(found, reason="corpus_gap", evidence=(*lines, *told))
    return replace(found, evidence=lines)


def _ranking(case: Case) -> StageFinding:
    signs = case.signs
    if not case.packed:
        return _finding("ranking", "not_known", "not_recorded")
    if case.reference == "oracle":
        lost = [_loss_line(loss) for loss in case.lost if loss.where != "retrieval"]
        return _finding("ranking", "broken", None, *lost) if lost else _finding("ranking", "sound")
    heard = case.heard()
    if not case.left_out or (heard is None and _loses_nothing(case)):
        return _finding("ranking", "sound")
    if signs.left_match is None or signs.packed_match is None:
        return _finding("ranking", "not_known", "undecided" if _has_texts(case) else "not_recorded")
    if heard is not None:
        if case.is_proven("ranking", _ranking_margin(case)):
            return _finding("ranking", "broken", None, *_ranking_lines(case), _chance_line(heard, "ranking"))
        lines = _ranking_lines(case) if case.may_outrank else [*_ranking_lines(case), _NOT_SHOWN]
        return _by_chance(heard, "ranking", "refused" if signs.declined else "low_match", *lines)
    level = case.level(_ranking_doubt(signs))
    lines = _ranking_lines(case)
    is_better = _is_better(signs) or (signs.graded_lead is not None and _leads(signs))
    if case.is_proven("ranking", _ranking_margin(case)):
        return _finding("ranking", "broken", None, *lines)
    if level.is_suspected and (is_better or signs.declined):
        return _finding("ranking", "suspected", "low_match" if is_better else "refused", *lines)
    if case.reference == "proxy" and any(loss.where != "retrieval" for loss in case.lost):
        return _finding("ranking", "suspected", "low_match", *lines)
    if level.is_sound and not (signs.declined and not _is_behind(signs)):
        return _finding("ranking", "sound")
    return _finding("ranking", "not_known", "refused" if signs.declined else "undecided")


def _ranking_doubt(signs: Signs) -> DoubtModel:
    """What ranking is judged by: with the grades of the built-in judge of relevance where it was asked."""
    return RANKING if signs.graded_lead is None else GRADED


def _is_better(signs: Signs) -> bool:
    """Whether something outside of the prompt is better evidence than what it holds: by a model, else by words."""
    return _leads(signs) if signs.graded_lead is None else signs.graded_lead > 0.0


def _loses_nothing(case: Case) -> bool:
    """Whether all candidates stand whole in the prompt, or a chunk of it matches the question as none outside does."""
    return not case.left_out or (_is_matched(case.signs) and not _leads(case.signs))


def _ranking_margin(case: Case) -> float:
    """By how much ranking lies above its line of proof; -inf where what a proof needs besides is not there."""
    signs, heard = case.signs, case.heard()
    if heard is not None and case.left_out:
        return _heard_margin(heard, "ranking") if case.may_outrank else -math.inf
    if not case.packed or _loses_nothing(case) or signs.left_match is None or signs.packed_match is None:
        return -math.inf
    is_telling = _is_better(signs) and signs.asked >= WORDS and _speaks(signs)
    short = SHORT if signs.asked == WORDS else 0.0
    return case.level(_ranking_doubt(signs)).margin - _held_back(case) - short if is_telling else -math.inf


def proofs(case: Case) -> dict[str, float]:
    """The margin of each rule that would prove its stage broken, were its line low enough, by the name of the rule.

    So a line at most as high proves it, also one below 0, where the score alone would call the stage sound. A rule
    without a score has a margin of 0. None for requests with gold evidence, of which no line decides.
    """
    if case.reference == "oracle":
        return {}
    bare = replaced(case, raised=dict.fromkeys(RULES))  # nothing is proven: what is left are the other conditions
    found: dict[str, float] = {}
    if _retrieval(replaced(case, raised={})).state == "broken":
        found["rewrite"] = 0.0
    found["ranking"] = _ranking_margin(case)
    heard = case.heard()
    if heard is not None:
        if case.signs.declined or (_is_generation_judged(case) and not case.signs.hedged):
            found["generation"] = _heard_margin(heard, "generation")
    elif _is_generation_judged(case) and not case.signs.hedged:
        absence = _absence(bare)
        found["generation"] = _generation_margin(case, absence)
        if _is_altered_alone(case, absence):
            found["altered"] = 0.0
    if case.cites and case.signs.cited is not None and case.signs.readable:
        if _is_uncited(case):
            found["uncited"] = 0.0
        elif (margin := _miscited_margin(case)) is not None:
            found["miscited"] = margin
    return {rule: margin for rule, margin in found.items() if math.isfinite(margin)}


def _is_generation_judged(case: Case) -> bool:
    """Whether words can follow the answer and what it rests on."""
    signs = case.signs
    is_there = case.answered and case.packed and not signs.declined and signs.supported is not None
    return is_there and signs.readable and case.unjudged not in ("language", "no_evidence_text")


def _odds_of(share: float) -> float:
    """The log odds of a share; -inf of none, and finite of all."""
    inside = min(share, 1 - 1e-9)
    return math.log(inside / (1 - inside)) if inside > 0.0 else -math.inf


def _absence(case: Case) -> float:
    """How doubtful it is that the evidence is in the prompt, as far as question and chunks tell: 0 where they tell that
    it is, else by how much, in log odds, the doubt of retrieval lies above its line of soundness; inf where an earlier
    stage is broken or suspected. A break of generation needs the evidence in the prompt.

    What is usual for the service counts for nothing here, so that no traffic makes a suspicion of a break.
    """
    if case.reference == "oracle":
        return 0.0 if _retrieval(case).state == _ranking(case).state == "sound" else math.inf
    alone, doubted = replaced(case, usual={}), ("broken", "suspected")
    if _with_probe(_retrieval(alone), case.probe).state in doubted or _ranking(alone).state in doubted:
        return math.inf
    level = alone.level(RETRIEVAL)
    return 0.0 if _is_matched(case.signs) else max(0.0, level.odds - (level.lines.sound or 0.0))


def _generation_margin(case: Case, absence: float) -> float:
    """By how much generation lies above its line of proof; the more doubtful the evidence is, the more it needs."""
    sure = replaced(case, signs=_sure(case.signs))
    return sure.level(GENERATION).margin - (ABSENCE * absence if absence else 0.0) - _held_back(case)


def _is_altered_alone(case: Case, absence: float) -> bool:
    """Whether something surely stands otherwise in its place in a prompt that has the evidence, as far as can be told.

    A value that stands nowhere is no such thing: in registers that no rule was made on, half of them follow after all.
    """
    return absence <= LITTLE and _held_back(case) == 0.0 and _stands_otherwise(case.signs)


def _generation(case: Case) -> StageFinding:
    signs = case.signs
    if not case.answered or not case.packed:
        return _finding("generation", "not_known", "not_recorded")
    if case.is_unanswerable and (signs.declined or any(claim.factual for claim in case.claims)):
        return _unanswerable(case)
    heard = case.heard()
    if signs.declined:
        if heard is not None:
            return _refusal(case, heard)
        if case.reference == "oracle" and not case.lost:
            return _finding("generation", "broken", None, "the answer declines, and the evidence is in the prompt")
        state: StageState = "suspected" if case.reference != "oracle" and _is_matched(signs, REFUSED) else "not_known"
        return _finding("generation", state, "refused")
    if case.unjudged in ("language", "no_evidence_text") or not signs.readable:
        return _finding(
            "generation", "not_known", "not_recorded" if case.unjudged == "no_evidence_text" else "language"
        )
    if signs.supported is None:
        return _finding("generation", "not_known", "undecided")
    level, lines = case.level(GENERATION), _claim_lines(case.claims)
    if heard is not None:
        if case.is_proven("generation", _heard_margin(heard, "generation")) and not signs.hedged:
            if case.probe is not None and heard.unanswerable > heard.generation:
                lines.append(_NOWHERE)
            return _finding("generation", "broken", None, *lines, _chance_line(heard, "generation"))
        return _by_chance(heard, "generation", "contradicted" if signs.contradicted else "unsupported", *lines)
    absence = _absence(case)
    is_invented = case.is_proven("generation", _generation_margin(case, absence))
    is_altered = _is_altered_alone(case, absence) and case.is_proven("altered")
    is_told = (is_invented or is_altered) and not signs.hedged
    if is_told or (case.reference == "oracle" and not absence and _is_proven(signs)):
        return _finding("generation", "broken", None, *lines)
    if _is_altered(signs) or _has_one_thing_wrong(signs) or level.is_suspected:
        return _finding("generation", "suspected", "contradicted" if signs.contradicted else "unsupported", *lines)
    if level.is_sound and signs.supported >= SUPPORTED and not signs.unproven:
        return _finding("generation", "sound")
    return _finding("generation", "not_known", "undecided", *lines)


def _refusal(case: Case, heard: Chances) -> StageFinding:
    """Of an answer that declines, as models and words judge it: a break where the prompt holds what was asked for."""
    if case.is_proven("generation", _heard_margin(heard, "generation")):
        line = "the answer declines, and the evidence is in the prompt"
        return _finding("generation", "broken", None, line, _chance_line(heard, "generation"))
    return _by_chance(heard, "generation", "refused")


def _unanswerable(case: Case) -> StageFinding:
    """Of an answer to what no chunk answers: declining is right, and whatever is claimed instead is made up or beside
    the point, whether or not the prompt holds it."""
    if case.signs.declined:
        return _finding("generation", "sound")
    said = next(claim.text for claim in case.claims if claim.factual)
    line = f"no chunk answers the question, by its gold set, and the answer claims: {said}"
    return (
        _finding("generation", "suspected", "unsupported", line)
        if case.signs.hedged
        else _finding("generation", "broken", None, line)
    )


def _is_altered(signs: Signs) -> bool:
    """Whether one thing of a claim stands exchanged in its place; the place may be that of another line or version."""
    return (signs.contradicted or 0.0) >= SUPPORTED


def _has_one_thing_wrong(signs: Signs) -> bool:
    """Whether an answer is told in the prompt's words, but for a figure, date or name that stands nowhere and that no
    arithmetic gives, or something surely stands otherwise in its place there, in whatever words: but a negation, which
    words read least surely ("where that is not possible, a fence")."""
    is_odd = bool(signs.odd) and (signs.absent or 0) <= FEW_ABSENT and (signs.foreign or 0.0) <= OWN_WORDS
    return is_odd or _stands_otherwise(signs)


def _stands_otherwise(signs: Signs) -> bool:
    return (signs.exchanged or 0.0) >= OPPOSED


def _sure(signs: Signs) -> Signs:
    """The signs without the values that simple arithmetic may give though the answer does not tell that it reckons."""
    return replaced(signs, odd=(signs.odd or 0) - signs.reckoned) if signs.reckoned else signs


def _is_proven(signs: Signs) -> bool:
    """Whether the evidence proves an answer wrong, which is in the prompt: it is told in the prompt's own words with
    something exchanged in it, or a value of unknown origin."""
    is_copied = not signs.absent or (signs.altered or 0.0) >= COPIED
    return (is_copied and _is_altered(signs)) or (not signs.absent and bool(signs.odd))


def _citation(case: Case) -> StageFinding:
    signs = case.signs
    if signs.cited is None:
        return _finding("citation", "not_known", "refused" if signs.declined else "undecided")
    if not signs.readable:
        return _finding("citation", "not_known", "language")
    uncited = [claim for claim in case.claims if claim.factual and not any(mark.chunk_id for mark in claim.citations)]
    lines = [f"{_uncited(claim)}: “{claim.text}”" for claim in uncited]
    if _is_uncited(case):
        told = lines if _marks(case) else [*lines, _UNCITED]
        if case.is_proven("uncited"):
            return _finding("citation", "broken", None, *told)
        return _finding("citation", "suspected", "undecided", *told)
    heard = case.heard() if signs.miscited_odds else None
    miscited = signs.miscited or 0.0
    is_doubted = miscited >= MISCITED if heard is None else heard.citation >= MAY_HAVE_BROKEN
    if is_doubted and signs.wrong_citation:
        by_models = [] if heard is None else [_chance_line(heard, "citation")]
        lines = [signs.wrong_citation, *by_models, *lines]
    margin = _miscited_margin(case)
    if margin is not None and case.is_proven("miscited", margin):
        return _finding("citation", "broken", None, *lines)
    is_silent = signs.hedged and not _marks(case)  # who says what is not there has nothing to cite
    if (signs.cited < FEW_CITED and not is_silent) or is_doubted:
        return _finding("citation", "suspected", "unsupported" if signs.cited >= FEW_CITED else "undecided", *lines)
    if signs.cited >= CITED and (miscited < RIGHT if heard is None else heard.citation <= UNLIKELY):
        return _finding("citation", "sound")
    return _finding("citation", "not_known", "undecided", *lines)


def _miscited_margin(case: Case) -> float | None:
    """By how much, in log odds, wrong citations lie above their line of proof; None where no claim was compared."""
    signs = case.signs
    heard = case.heard() if signs.miscited_odds else None
    if heard is not None:
        return _heard_margin(heard, "citation")
    return _odds_of(signs.miscited) - _odds_of(SURE) if signs.miscited else None


def _marks(case: Case) -> list[Citation]:
    return [mark for claim in case.claims for mark in claim.citations]


def _is_uncited(case: Case) -> bool:
    """Whether the answer cites nothing at all, or nothing that is a chunk of the prompt."""
    signs, marks = case.signs, _marks(case)
    if marks:
        return case.resolves and not any(mark.chunk_id for mark in marks)
    if signs.rest_odds is not None and signs.rest_odds <= 0.0:
        return False  # by models it rests on nothing that answers the question: a courtesy, or a refusal in other words
    # who says what is not in the documents has nothing to cite for it
    return signs.cited == 0 and signs.citable >= CLAIMS and not signs.hedged


def _is_matched(signs: Signs, least: float = MATCHED) -> bool:
    """Whether a chunk of the prompt meets all facets, of which there are some, and speaks of the question."""
    has_facets = signs.packed_facets is not None and signs.packed_facets >= 1.0
    return has_facets and signs.packed_match is not None and signs.packed_match >= least


def _leads(signs: Signs) -> bool:
    """Whether some chunk outside of the prompt speaks better of the question, or meets more facets, than any in it."""
    return (signs.left_match or 0.0) - (signs.packed_match or 0.0) >= LEAD or _facets_lead(signs) >= LEAD


def _facets_lead(signs: Signs) -> float:
    """By how much of the facets a chunk outside of the prompt is ahead; below 0 without facets."""
    return (signs.left_facets or 0.0) - (1.0 if signs.packed_facets is None else signs.packed_facets)


def _speaks(signs: Signs) -> bool:
    """Whether what is outside of the prompt speaks of the question itself, by its words or by facets that it meets."""
    return (signs.left_match or 0.0) >= SPEAKS or _facets_lead(signs) >= LEAD


def _is_behind(signs: Signs) -> bool:
    """Whether the best chunk of the prompt speaks clearly better of the question than any outside of it."""
    return (signs.packed_match or 0.0) - (signs.left_match or 0.0) >= LEAD


def _has_texts(case: Case) -> bool:
    return case.unjudged != "no_evidence_text"


def is_certain(match: FacetMatch) -> bool:
    """Whether a facet is what the question requires: given by the host, or of a kind that is read with precision."""
    return match.facet.source != "query" or match.facet.kind in CERTAIN


def _named(match: FacetMatch) -> str:
    return f"the {match.facet.kind} “{match.facet.value}”"


def _instead(match: FacetMatch) -> str:
    """What is stated in the facet's place, where it is contradicted and not merely missing."""
    return f" ({match.contradicted_by} states {match.given})" if match.contradicted_by else ""


def _retrieval_lines(signs: Signs) -> list[str]:
    return [
        f"no candidate speaks of the question: the best has {signs.pool_match or 0.0:.0%} of its words in one place"
    ]


def _term_lines(case: Case) -> list[str]:
    unmet = [match for match in case.terms if match.match < FACET_MET and match.reason is None]
    return [f"no candidate states {', '.join(f'“{match.facet.value}”' for match in unmet)}"] if unmet else []


def _ranking_lines(case: Case) -> list[str]:
    """What speaks for something outside of the prompt: only that in which it is ahead."""
    signs, lines = case.signs, []
    where = "is cut in the prompt" if signs.left_chunk in case.cut else "is not in the prompt"
    outside = f"{signs.left_chunk or 'a candidate'}, which {where},"
    left, packed = signs.left_match or 0.0, signs.packed_match or 0.0
    if left - packed >= _SHOWN:
        lines.append(
            f"{outside} holds {left:.0%} of the question's words in one place; "
            f"the best chunk of the prompt {packed:.0%}"
        )
    left, packed = signs.left_facets or 0.0, 1.0 if signs.packed_facets is None else signs.packed_facets
    if left - packed >= _SHOWN:
        lines.append(
            f"a candidate that is not in the prompt{' or cut in it' if case.cut else ''} meets {left:.0%} of what the "
            "question requires; "
            f"the best chunk of the prompt {packed:.0%}"
        )
    if signs.left_odds is not None and signs.packed_odds is not None:
        by_model = signs.left_odds - signs.packed_odds
        place, there = ("outside of", f": {signs.left_judged}") if by_model > 0 else ("in", "")
        lines.append(f"a model of relevance finds the evidence {place} the prompt{there} (odds {_odds(by_model)})")
    if signs.graded_lead is not None and signs.graded_lead > 0.0:
        lines.append(
            f"the built-in judge grades {signs.left_graded}, which is not whole in the prompt, above every chunk of it "
            f"(by {signs.graded_lead:.1f} in log odds)"
        )
    lines += [_loss_line(loss) for loss in case.lost if loss.where != "retrieval"]
    return lines or [f"{outside} speaks of the question as much as any chunk of the prompt"]


def _odds(log: float) -> str:
    return f"{math.exp(abs(log)):.0f} to 1"


def _loss_line(loss: LostChunk) -> str:
    known = "; ".join(filter(None, (_ranks(loss), loss.reason)))
    return f"evidence {loss.chunk_id} was lost in {loss.where} ({known})"


def _ranks(loss: LostChunk) -> str:
    """The ranks that are known; without one after it, the loss's reason says whether there was a reranker."""
    if loss.rank_before is None:
        return ""
    after = f", {loss.rank_after} after" if loss.rank_after else ""
    return f"rank {loss.rank_before} before rerank{after}" if after else f"rank {loss.rank_before}"


def _claim_lines(claims: Sequence[Claim]) -> list[str]:
    factual = [claim for claim in claims if claim.factual]
    against = [claim for claim in factual if (claim.contradiction or 0) >= SUPPORTED]
    lines = [f"“{claim.text}” contradicts {claim.best_chunk} ({claim.reason})" for claim in against]
    for claim in factual:
        if claim not in against and (claim.support or 0) < SUPPORTED:
            weak = "not" if claim.layer == ENTAILMENT else "weakly"
            other = claim.unselected_chunk
            where = f", but supported by {other}, which it does not hold in full" if other else ""
            why = f" ({claim.reason})" if claim.reason else ""
            lines.append(f"{weak} supported by the prompt{where}: “{claim.text}”{why}")
    return lines


def _uncited(claim: Claim) -> str:
    dangling = dict.fromkeys(mark.marker for mark in claim.citations)
    return f"{', '.join(dangling)} names no chunk of the prompt" if dangling else "no citation"
