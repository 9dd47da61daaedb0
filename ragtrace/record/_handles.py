"""Handles: the running request as the host sees it, and what it gets from `with ragtrace.retrieve(...) as run`: one
method per stage, which takes its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ragtrace.record._recorder import active
from ragtrace.record._recording import Recording
from ragtrace.record.guard import guarded
from ragtrace.record.requests import RequestRecording, current_recording, read_flags
from ragtrace.record.stages import StageRecording
from ragtrace.types import Facet, SampledRanking

__all__ = ["GenerationHandle", "PackingHandle", "Request", "RerankingHandle", "RetrievalHandle", "current_request"]


class Request:
    """A running request, as the host sees it.

    Where nothing is recorded (ragtrace is not configured, or no request runs) `recording` is False, `request_id` is
    empty and all methods do nothing, so that no host needs to ask first.
    """

    __slots__ = ("_recording", "request_id", "trace_id")

    def __init__(self, recording: RequestRecording | None = None) -> None:
        self._recording = recording
        self.request_id: str = recording.request_id if recording is not None else ""
        self.trace_id: str | None = recording.trace_id if recording is not None else None

    @property
    def recording(self) -> bool:
        """Whether what is set now still reaches the record."""
        return self._recording is not None and not self._recording.ended

    def set(
        self,
        *,
        query: str | None = None,
        rewritten: str | None = None,
        query_class: str | None = None,
        segment: str | None = None,
        facets: Iterable[Facet | Mapping[str, Any]] | None = None,
        tenant_id: str | None = None,
        session_id: str | None = None,
        versions: Mapping[str, str] | None = None,
        cites: bool | None = None,
        sampled_ranking: SampledRanking | Mapping[str, Any] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        """Add what becomes known during the request; `versions` and `attributes` merge, all else replaces.

        cites: whether the request's answer is meant to cite its sources; by default that is learned from what the
        application's answers do.
        sampled_ranking: where the order of the candidates was drawn at random: the `alpha` and `log_probability` of
        its first `places`, as `ragtrace.exposure` gives them.
        """
        values = {
            "query": query, "rewritten": rewritten, "query_class": query_class, "segment": segment, "facets": facets,
            "tenant_id": tenant_id, "session_id": session_id, "versions": versions, "cites": cites,
            "sampled_ranking": sampled_ranking, "attributes": attributes,
        }  # fmt: skip
        self._update("request.set", values)

    def flag(self, name: str) -> None:
        """Keep this request whatever the sample rate, and say why: `flag("empty_answer")`; also after its end."""
        recording = self._recording
        if recording is None:
            return
        if not recording.ended:
            self._update("request.flag", {"flag": name})
        if not recording.ended:
            return
        with guarded("request.flag", recording.recorder.guard):
            recording.recorder.sink.flag(recording.request_id, tuple(read_flags(name)))

    def grade(self, grades: Mapping[str, Any] | None = None, *, action: str | None = None) -> None:
        """What the host's own evaluator says of what was retrieved, as corrective retrieval does.

        grades: by chunk id, each from −1 (irrelevant) to 1, or a yes or no; several calls add up. action: what was done
        then: CORRECT (gone on with it), AMBIGUOUS (searched as well) or INCORRECT (searched instead).
        """
        self._update("request.grade", {"graded": {"grades": grades, "action": action}})

    def _update(self, where: str, values: Mapping[str, Any]) -> None:
        recording = self._recording
        if recording is None:
            return
        guard = recording.recorder.guard
        if recording.ended:
            guard.count(where, "ended", "the request has ended; set before it returns")
            return
        with guarded(where, guard):
            recording.update(values)


_NOT_RECORDED: Final = Request()


def current_request() -> Request:
    """The request that runs here: `ragtrace.current_request().flag("fallback")`. Never None."""
    recorder = active()
    recording = current_recording(recorder) if recorder is not None else None
    return Request(recording) if recording is not None else _NOT_RECORDED


class _Handle:
    """Passes a result to its recording; without one it does nothing."""

    __slots__ = ("_recording",)

    def __init__(self, recording: Recording | None = None) -> None:
        self._recording = recording

    def _accept(self, value: Any) -> None:
        if self._recording is not None:
            self._recording.accept(value)


class _GradedHandle(_Handle):
    """A call that returns candidates, which the host may grade."""

    __slots__ = ()

    def grade(self, grades: Mapping[str, Any] | None = None, *, action: str | None = None) -> None:
        """As `current_request().grade`."""
        if isinstance(self._recording, StageRecording):
            Request(self._recording.request).grade(grades, action=action)


class RetrievalHandle(_GradedHandle):
    """A retriever call in a `with` block."""

    def candidates(self, hits: Any) -> None:
        """What the retriever returned, best first."""
        self._accept(hits)


class RerankingHandle(_GradedHandle):
    """A reranker call in a `with` block."""

    def candidates(self, hits: Any) -> None:
        """What the reranker returned, best first."""
        self._accept(hits)


class PackingHandle(_Handle):
    """A packing in a `with` block."""

    def packed(self, chunks: Any) -> None:
        """The packed chunks in prompt order, or a mapping of `chunks`, `dropped`, `prompt`, or the prompt alone."""
        self._accept(chunks)


class GenerationHandle(_Handle):
    """A generator call in a `with` block."""

    def answer(self, answer: Any) -> None:
        """The answer, or the response that holds it."""
        self._accept(answer)
