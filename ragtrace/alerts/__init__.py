"""Alerts: from the metric registry and `alerts/objectives.yaml` to the files that Prometheus and Alertmanager read."""

from __future__ import annotations

from ragtrace.alerts.checking import Checked, check, run_tests
from ragtrace.alerts.rendering import FILES, generated, render, write

__all__ = ["FILES", "Checked", "check", "generated", "render", "run_tests", "write"]
