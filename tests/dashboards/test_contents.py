"""The dashboards' contents: their queries ask for what there is, their panels say what they show."""

from __future__ import annotations

import re

import pytest

from ragtrace.dashboards import UIDS
from ragtrace.dashboards._panels import Dashboard, Panel, Target, sound_share
from ragtrace.dashboards._promql import WINDOW
from ragtrace.dashboards.contents import DASHBOARDS
from ragtrace.registry.instruments import INSTRUMENTS, STAGES
from tests.dashboards.asked import asked, panels, parsed, targets

OTHERS = {"ALERTS": {"alertname", "alertstate", "service", "owner", "segment"}}
"""Series that Prometheus makes itself, and the labels that a query may name."""

COLUMNS = 24
"""Of the grid of a dashboard of Grafana."""
EXACT = {"last_over_time", "min_over_time", "resets"}
PANELS = [pytest.param(panel, id=name) for name, panel in panels()]
TARGETS = [pytest.param(target, id=name) for name, target in targets()]
SERIES = {
    name: instrument
    for instrument in INSTRUMENTS.values()
    for name in (
        [f"{instrument.name}{part}" for part in ("_bucket", "_sum", "_count")]
        if instrument.kind == "histogram"
        else [instrument.name]
    )
}
DRAWN_PANELS = [each for each in PANELS if each.values[0].kind != "text"]  # type: ignore[union-attr]  # it is a Panel


def test_the_addresses_are_those_that_alerts_link_to() -> None:
    """The described dashboards are the announced ones, in their order."""
    assert tuple(dashboard.uid for dashboard in DASHBOARDS) == UIDS


@pytest.mark.parametrize("target", TARGETS)
def test_query_asks_for_series_of_the_registry(target: Target) -> None:
    """Each selector names a series of the registry, and labels that it has."""
    found = asked(target.expr)
    assert found
    for one in found:
        if one.name in OTHERS:
            assert set(one.labels) <= OTHERS[one.name]
            continue
        assert one.name in SERIES, one.name
        parts = {"le"} if one.name.endswith("_bucket") else set()
        assert set(one.labels) <= {*SERIES[one.name].attributes, *parts}, one


@pytest.mark.parametrize("target", TARGETS)
def test_query_follows_the_variables(target: Target) -> None:
    """Service, segment and stratum are matched wherever a series has them."""
    for one in asked(target.expr):
        instrument = SERIES.get(one.name)
        chosen = {"service", "segment", "stratum"} & set(instrument.attributes if instrument else ())
        assert chosen <= set(one.labels), one


@pytest.mark.parametrize("target", TARGETS)
def test_query_keeps_the_rules_of_dashboard_linter(target: Target) -> None:
    """Counters are rated or increased and then summed, and a rate is taken over $__rate_interval. Counts in numbers are
    what was scraped (`gained`)."""
    for one in asked(target.expr):
        instrument = SERIES.get(one.name)
        if instrument is None or instrument.kind == "gauge":
            assert not {"rate", "increase"} & set(one.around), one
            continue
        assert one.around[-1:] in (("rate",), ("increase",)) or EXACT & set(one.around[-1:]), one
        assert "sum" in one.around, one
        assert one.window == "420s" or one.around[-1] in {"increase", *EXACT}, one
    assert set(re.findall(r"\brate\(.*?\[(.*?)\]", target.expr)) <= {WINDOW}


def test_the_rules_can_fail() -> None:
    """A counter that is not rated, and a label that a series has not, are found."""
    (bare,) = asked("sum by (stage) (ragtrace_diagnoses_total)")
    assert bare.around == ("sum",)
    (rated,) = asked('sum(rate(ragtrace_requests_total{verdict="x"}[$__rate_interval]))')
    assert rated.around == ("sum", "rate")
    assert rated.window == "420s"
    assert not set(rated.labels) <= set(SERIES[rated.name].attributes)
    with pytest.raises(ValueError, match="unclosed"):
        parsed("sum(rate(x[5m])")


