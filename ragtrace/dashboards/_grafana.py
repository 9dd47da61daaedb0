"""Builds Grafana's JSON of a dashboard with grafana-foundation-sdk, which only generating needs."""

from __future__ import annotations

import json
import string
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    heatmap,
    prometheus,
    stat,
    table,
    text,
    timeseries,
)
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import (
    common as common_models,
    dashboard as models,
    heatmap as heatmap_models,
    prometheus as prometheus_models,
    text as text_models,
)

from ragtrace.dashboards._panels import COLORS, Dashboard, Link, Panel, Target, Threshold
from ragtrace.dashboards._promql import ANY, RELEASES, TRACE_URL, VARIABLE_QUERIES
from ragtrace.registry.instruments import ATTRIBUTES

__all__ = ["TAG", "dashboard_json"]

TAG: Final = "ragtrace"

_SOURCE: Final = common_models.DataSourceRef(type_val="prometheus", uid="${datasource}")
_SCHEMA: Final = 38  # Grafana 10.1's: it knows no later one, and later Grafanas migrate from it
_ANNOTATION_COLOR: Final = "purple"


def dashboard_json(described: Dashboard, origin: str) -> str:
    """The dashboard as Grafana 10.1 and later import it. origin: who generated it, which stands in the description."""
    built = _dashboard(described, origin).build()
    data: dict[str, Any] = json.loads(json.dumps(built, cls=JSONEncoder))
    data["schemaVersion"] = _SCHEMA
    _unplace(data)
    return json.dumps({"description": data.pop("description"), **data}, indent=2, ensure_ascii=False) + "\n"


def _unplace(data: dict[str, Any]) -> None:
    """Take back what the SDK sets by itself: newer Grafanas would hide links and annotations in a menu."""
    for entry in (*data["links"], *data["annotations"]["list"]):
        entry.pop("placement", None)
    for panel in data["panels"]:
        for link in (*panel.get("links", ()), *panel.get("fieldConfig", {}).get("defaults", {}).get("links", ())):
            link.pop("placement", None)


def _dashboard(described: Dashboard, origin: str) -> dashboard.Dashboard:
    built = (
        dashboard.Dashboard(described.title)
        .uid(described.uid)
        .description(f"{described.description} {origin}")
        .tags([TAG])
        .readonly()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .time("now-6h", "now")
        .refresh("1m")
        .timezone("browser")
        .link(
            dashboard.DashboardLink("ragtrace")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .include_vars(True)
            .keep_time(True)
        )
        .annotation(_releases())
    )
    for variable in _variables():
        built.with_variable(variable)
    ids = count(1)  # links to a panel name it by its id
    for section in described.sections:
        built.with_row(dashboard.Row(section.title).id(next(ids)))
        for panel in section.panels:
            built.with_panel(_panel(panel).id(next(ids)))
    return built


def _variables() -> Iterator[Builder[models.VariableModel]]:
    yield dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
    for name, query in VARIABLE_QUERIES.items():
        yield (
            dashboard.QueryVariable(name)
            .label(name.capitalize())
            .datasource(_SOURCE)
            .query({"query": query, "refId": name})
            .definition(query)
            .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(models.VariableSort.ALPHABETICAL_ASC)
            .multi(True)
            .include_all(True)
            .all_value(ANY)
            .current(models.VariableOption(selected=True, text="All", value="$__all"))
        )
    strata = ATTRIBUTES["stratum"]
    yield (
        dashboard.CustomVariable("stratum")
        .label("Stratum")
        .description("Random requests speak for all; flagged ones were kept because something looked wrong.")
        .values(",".join(strata))
        .multi(True)
        .current(models.VariableOption(selected=True, text=[strata[0]], value=[strata[0]]))
    )
    yield _text_box("trace_url", "Trace URL", TRACE_URL)
    yield _text_box("trace_id", "Trace id", "")


def _text_box(name: str, label: str, value: str) -> Builder[models.VariableModel]:
    shown = models.VariableOption(selected=True, text=value, value=value)
    return dashboard.TextBoxVariable(name).label(label).default_value(value).current(shown)


def _releases() -> dashboard.AnnotationQuery:
    return (
        dashboard.AnnotationQuery()
        .name("Releases")
        .datasource(_SOURCE)
        .enable(True)
        .icon_color(_ANNOTATION_COLOR)
        .expr(RELEASES)
        .target(prometheus.Dataquery().expr(RELEASES).ref_id("Anno"))
        .use_value_for_time(True)
        .step("60s")
        .title_format("{{component}} {{version}}")
        .text_format("release in {{service}}")
        .tag_keys("component,version")
    )


