"""Alerts: from the metric registry and `alerts/objectives.yaml` to the files that Prometheus and Alertmanager read."""

from __future__ import annotations

from ragtrace.alerts._files import FILES, Checked, check, generated, render, run_tests, write

__all__ = ["FILES", "Checked", "check", "generated", "render", "run_tests", "write"]
