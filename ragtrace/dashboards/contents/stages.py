"""The dashboards of the four stages.

Retrieval: do the candidates hold what the question requires, and how deep must one read to find it? Ranking: does the
evidence that was found reach the prompt, and where is the rest lost? Generation: does the prompt support what the
answer claims? Citation: are the claims cited, and do the cited chunks support them?
"""

from __future__ import annotations

from typing import Final

from ragtrace.dashboards._panels import (
    Dashboard,
    Panel,
    PanelSection,
    Target,
    commands,
    distribution,
    durations,
    means,
    over_time,
    quantiles,
    shares_over_time,
    sound_by_segment,
    sound_now,
    stage_of,
    states,
    undefined,
    versions_in_use,
    with_others,
)
from ragtrace.dashboards._promql import RANGE, WINDOW, increase, mean, rate, share, share_upto
from ragtrace.registry import StageInfo
from ragtrace.registry.instruments import (
    ANSWER_COVERAGE,
    ANSWER_RELEVANCE,
    BEST_RELEVANCE,
    CANDIDATE_RECALL,
    CHUNK_DRIFT,
    CITATION_COVERAGE,
    CITATION_PRECISION,
    CITATION_RECALL,
    CLAIM_SUPPORT,
    CONTRADICTION_RATE,
    DANGLING_CITATIONS,
    EVIDENCE_DEPTH,
    EVIDENCE_OVERLAP,
    EVIDENCE_PRECISION,
    EVIDENCE_PRESENCE,
    EVIDENCE_RECALL,
    EVIDENCE_TOKEN_SHARE,
    GRADED_ANSWERS,
    HOST_ACTIONS,
    HOST_RELEVANCE,
    INSTRUMENTS,
    JOINT_QUERY_COVERAGE,
    LOST_EVIDENCE,
    QUERY_COVERAGE,
    RANK_SHIFT,
    RETRIEVAL_ACTIONS,
    TRUNCATED_TOKENS,
)

__all__ = ["CITATION", "GENERATION", "RANKING", "RETRIEVAL"]


def _dashboard(stage: StageInfo, title: str, question: str, *sections: PanelSection) -> Dashboard:
    scores = [one for one in INSTRUMENTS.values() if one.analysis == "coverage" and one.stage == stage.name]
    return Dashboard(
        uid=f"ragtrace-{stage.name}",
        title=f"ragtrace: {title}",
        description=f"{question} Owner: {stage.owner}.",
        sections=(*with_others(sections, scores), commands()),
    )


_RETRIEVAL_STAGE: Final = stage_of("retrieval")

_DEPTH: Final = shares_over_time(
    "Recall by candidate depth",
    "Share of the requests whose whole reference evidence stands among the first candidates, best first. "
    "Depths far apart: the evidence is found but ranked low. All depths low: it is not found at all.",
    *(
        Target(
            share_upto(EVIDENCE_DEPTH, depth, "reference", of=CANDIDATE_RECALL), f"first {depth:g} ({{{{reference}}}})"
        )
        for depth in EVIDENCE_DEPTH.buckets
    ),
)

_DRIFT: Final = over_time(
    "Chunks that the newest index holds differently",
    f"{CHUNK_DRIFT.brief} Rewritten: gold sets name evidence that has changed. Renumbered: gold sets and "
    "stored citations name ids that are gone. `ragtrace drift` lists them.",
    Target(increase(CHUNK_DRIFT, "kind", window="$__rate_interval"), "{{kind}}"),
    kind="stacked",
    empty="It stays empty until chunks are found under two versions of an index.",
)

_GRADED: Final = (
    "It fills where `ragtrace analyze --judge relevant=MODEL`, or the application itself, grades what was retrieved."
)


def _of_actions(*by: str, action: str) -> str:
    """The share of the graded requests of the random stratum that have this action."""
    return share(
        increase(RETRIEVAL_ACTIONS, *by, window=WINDOW, stratum="random", action=action),
        increase(RETRIEVAL_ACTIONS, *by, window=WINDOW, stratum="random"),
    )


def _right(*by: str, window: str, **labels: str) -> str:
    """The share of the graded answers that are good, of those of which the verdict tells."""
    return share(
        increase(GRADED_ANSWERS, *by, window=window, result="good", **labels),
        increase(GRADED_ANSWERS, *by, window=window, **labels),
    )


_ACTIONS: Final = shares_over_time(
    "Actions of corrective retrieval",
    f"{RETRIEVAL_ACTIONS.brief} Shares of the requests that were drawn at random.",
    *(Target(_of_actions(action=action), action) for action in ("CORRECT", "AMBIGUOUS", "INCORRECT")),
    empty=_GRADED,
)

