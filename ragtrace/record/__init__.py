"""Records what a host's pipeline does: decorators, context managers, and the guard around them."""

from ragtrace.record.content import finish, scrub
from ragtrace.record.recorder import Draft, Recorder, Sink, active, install
from ragtrace.record.requests import Request, current_request
from ragtrace.record.sampling import new_request_id
from ragtrace.record.verbs import generate, pack, request, rerank, retrieve

__all__ = [
    "Draft",
    "Recorder",
    "Request",
    "Sink",
    "active",
    "current_request",
    "finish",
    "generate",
    "install",
    "new_request_id",
    "pack",
    "request",
    "rerank",
    "retrieve",
    "scrub",
]
