"""Records what a host's pipeline does: decorators, context managers, and the guard around them."""

from ragtrace.record import threads
from ragtrace.record.carriers import extract, inject
from ragtrace.record.content import ContentPolicy, scrub
from ragtrace.record.current import Request, current_request
from ragtrace.record.held import held, held_settings
from ragtrace.record.judgements import feedback, flag
from ragtrace.record.recorder import Draft, Recorder, Sink, active, close_overdue, install
from ragtrace.record.sampling import new_request_id
from ragtrace.record.sources import source_report
from ragtrace.record.verbs import generate, pack, request, rerank, retrieve

__all__ = [
    "ContentPolicy",
    "Draft",
    "Recorder",
    "Request",
    "Sink",
    "active",
    "close_overdue",
    "current_request",
    "extract",
    "feedback",
    "flag",
    "generate",
    "held",
    "held_settings",
    "inject",
    "install",
    "new_request_id",
    "pack",
    "request",
    "rerank",
    "retrieve",
    "scrub",
    "source_report",
    "threads",
]
