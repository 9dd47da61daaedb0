"""What a preview shows of a panel: values by kind, legends, traces, and the reason where there is nothing."""

from __future__ import annotations

from typing import Any

from ragtrace.dashboards.model import Dashboard, Panel, Section, Target
from ragtrace.dashboards.prometheus import Exemplar, Prometheus, Series
from ragtrace.dashboards.shown import legend, read
from ragtrace.dashboards.span import Span

SPAN = Span(0, 600, stratum="random")
INFINITY = float("inf")


class _Server(Prometheus):
    """Gives these series to every query."""

    def __init__(self, *series: Series, names: frozenset[str] = frozenset(), traces: tuple[Exemplar, ...] = ()) -> None:
        super().__init__("http://nowhere")
        self._series, self._names, self._traces = list(series), names, list(traces)

    def query(self, expr: str, at: float) -> list[Series]:
        return self._series

    def query_range(self, expr: str, start: float, end: float, step: float) -> list[Series]:
        return self._series

    def exemplars(self, expr: str, start: float, end: float) -> list[Exemplar]:
        return self._traces

    def names(self) -> frozenset[str]:
        return self._names


def _shown(server: Prometheus, **given: Any) -> dict[str, Any]:
    panel = Panel(**({"title": "t", "description": "d", "empty": "It fills by itself."} | given))
    dashboard = Dashboard(uid="u", title="ragtrace: u", description="d", sections=(Section("s", (panel,)),))
    (read_back,) = read(server, [dashboard], SPAN)
    shown: dict[str, Any] = read_back["sections"][0]["panels"][0]
    return shown


def test_legend_is_filled_in() -> None:
    """Labels take the place of their names; a label that is missing leaves nothing."""
    assert legend(Target("x", "{{a}} of {{b}}"), {"a": "1"}) == "1 of "


def test_lines_share_their_times() -> None:
    """Series that lack a point have a gap there, and what is too much is counted."""
    many = [Series({"a": str(number)}, {number: 1.0}) for number in range(20)]
    shown = _shown(_Server(*many), kind="timeseries", targets=(Target("x", "{{a}}"),))
    assert shown["times"] == list(range(20))
    assert len(shown["series"]) == 16
    assert shown["more"] == 4
    assert shown["series"][1] == {"name": "1", "values": [None, 1.0, *[None] * 18]}
    assert shown["empty"] is None


def test_table_puts_targets_beside_each_other() -> None:
    """One row for each key, one column for each target, sorted by key or newest first."""
    series = [Series({"a": "y"}, {1: 5.0}), Series({"a": "x"}, {1: 3.0})]
    targets = (Target("1", "one"), Target("2", "two", unit="short"))
    shown = _shown(_Server(*series), kind="table", unit="s", key=("a",), targets=targets)
    assert shown["rows"] == [{"key": ["x"], "values": [3.0, 3.0]}, {"key": ["y"], "values": [5.0, 5.0]}]
    assert [column["unit"] for column in shown["columns"]] == ["s", "short"]
    newest = _shown(_Server(*series), kind="table", key=("a",), targets=targets, newest_first=True)
    assert [row["key"] for row in newest["rows"]] == [["y"], ["x"]]


def test_heatmap_counts_each_bucket_alone() -> None:
    """Cumulative buckets become counts, lowest first; the last one is open."""
    series = [Series({"le": "+Inf"}, {1: 6.0}), Series({"le": "1.0"}, {1: 5.0}), Series({"le": "0.5"}, {1: 2.0})]
    shown = _shown(_Server(*series), kind="heatmap", targets=(Target("x", "{{le}}"),))
    assert shown["bounds"] == [0.5, 1.0, None]
    assert shown["cells"] == [[2.0, 3.0, 1.0]]


def test_traces_are_distinct_and_few() -> None:
    """A trace shows once, and four of them at most."""
    traces = tuple(Exemplar(f"t{number // 2}", 1, number, {"segment": "s"}) for number in range(20))
    server = _Server(Series({}, {1: 1.0}), traces=traces)
    shown = _shown(server, kind="timeseries", targets=(Target("x", "x", exemplar=True),))
    assert [trace["id"] for trace in shown["traces"]] == ["t0", "t1", "t2", "t3"]
    assert "traces" not in _shown(server, kind="stat", targets=(Target("x", "x", exemplar=True),))


def test_reason_names_the_series_that_are_missing() -> None:
    """A metric that this Prometheus has never seen is named, with what fills it."""
    target = (Target("sum(rate(ragtrace_requests_total[5m]))", "x"),)
    missing = _shown(_Server(), kind="timeseries", targets=target)
    assert missing["empty"] == "This Prometheus has no series ragtrace_requests_total. It fills by itself."
    known = _shown(_Server(names=frozenset({"ragtrace_requests_total"})), kind="timeseries", targets=target)
    assert known["empty"].startswith("No value for stratum random from 01 Jan 00:00 to 01 Jan 00:10 UTC.")
    alerts = _shown(_Server(), kind="table", key=("a",), targets=(Target("ALERTS", "x"),))
    assert alerts["empty"] == "It fills by itself."


def test_zero_is_a_value() -> None:
    """A number that is zero is shown, not explained away."""
    shown = _shown(_Server(Series({}, {1: 0.0})), kind="stat", targets=(Target("x", "x"),))
    assert shown["stats"] == [{"name": "x", "value": 0.0}]
    assert shown["empty"] is None


def test_commands_know_the_time() -> None:
    """A text panel gives its commands, their times filled in."""
    text = "Words.\n```sh\nragtrace x --since ${__from:date:iso}\n```\n"
    shown = _shown(_Server(), kind="text", text=text)
    assert shown["commands"] == "ragtrace x --since 1970-01-01T00:00:00Z\n"