_INCORRECT: Final = shares_over_time(
    "Graded INCORRECT, by segment",
    f"{RETRIEVAL_ACTIONS.brief} Where the share grows, retrieval gives the generator nothing to answer from.",
    Target(_of_actions("segment", action="INCORRECT"), "{{segment}}", exemplar=True),
    empty=_GRADED,
)

_DISAGREES: Final = shares_over_time(
    "The host's corrective step takes another action, by segment",
    f"{HOST_ACTIONS.brief} Either the step does not do what its grades say, or its thresholds are others.",
    Target(
        share(
            increase(HOST_ACTIONS, "segment", window=WINDOW, stratum="random", result="bad"),
            increase(HOST_ACTIONS, "segment", window=WINDOW, stratum="random"),
        ),
        "{{segment}}",
        exemplar=True,
    ),
    width=24,
    empty="It fills where the application records its action: `request.grade(..., action=...)`.",
)

_RIGHT_BY_ACTION: Final = shares_over_time(
    "Right answers, by action",
    f"{GRADED_ANSWERS.brief} A grade is worth something where CORRECT stands high above INCORRECT.",
    Target(_right("action", window=WINDOW), "{{action}}"),
    empty=_GRADED,
)

_TRUSTED: Final = Panel(
    title="Questions whose retrieval is graded CORRECT: right answers",
    kind="table",
    description=f"{GRADED_ANSWERS.brief} Types of questions with the fewest right answers are confidently wrong: the "
    "grade sees nothing of what goes wrong there.",
    unit="percentunit",
    targets=(Target(_right("service", "question_type", window=RANGE, action="CORRECT"), "right"),),
    width=12,
    key=("service", "question_type"),
    decimals=1,
    empty=_GRADED,
)

RETRIEVAL: Final = _dashboard(
    _RETRIEVAL_STAGE,
    "retrieval",
    "Do the candidates hold what the question requires?",
    PanelSection("Objective", (sound_now(_RETRIEVAL_STAGE), sound_by_segment(_RETRIEVAL_STAGE))),
    PanelSection("How much is known", states(_RETRIEVAL_STAGE)),
    PanelSection(
        "What is missing",
        (
            means("Coverage of the question", (QUERY_COVERAGE, JOINT_QUERY_COVERAGE)),
            distribution(QUERY_COVERAGE),
            _DEPTH,
            means("Evidence among the candidates, known and estimated", (CANDIDATE_RECALL, EVIDENCE_PRESENCE)),
        ),
    ),
    PanelSection(
        "What a judge of relevance says",
        (
            _ACTIONS,
            _INCORRECT,
            _RIGHT_BY_ACTION,
            _TRUSTED,
            _DISAGREES,
            means("Best candidate, by judge and application", (BEST_RELEVANCE, HOST_RELEVANCE), empty=_GRADED),
            distribution(BEST_RELEVANCE, empty=_GRADED),
        ),
    ),
    PanelSection("What changed", (versions_in_use("retrieval"), _DRIFT)),
    PanelSection("How it runs", (durations("retrieve"), undefined(QUERY_COVERAGE, CANDIDATE_RECALL, EVIDENCE_DEPTH))),
)


_RANKING_STAGE: Final = stage_of("ranking")

_LOST: Final = over_time(
    "Lost evidence, by place",
    f"{LOST_EVIDENCE.brief} `retrieval`: never found; `rerank`: dropped or sunk; `packing`: left out of "
    "the prompt; `truncation`: cut off.",
    Target(f"60 * {rate(LOST_EVIDENCE, 'where', 'reference')}", "{{where}} ({{reference}})", exemplar=True),
    kind="stacked",
    unit="cpm",
    empty="It stays empty as long as all reference evidence reaches the prompt.",
)

_GAP: Final = shares_over_time(
    "Found, and kept",
    "Mean share of the reference evidence among the candidates, and of that which stands whole in the "
    "prompt. The gap between the two is what reranking and packing lost.",
    Target(mean(CANDIDATE_RECALL, "reference"), "among the candidates ({{reference}})"),
    Target(mean(EVIDENCE_RECALL, "reference"), "in the prompt ({{reference}})", exemplar=True),
)

_TRUNCATED: Final = shares_over_time(
    "Prompts in which chunks were cut",
    f"{TRUNCATED_TOKENS.brief} Share of the prompts that lost at least one token.",
    Target(f"1 - {share_upto(TRUNCATED_TOKENS, 0, 'segment')}", "{{segment}}"),
    empty="It fills when packed chunks carry their token counts.",
)

