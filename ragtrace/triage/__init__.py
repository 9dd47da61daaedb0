"""Walks the evidence of a request, a segment or an alert in order, and stops at the first confirmed break."""

from __future__ import annotations

from ragtrace.triage.alerts import Alert, Payload, read_payload, triage_alert
from ragtrace.triage.evidence import Window
from ragtrace.triage.markdown import markdown
from ragtrace.triage.report import Report
from ragtrace.triage.single import triage_request
from ragtrace.triage.text import render
from ragtrace.triage.walk import triage_segment

__all__ = [
    "Alert",
    "Payload",
    "Report",
    "Window",
    "markdown",
    "read_payload",
    "render",
    "triage_alert",
    "triage_request",
    "triage_segment",
]
