"""What the queries of dashboards ask, read by a PromQL parser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import promql_parser as promql

from ragtrace.dashboards._panels import Panel, Target
from ragtrace.dashboards.contents import DASHBOARDS

__all__ = ["Asked", "asked", "panels", "parsed", "targets"]

_VARIABLE = re.compile(r"\$(?:__rate_interval|__range|\{__from\}|service|segment|stratum)")
_VALUES = {"$__rate_interval": "7m", "$__range": "6h", "${__from}": "0"}


class Asked(NamedTuple):
    """One selector of a query: the series, labels that it matches on, its window, functions around it, inmost last."""

    name: str
    labels: tuple[str, ...]
    window: str
    around: tuple[str, ...]


def panels() -> Iterator[tuple[str, Panel]]:
    """Every panel with a name for a test's id."""
    return ((f"{dashboard.uid}: {panel.title}", panel) for dashboard in DASHBOARDS for panel in dashboard.panels)


def targets() -> Iterator[tuple[str, Target]]:
    """Every target with a name for a test's id."""
    for name, panel in panels():
        for number, target in enumerate(panel.targets):
            yield f"{name} {number}", target


def parsed(expr: str) -> Any:
    """The syntax tree of a query whose variables have values."""
    return promql.parse(_VARIABLE.sub(lambda found: _VALUES.get(found[0], ".*"), expr))


def asked(expr: str) -> list[Asked]:
    """Every selector of a query."""
    return list(_walk(parsed(expr), ()))


def _walk(node: Any, around: tuple[str, ...]) -> Iterator[Asked]:
    match node:
        case promql.MatrixSelector():
            seconds = f"{node.range.total_seconds():g}s"
            yield from (one._replace(window=seconds) for one in _walk(node.vector_selector, around))
        case promql.VectorSelector():
            yield Asked(node.name or "", tuple(each.name for each in node.matchers.matchers), "", around)
        case promql.Call():
            for argument in node.args:
                yield from _walk(argument, (*around, node.func.name))
        case promql.AggregateExpr():
            yield from _walk(node.expr, (*around, str(node.op)))
        case promql.BinaryExpr():
            yield from _walk(node.lhs, around)
            yield from _walk(node.rhs, around)
        case promql.ParenExpr() | promql.UnaryExpr():
            yield from _walk(node.expr, around)
        case promql.NumberLiteral() | promql.StringLiteral():
            return
        case _:
            raise AssertionError(f"{type(node).__name__} is not read yet")
