"""Records what a host's pipeline does: decorators, context managers, and the guard around them."""

from ragtrace.record.carriers import extract, follow_thread_pools, inject, unfollow_thread_pools
from ragtrace.record.content import ContentPolicy, scrub
from ragtrace.record.handles import Request, current_request
from ragtrace.record.recorder import Draft, Recorder, Sink, active, close_overdue, held, held_settings, install
from ragtrace.record.reports import feedback, flag, source_report
from ragtrace.record.sampling import new_request_id
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
    "follow_thread_pools",
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
    "unfollow_thread_pools",
]
