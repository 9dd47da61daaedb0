"""Records what a host's pipeline does: decorators, context managers, and the guard around them."""

from ragtrace.record._carriers import extract, follow_thread_pools, inject, unfollow_thread_pools
from ragtrace.record._recorder import (
    Draft,
    Recorder,
    Sink,
    active,
    close_overdue,
    held,
    held_settings,
    install,
    new_request_id,
)
from ragtrace.record._taken_requests import Built, TakenReader, build_record, take_request, write_taken
from ragtrace.record._verbs import Request, current_request, generate, pack, request, rerank, retrieve
from ragtrace.record.content import ContentPolicy, scrub
from ragtrace.record.external_reports import feedback, flag, source_report

__all__ = [
    "Built",
    "ContentPolicy",
    "Draft",
    "Recorder",
    "Request",
    "Sink",
    "TakenReader",
    "active",
    "build_record",
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
    "take_request",
    "unfollow_thread_pools",
    "write_taken",
]
