"""The words for verdicts, states and reasons: what a report, an alert, a dashboard and a page call them.

Verdicts and states are closed lists. A reason is one of those of `ragtrace.analyze._stage_states.REASONS`; each has a
noun for what was seen. What would let more be judged stands in `ragtrace.analyze.services`.
"""

from __future__ import annotations

from typing import Final

from ragtrace.types import IndexProbe, ProbeCause, ProbedChunk, StageState

__all__ = [
    "CAUSES",
    "FIXES",
    "PROBE_CAUSES",
    "REASONS",
    "STATES",
    "VERDICTS",
    "cause_words",
    "probe_lines",
    "reason_words",
    "release_words",
]

VERDICTS: Final[dict[str, str]] = {
    "healthy": "healthy",
    "no_break_found": "no break found",
    "no_retrieval_needed": "no retrieval needed",
    "error": "error",
    "recall_failure": "recall failure",
    "selection_failure": "selection failure",
    "grounding_failure": "grounding failure",
    "citation_failure": "citation failure",
}

STATES: Final[dict[StageState, str]] = {
    "sound": "sound",
    "broken": "broken",
    "suspected": "suspected",
    "not_known": "not known",
}

REASONS: Final[dict[str, str]] = {
    "corpus_gap": "a required fact that nothing in the index holds",
    "facet_not_found": "a required fact that no candidate holds",
    "low_match": "words that do not match the question",
    "unsupported": "claims weakly supported by the prompt",
    "contradicted": "claims that the prompt seems to contradict",
    "refused": "an answer that declines",
    "not_recorded": "texts that were not recorded",
    "language": "data, or a language other than English",
    "undecided": "no proof either way",
}
"""Why a stage is suspected or not known, as nouns that fit behind a colon."""

_OF_MANY: Final = {"distant": "answers far from their questions"}
_OF_STAGE: Final = {("ranking", "low_match"): "a better match outside of the prompt"}


def reason_words(reason: str | None, stage: str | None = None) -> str:
    """What was seen, as a noun: `words that do not match the question`. A reason of a later version is spelled out."""
    if reason is None:
        return REASONS["undecided"]
    return _OF_STAGE.get((stage or "", reason)) or (REASONS | _OF_MANY).get(reason) or reason.replace("_", " ")


PROBE_CAUSES: Final[dict[ProbeCause, str]] = {
    "not_indexed": "is not in the index",
    "missed_by_search": "was missed by the approximate search",
    "below_depth": "ranks below the depth asked for",
    "filtered": "was removed by a filter",
}
"""What a probe says of a chunk that is not among the candidates, behind its id."""

CAUSES: Final[dict[str, str]] = {
    "not_indexed": "not indexed",
    "missed_by_search": "missed by the approximate search",
    "below_depth": "below the depth asked for",
    "filtered": "removed by a filter",
    "returned_before": "not found, though this version of the index returned it before",
    "absent_from_candidates": "not among the candidates",
    "absent_from_index": "not among the candidates",  # results of versions before 9, which had not asked the index
    "lost_in_rewrite": "dropped by the rewritten query",
    "unsupported": "weakly supported",
}
"""The words for the causes of a broken retrieval, and for those of other stages that are not their ids."""

FIXES: Final[dict[str, str]] = {
    "not_indexed": "Index it: look for its document in the ingestion's logs and in `ragtrace source list`, ingest it "
    "again, and compare the chunks of both builds (`ragtrace drift`).",
    "missed_by_search": "Search more of the index: raise nprobe (IVF) or efSearch (HNSW), or build it anew with more "
    "links; measure its recall against an exact search.",
    "below_depth": "Ask deeper: raise top_k, and let a reranker bring the evidence up; a better embedding or query is "
    "the lasting fix.",
    "filtered": "Mend the filter: compare its condition with the metadata of the chunk, which may be wrong, too. Leave "
    "it where it guards permissions.",
    "returned_before": "The index holds it: look at the query, its rewrite and its embedding, and at the search's "
    "settings. A probe names the cause (docs/runbooks/retrieval.md, step 3).",
    "absent_from_candidates": "Ask the index with a probe (docs/runbooks/retrieval.md, step 3): it tells whether the "
    "evidence is not indexed, was missed, ranks too low, or was removed by a filter.",
    "lost_in_rewrite": "Keep what the question requires in the rewritten query.",
}
"""What to do about a cause of a broken retrieval."""


def cause_words(cause: str | None) -> str:
    """A cause as people read it."""
    return "unknown" if cause is None else CAUSES.get(cause) or cause.replace("_", " ")


def release_words(release: str, prompt: str | None = None) -> str:
    """A release, `component=version`, as people read it: what a hash of the prompt says, and which prompt that was.

    prompt: the version of the component `prompt` that was in use; None where it is not known.
    """
    if not release.startswith("prompt_hash="):
        return release
    named = f"; prompt={prompt} was in use" if prompt else ""
    return f"{release} (the prompt template changed{named})"


def probe_lines(probe: IndexProbe) -> tuple[str, ...]:
    """What a probe found, a line for each chunk: which one, why the candidates lack it, and by which ranks."""
    if probe.outcome == "failed":
        return (f"the probe failed ({probe.why})",)
    if probe.outcome == "another_version":
        now = probe.index_version
        return (f"the probe tells nothing: {probe.why}, and it asks {now}",)
    if probe.outcome == "other_search":
        return ("the probe tells nothing: it does not return what the application's search returned",)
    if probe.outcome == "nothing_better":
        how = "an exact search" if probe.exact else "the search, asked deeper,"
        what = "lacks nothing that is needed" if probe.by_gold else "finds nothing better"
        return (f"{how} of {probe.asked} candidates in place of {probe.depth} {what}",)
    return tuple(_probed(chunk, probe) for chunk in probe.chunks)


def _probed(chunk: ProbedChunk, probe: IndexProbe) -> str:
    if chunk.cause is None:
        why = (
            f"is returned at rank {chunk.rank} today; why not then is not known"
            if chunk.rank is not None and chunk.rank <= probe.depth
            else "is not among the candidates, and the probe cannot tell why"
        )
    else:
        why = PROBE_CAUSES[chunk.cause]
    said = [f"rank {chunk.exact_rank} of an exact search" if chunk.exact_rank else ""]
    said.append(f"rank {chunk.rank} of the same search, asked for {probe.asked}" if chunk.rank else "")
    said.append(f"asked for {probe.depth}" if chunk.cause == "below_depth" else "")
    said.append(f"it meets the {chunk.facet}" if chunk.facet else "")
    said.append(f"it holds {chunk.match:.0%} of the question's words in one place" if chunk.match is not None else "")
    known = "; ".join(filter(None, said))
    return f"{chunk.chunk_id} {why}" + (f" ({known})" if known else "")