def _panel(panel: Panel) -> Any:
    """The builder of a panel; builders of different kinds share no type."""
    if panel.kind == "text":
        built: Any = text.Panel().mode(text_models.TextMode.MARKDOWN).content(panel.text)
    else:
        built = _BUILDERS[panel.kind](panel)
        built.unit("short" if panel.kind == "heatmap" else panel.unit).datasource(_SOURCE).no_value(panel.empty)
        for number, target in enumerate(panel.targets):
            built.with_target(_query(panel, target, string.ascii_uppercase[number]))
    built.title(panel.title).description(panel.description).span(panel.width).height(panel.height)
    for value, setting in ((panel.minimum, "min"), (panel.maximum, "max"), (panel.decimals, "decimals")):
        if value is not None and panel.kind != "text":
            getattr(built, setting)(value)
    if panel.least_step is not None:
        built.interval(panel.least_step)
    for beginning, color in COLORS[panel.named].items() if panel.named else ():
        mode = "shades" if panel.named == "states" else "fixed"  # a state has several reasons
        colored = models.DynamicConfigValue(id_val="color", value={"mode": mode, "fixedColor": color})
        built.override_by_regexp(f"/^{beginning}/", [colored])
    if panel.links:
        built.data_links([_link(link) for link in panel.links])
    return built


def _link(link: Link) -> dashboard.DashboardLink:
    return dashboard.DashboardLink(link.title).type(models.DashboardLinkType.LINK).url(link.url)


def _query(panel: Panel, target: Target, ref_id: str) -> prometheus.Dataquery:
    query = prometheus.Dataquery().expr(target.expr).legend_format(target.legend).ref_id(ref_id).datasource(_SOURCE)
    if panel.kind in ("stat", "table"):
        query.instant()
    else:
        query.range()
    formats = {"table": prometheus_models.PromQueryFormat.TABLE, "heatmap": prometheus_models.PromQueryFormat.HEATMAP}
    query.format(formats.get(panel.kind, prometheus_models.PromQueryFormat.TIME_SERIES))
    return query.exemplar(True) if target.exemplar else query


def _steps(thresholds: tuple[Threshold, ...]) -> dashboard.ThresholdsConfig:
    steps = [models.Threshold(value=each.value, color=each.color) for each in thresholds]
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)


def _stat(panel: Panel) -> stat.Panel:
    colors = common_models.BigValueColorMode.BACKGROUND if panel.thresholds else common_models.BigValueColorMode.NONE
    return (
        stat.Panel()
        .text_mode(common_models.BigValueTextMode.VALUE_AND_NAME)
        .color_mode(colors)
        .graph_mode(common_models.BigValueGraphMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(_steps(panel.thresholds or (Threshold(None, "green"),)))
    )


def _timeseries(panel: Panel) -> timeseries.Panel:
    built = (
        timeseries.Panel()
        .legend(
            common.VizLegendOptions()
            .show_legend(True)
            .display_mode(common_models.LegendDisplayMode.LIST)
            .placement(common_models.LegendPlacement.BOTTOM)
        )
        .tooltip(common.VizTooltipOptions().mode(common_models.TooltipDisplayMode.MULTI))
        .line_width(2)
        .show_points(common_models.VisibilityMode.AUTO)
        .span_nulls(False)
    )
    if panel.line is not None:
        built.thresholds(_steps(panel.thresholds or (Threshold(None, "red"), Threshold(panel.line, "green"))))
        built.thresholds_style(common.GraphThresholdsStyleConfig().mode(common_models.GraphThresholdsStyleMode.DASHED))
    return built


def _stacked(panel: Panel) -> timeseries.Panel:
    stacking = common.StackingConfig().mode(common_models.StackingMode.NORMAL).group("A")
    return _timeseries(panel).stacking(stacking).fill_opacity(60).line_width(1)


def _heatmap(panel: Panel) -> heatmap.Panel:
    return (
        heatmap.Panel()
        .calculate(False)
        .y_axis(heatmap.YAxisConfig().unit(panel.unit))
        .color(
            heatmap.HeatmapColorOptions()
            .mode(heatmap_models.HeatmapColorMode.SCHEME)
            .scheme("Blues")
            .steps(32)
            .reverse(False)
            .exponent(0.5)
            .fill("blue")
        )
        .show_legend()
    )


def _table(panel: Panel) -> table.Panel:
    columns = [target.legend for target in panel.targets]
    values = [f"Value #{string.ascii_uppercase[number]}" for number in range(len(columns))]
    renamed = {**dict(zip(values, columns, strict=True)), "Value": columns[0]}
    order = {name: place for place, name in enumerate((*panel.key, *values))}
    built = (
        table.Panel()
        .with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(
            models.DataTransformerConfig(
                id_val="organize",
                options={"excludeByName": {"Time": True}, "indexByName": order, "renameByName": renamed},
            )
        )
        .thresholds(_steps(panel.thresholds or (Threshold(None, "green"),)))
    )
    if panel.largest_first:
        built.sort_by([common.TableSortByFieldState().display_name(columns[0]).desc(True)])
    for target in panel.targets:
        properties = [models.DynamicConfigValue(id_val="unit", value=target.unit)] if target.unit else []
        if panel.thresholds and not target.unit:
            colored = {"type": "color-background", "mode": "basic"}
            properties.append(models.DynamicConfigValue(id_val="custom.cellOptions", value=colored))
        if properties:
            built.override_by_name(target.legend, properties)
    return built


_BUILDERS: Final[dict[str, Any]] = {
    "timeseries": _timeseries,
    "stacked": _stacked,
    "stat": _stat,
    "heatmap": _heatmap,
    "table": _table,
}
