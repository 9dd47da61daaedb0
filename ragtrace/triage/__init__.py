"""Walks the evidence of a request, a segment or an alert in order, and stops at the first confirmed break."""

from __future__ import annotations

from ragtrace.triage._alerts import Alert, Payload, judge_alert, read_payload, triage_alert
from ragtrace.triage._evidence import Window, draw, hardly_judged
from ragtrace.triage._report import Check, CorrectedShare, PageAnswers, Report, Unjudged
from ragtrace.triage._statistics import break_end
from ragtrace.triage._walk import page_answers, triage_request, triage_segment
from ragtrace.triage.labels import (
    calibration_words,
    corrected_shares,
    corrected_shares_of,
    promise,
    share_words,
    stage_words,
)
from ragtrace.triage.rendering import corrected_text, markdown, pages_text, render

__all__ = [
    "Alert",
    "Check",
    "CorrectedShare",
    "PageAnswers",
    "Payload",
    "Report",
    "Unjudged",
    "Window",
    "break_end",
    "calibration_words",
    "corrected_shares",
    "corrected_shares_of",
    "corrected_text",
    "draw",
    "hardly_judged",
    "judge_alert",
    "markdown",
    "page_answers",
    "pages_text",
    "promise",
    "read_payload",
    "render",
    "share_words",
    "stage_words",
    "triage_alert",
    "triage_request",
    "triage_segment",
]