def test_every_metric_is_shown_somewhere() -> None:
    """A metric that no panel shows is a metric that nobody sees."""
    shown = {one.name for _, target in targets() for one in asked(target.expr)}
    unseen = [
        instrument.name
        for instrument in INSTRUMENTS.values()
        if not shown & {instrument.name, f"{instrument.name}_bucket", f"{instrument.name}_sum"}
    ]
    assert unseen == []


@pytest.mark.parametrize("panel", PANELS)
def test_panel_says_what_it_shows(panel: Panel) -> None:
    """Title, description, and a sentence on what fills it; targets with names unless it is text."""
    assert panel.title
    assert len(panel.description) > 20
    assert panel.description.endswith((".", "?"))
    assert not re.search(r"\b[a-z][A-Z]", panel.description)  # an abbreviation whose beginning was made small
    if panel.kind == "text":
        assert panel.text
        assert not panel.targets
    else:
        assert panel.empty.endswith(".")
        assert panel.targets
        assert all(target.legend for target in panel.targets)


@pytest.mark.parametrize("panel", DRAWN_PANELS)
def test_legends_name_labels_that_the_query_gives(panel: Panel) -> None:
    """A legend's labels, and the columns of a table, are labels that the query groups by."""
    for target in panel.targets:
        wanted = {*re.findall(r"\{\{(\w+)\}\}", target.legend), *panel.key}
        grouped = {
            label for group in re.findall(r"\bby \((.*?)\)", target.expr) for label in group.replace(" ", "").split(",")
        }
        assert wanted <= grouped, target.expr


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=UIDS)
def test_panels_fill_their_rows(dashboard: Dashboard) -> None:
    """No panel hangs over the grid's edge, and no row of a section has a hole."""
    for section in dashboard.sections:
        used = 0
        for panel in section.panels:
            used = used % COLUMNS + panel.width
            assert used <= COLUMNS, panel.title
        assert used == COLUMNS, section.title


def test_stages_are_judged_for_themselves() -> None:
    """The share of sound requests counts the conditional scope, and keeps references and judges apart."""
    expr = sound_share(STAGES[-1], "segment", window=WINDOW)
    assert expr.count('scope="conditional"') == 2
    assert expr.count("sum by (segment, reference, judge)") == 2


@pytest.mark.parametrize("target", TARGETS)
def test_no_ratio_mixes_judges(target: Target) -> None:
    """Whatever divides counts of states is grouped by judge; counts alone may be summed over all."""
    if "ragtrace_sli_" in target.expr and " / " in target.expr:
        grouped = re.findall(r"\bby \((.*?)\)", target.expr)
        assert grouped
        assert all("judge" in group.split(", ") for group in grouped), target.expr


def test_every_stage_shows_its_states_and_reasons() -> None:
    """The dashboard of a stage has the shares of its four states, and why the rest is not judged."""
    by_uid = {dashboard.uid: dashboard for dashboard in DASHBOARDS}
    for stage in STAGES:
        panels = list(by_uid[f"ragtrace-{stage.name}"].panels)
        columns = [[target.legend for target in panel.targets] for panel in panels]
        assert ["sound", "broken", "suspected", "not_known", "requests"] in columns
        (over_time,) = (panel for panel in panels if panel.named == "states")
        assert [target.legend for target in over_time.targets] == ["sound", "broken", "{{state}}: {{reason}}"]
        assert all(f'stage="{stage.name}"' in target.expr for target in over_time.targets)


def test_lines_of_scores_are_their_thresholds() -> None:
    """A stage's line is its target; a score has no target, and its line is what one request should reach."""
    lines = {panel.title: panel.line for _, panel in panels() if panel.line is not None}
    assert lines["Support of answers"] == INSTRUMENTS["answer_coverage"].objective.threshold  # type: ignore[union-attr]
    for stage in STAGES:
        assert lines[f"{stage.name.capitalize()}: sound, of what is sound or broken"] == stage.target