RANKING: Final = _dashboard(
    _RANKING_STAGE,
    "ranking and packing",
    "Does the evidence that was found reach the prompt?",
    PanelSection("Objective", (sound_now(_RANKING_STAGE), sound_by_segment(_RANKING_STAGE))),
    PanelSection("How much is known", states(_RANKING_STAGE)),
    PanelSection(
        "Where it is lost",
        (
            _LOST,
            _GAP,
            distribution(RANK_SHIFT),
            quantiles(RANK_SHIFT, title="Rank shift of the reference evidence"),
        ),
    ),
    PanelSection(
        "What the prompt is spent on",
        (
            _TRUNCATED,
            distribution(TRUNCATED_TOKENS, empty="It fills when packed chunks carry their token counts."),
            means("Prompt tokens that the evidence got", (EVIDENCE_TOKEN_SHARE,)),
            means("Overlap of the prompt and the evidence", (EVIDENCE_OVERLAP, EVIDENCE_PRECISION)),
        ),
    ),
    PanelSection("What changed, and how it runs", (versions_in_use("ranking"), durations("rerank", "pack"))),
    PanelSection("Undefined scores", (undefined(EVIDENCE_RECALL, RANK_SHIFT, EVIDENCE_TOKEN_SHARE, width=24),)),
)


_GENERATION_STAGE: Final = stage_of("generation")

_TREND: Final = over_time(
    "Contradicted claims, and in the time before",
    f"{CONTRADICTION_RATE.brief} Mean over requests, beside the same in the range before this one: "
    "growth, not "
    "level, points at a release.",
    Target(mean(CONTRADICTION_RATE), "now", exemplar=True),
    Target(mean(CONTRADICTION_RATE, offset=RANGE), "the range before"),
    unit="percentunit",
)

_UNSUPPORTED: Final = shares_over_time(
    "Weakly supported claims",
    f"{CLAIM_SUPPORT.brief} Share of the claims whose support is at most one half, by segment: people call "
    "a third of them unsupported.",
    Target(share_upto(CLAIM_SUPPORT, 0.5, "segment"), "{{segment}}"),
)

GENERATION: Final = _dashboard(
    _GENERATION_STAGE,
    "generation",
    "Does the prompt support what the answer claims?",
    PanelSection("Objective", (sound_now(_GENERATION_STAGE), sound_by_segment(_GENERATION_STAGE))),
    PanelSection("How much is known", states(_GENERATION_STAGE)),
    PanelSection(
        "What the prompt says of the claims",
        (
            distribution(CLAIM_SUPPORT, title="Support of claims: distribution"),
            _UNSUPPORTED,
            _TREND,
            means("Support of answers", (ANSWER_COVERAGE,)),
        ),
    ),
    PanelSection(
        "Whether it answers the question",
        (
            distribution(ANSWER_RELEVANCE, title="Relevance of answers: distribution"),
            means("Relevance of answers", (ANSWER_RELEVANCE,)),
        ),
    ),
    PanelSection("What changed, and how it runs", (versions_in_use("generation"), durations("generate"))),
    PanelSection("Undefined scores", (undefined(ANSWER_COVERAGE, CONTRADICTION_RATE, ANSWER_RELEVANCE, width=24),)),
)


_CITATION_STAGE: Final = stage_of("citation")
_CITES: Final = "It fills when answers cite: a service that never cited is not judged by its citations."

_DANGLING: Final = shares_over_time(
    "Answers that cite what is not in the prompt",
    f"{DANGLING_CITATIONS.brief} Share of the answers with at least one, by segment.",
    Target(f"1 - {share_upto(DANGLING_CITATIONS, 0, 'segment')}", "{{segment}}"),
)

CITATION: Final = _dashboard(
    _CITATION_STAGE,
    "citation",
    "Are the claims cited, and do the cited chunks support them?",
    PanelSection(
        "Objective", (sound_now(_CITATION_STAGE, empty=_CITES), sound_by_segment(_CITATION_STAGE, empty=_CITES))
    ),
    PanelSection("How much is known", states(_CITATION_STAGE, empty=_CITES)),
    PanelSection(
        "Are the citations right?",
        (
            means("Citations that support, claims that are cited", (CITATION_PRECISION, CITATION_RECALL)),
            _DANGLING,
            distribution(CITATION_COVERAGE),
            distribution(CITATION_PRECISION),
        ),
    ),
    PanelSection("What changed", (versions_in_use("citation"), undefined(CITATION_COVERAGE, CITATION_PRECISION))),
)
