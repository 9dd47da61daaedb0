"""Walks the evidence of a request, a segment or an alert in order, and stops at the first confirmed break."""

from __future__ import annotations

from ragtrace.triage._alerts import Alert, Payload, judge_alert, read_payload, triage_alert
from ragtrace.triage._evidence import Window, draw, hardly_judged
from ragtrace.triage._report import PageAnswers, Report
from ragtrace.triage._walk import page_answers, triage_request, triage_segment
from ragtrace.triage.rendering import markdown, pages_text, render

__all__ = [
    "Alert",
    "PageAnswers",
    "Payload",
    "Report",
    "Window",
    "draw",
    "hardly_judged",
    "judge_alert",
    "markdown",
    "page_answers",
    "pages_text",
    "read_payload",
    "render",
    "triage_alert",
    "triage_request",
    "triage_segment",
]
