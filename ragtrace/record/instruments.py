"""One instrument per stage: which inputs it looks for, what it records, what the host gets in a `with` block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, TypeVar

from ragtrace.record import handles
from ragtrace.record.arguments import Slot
from ragtrace.record.baggage import put_baggage
from ragtrace.record.current import Request
from ragtrace.record.decorators import Instrument
from ragtrace.record.joined import JoinedRecording
from ragtrace.record.rankings import RerankRecording, RetrieveRecording
from ragtrace.record.recorder import Recorder
from ragtrace.record.recording import Recording
from ragtrace.record.requests import RequestRecording, current_recording
from ragtrace.record.stages import GenerateRecording, PackRecording, StageRecording

__all__ = [
    "GenerateInstrument",
    "PackInstrument",
    "RequestInstrument",
    "RerankInstrument",
    "RetrieveInstrument",
]

H = TypeVar("H")

_QUERY: Final = Slot(
    ("query", "question", "q", "user_query", "search_query", "query_text", "text", "prompt", "message", "input"), (str,)
)
_CANDIDATES: Final = Slot(
    ("candidates", "documents", "docs", "hits", "results", "chunks", "nodes", "passages", "ranked", "items"),
    (list, tuple),
)
_LABEL: Final = Slot(is_label=True)


class RequestInstrument(Instrument[Request]):
    """Records requests."""

    operation = "request"
    slots: ClassVar[Mapping[str, Slot]] = {
        "query": _QUERY,
        "query_class": _LABEL,
        "segment": _LABEL,
        "facets": Slot(),
        "tenant_id": _LABEL,
        "session_id": _LABEL,
        "request_id": _LABEL,
        "flag": _LABEL,
        "cites": Slot(),
    }

    def record(self, recorder: Recorder, name: str, inputs: Mapping[str, Any]) -> Recording:
        """A request; inside of another one, a part of that."""
        values = {**inputs, "versions": self.versions}
        request_id = values.pop("request_id", None)
        outer = current_recording(recorder)
        if outer is not None:
            known = {
                "query": outer.query,
                "segment": outer.segment,
                "query_class": outer.query_class,
                "cites": outer.cites,
            }
            outer.update({key: value for key, value in values.items() if known.get(key) is None})
            return JoinedRecording(recorder, name, outer)
        recording = RequestRecording(recorder, name, None if request_id is None else str(request_id) or None)
        recording.update(values)
        if recorder.config.baggage:
            put_baggage(recording)
        return recording

    def handle(self, recording: Recording | None) -> Request:
        """The request."""
        if isinstance(recording, JoinedRecording):
            return Request(recording.outer)
        return Request(recording if isinstance(recording, RequestRecording) else None)


class _StageInstrument(Instrument[H]):
    """Records runs of one stage."""

    recording: type[StageRecording]
    handle_type: Callable[[Recording | None], H]

    def record(self, recorder: Recorder, name: str, inputs: Mapping[str, Any]) -> Recording:
        """A run of the stage."""
        recording = self.recording(recorder, name, inputs, self.given)
        if self.versions is not None:
            recording.request.update({"versions": self.versions})
        return recording

    def handle(self, recording: Recording | None) -> H:
        """What takes the stage's result."""
        return self.handle_type(recording)


class RetrieveInstrument(_StageInstrument[handles.Retrieval]):
    """Records retriever calls."""

    operation = "retrieve"
    recording = RetrieveRecording
    handle_type = handles.Retrieval
    slots: ClassVar[Mapping[str, Slot]] = {
        "query": _QUERY,
        "top_k": Slot(("top_k", "k", "limit", "n_results", "num_results")),
        "source": _LABEL,
    }


class RerankInstrument(_StageInstrument[handles.Reranking]):
    """Records reranker calls."""

    operation = "rerank"
    recording = RerankRecording
    handle_type = handles.Reranking
    slots: ClassVar[Mapping[str, Slot]] = {"candidates": _CANDIDATES}


class PackInstrument(_StageInstrument[handles.Packing]):
    """Records packings."""

    operation = "pack"
    recording = PackRecording
    handle_type = handles.Packing
    slots: ClassVar[Mapping[str, Slot]] = {
        "candidates": _CANDIDATES,
        "budget": Slot(("budget", "budget_tokens", "token_budget", "max_tokens", "max_context_tokens")),
    }


class GenerateInstrument(_StageInstrument[handles.Generation]):
    """Records generator calls."""

    operation = "generate"
    recording = GenerateRecording
    handle_type = handles.Generation
    slots: ClassVar[Mapping[str, Slot]] = {
        "model": Slot(("model", "model_name"), is_label=True),
        "prompt": Slot(("prompt", "messages")),
    }
