"""Scenarios side by side: each a service of its own in one test of promtool's, which parses all rules anew at each
minute, however many services they count."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

__all__ = ["in_batches"]

Test: TypeAlias = Mapping[str, Any]

_ANY_ALERT: Final = 'alertname=~"Ragtrace.+"'
_ONE_EXPORTER: Final = re.compile(r"1x(\d+)")  # that is up for so many samples


def in_batches(body: Mapping[str, Any]) -> dict[str, Any]:
    """A file of tests in which scenarios of a like length are one test.

    An alert without a service must fire in none of them. A scenario of what no service owns, such as a queue or an
    exporter that is down, stays apart.
    """
    batches: dict[tuple[str, int] | str, list[Test]] = {}
    for test in body["tests"]:
        key = (test["interval"], _end(test).bit_length()) if _is_of_services(test) else str(test["name"])
        batches.setdefault(key, []).append(test)
    return {**body, "tests": [_batch(tests) if len(tests) > 1 else tests[0] for tests in batches.values()]}


def _end(test: Test) -> int:
    """The last minute at which something is checked."""
    return max(int(check["eval_time"].removesuffix("m")) for check in test["promql_expr_test"])


def _exporters(tests: Iterable[Test]) -> list[Mapping[str, str]]:
    return [one for test in tests for one in test["input_series"] if one["series"].startswith("up{")]


def _is_of_services(test: Test) -> bool:
    """Whether all that it counts is of a service, but for one exporter that is up."""
    up = _exporters([test])
    others = [one for one in test["input_series"] if one not in up]
    is_up = len(up) == 1 and _ONE_EXPORTER.fullmatch(up[0]["values"]) is not None
    return is_up and all('service="' in one["series"] for one in others)


def _batch(tests: list[Test]) -> dict[str, Any]:
    up = max(_exporters(tests), key=lambda one: int(one["values"].removeprefix("1x")))
    return {
        "name": "; ".join(test["name"] for test in tests),
        "interval": tests[0]["interval"],
        "input_series": [up, *(one for test in tests for one in _series(test))],
        "promql_expr_test": [check for test in tests for check in _checks(test)],
    }


def _named(labels: str, test: Test) -> str:
    """The labels with each service named after the scenario, too."""
    return re.sub(r'\bservice="([^"]*)"', lambda found: f'service="{found[1]} of {test["name"]}"', labels)


def _series(test: Test) -> list[dict[str, str]]:
    up = _exporters([test])
    return [{**one, "series": _named(one["series"], test)} for one in test["input_series"] if one not in up]


def _checks(test: Test) -> list[dict[str, Any]]:
    own = f'{_ANY_ALERT}, service=~"|.* of {re.escape(test["name"])}"'.replace("\\", "\\\\")
    checks = []
    for check in test["promql_expr_test"]:
        assert _ANY_ALERT in check["expr"], check
        expected = [{**sample, "labels": _named(sample["labels"], test)} for sample in check["exp_samples"]]
        checks.append({**check, "expr": check["expr"].replace(_ANY_ALERT, own), "exp_samples": expected})
    return checks
