"""The preview: what it shows of a panel; a file that loads nothing, and that no label's value can break out of."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from ragtrace.dashboards._panels import Dashboard, Panel, PanelSection, Target
from ragtrace.dashboards.preview import legend, page, read
from ragtrace.dashboards.prometheus import Exemplar, PreviewScope, Prometheus, Series
from tests.dashboards.browser import examined

SPAN = PreviewScope(0, 600, stratum="random")
INFINITY = float("inf")
HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(1)">{style}'
DATA: dict[str, Any] = {
    "start": 0,
    "end": 60,
    "colors": {},
    "trace_url": "http://t/{trace_id}",
    "about": HOSTILE,
    "findings": [{"text": HOSTILE, "good": False}],
    "releases": [{"at": 30, "name": HOSTILE}],
    "dashboards": [],
}


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
    dashboard = Dashboard(uid="u", title="ragtrace: u", description="d", sections=(PanelSection("s", (panel,)),))
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
    """One row for each key, one column for each target, sorted by key or largest first."""
    series = [Series({"a": "y"}, {1: 5.0}), Series({"a": "x"}, {1: 3.0})]
    targets = (Target("1", "one"), Target("2", "two", unit="short"))
    shown = _shown(_Server(*series), kind="table", unit="s", key=("a",), targets=targets)
    assert shown["rows"] == [{"key": ["x"], "values": [3.0, 3.0]}, {"key": ["y"], "values": [5.0, 5.0]}]
    assert [column["unit"] for column in shown["columns"]] == ["s", "short"]
    newest = _shown(_Server(*series), kind="table", key=("a",), targets=targets, largest_first=True)
    assert [row["key"] for row in newest["rows"]] == [["y"], ["x"]]


def test_stages_stand_in_the_order_of_the_path() -> None:
    """Rows are sorted by name, but for stages."""
    series = [Series({"service": "s", "stage": stage}, {1: 1.0}) for stage in ("citation", "generation", "retrieval")]
    shown = _shown(_Server(*series), kind="table", key=("service", "stage"), targets=(Target("1", "one"),))
    assert [row["key"][1] for row in shown["rows"]] == ["retrieval", "generation", "citation"]


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


def test_values_stay_values() -> None:
    """Whatever a label says reads back as it was, and nothing of it becomes markup."""
    written = page(DATA)
    assert written.count("<script") == 3
    assert "<img" not in written
    found = re.search(r'id="data">(.*?)</script>', written, re.DOTALL)
    assert found is not None
    assert json.loads(found[1]) == DATA


def test_nothing_is_loaded_and_only_its_own_scripts_run() -> None:
    """The policy forbids every source, and allows exactly the two scripts of the page by their hashes."""
    written = page(DATA)
    scripts = re.findall(r"<script>(.*?)</script>", written, re.DOTALL)
    digests = {base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts}
    policy = re.search(r'Content-Security-Policy" content="(.*?)">', written)
    assert policy is not None
    assert "default-src &#x27;none&#x27;" in policy[1]
    assert set(re.findall(r"sha256-([\w+/=]+)", policy[1])) == digests
    assert len(digests) == 2
    assert re.findall(r"(?:src|href)=[\"']", written.split("<script>")[0]) == []


def test_a_long_name_leaves_the_values_in_sight(tmp_path: Path) -> None:
    """It is cut, and whole when pointed at."""
    long = "a" * 400
    panel = {
        "title": "Segments", "description": "", "kind": "table", "width": 24, "unit": "none", "decimals": None,
        "thresholds": [], "empty": None, "key": ["segment"],
        "columns": [{"name": name, "unit": "none", "plain": True} for name in ("good", "bad")],
        "rows": [{"key": [name], "values": [1.0, 2.0]} for name in ("short", long)],
    }  # fmt: skip
    dashboard = {
        "uid": "x", "title": "x", "description": "", "sections": [{"title": "", "panels": [panel]}]
    }  # fmt: skip
    found = examined(page({**DATA, "dashboards": [dashboard]}), tmp_path, width=900)
    assert found["drawn"] == "yes"
    assert [title for title, _ in found["keys"]] == ["short", long]
    assert found["hidden"] == 0


def test_library_is_named_with_its_license() -> None:
    """The chart library says in the page what it is; its license lies beside it."""
    from importlib import resources

    assert "https://github.com/leeoniya/uPlot (v1.6.32)" in page(DATA)
    files = resources.files("ragtrace.dashboards").joinpath("page", "uplot")
    assert "MIT License" in files.joinpath("LICENSE").read_text("utf-8")
