"""The dashboards against a real Prometheus, and their preview in a real browser."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ragtrace.dashboards._panels import Panel
from ragtrace.dashboards._promql import RELEASES, VARIABLE_QUERIES, gained
from ragtrace.dashboards.contents import DASHBOARDS
from ragtrace.export import serve
from ragtrace.registry.instruments import REQUESTS
from ragtrace.store import Store
from tests.dashboards.asked import panels
from tests.dashboards.browser import examined, photographed
from tests.dashboards.filled import TRACE, add_round
from tests.dashboards.history import (
    BAD_RELEASE,
    SEGMENTS,
    SERVICE,
    SHOWN_SECONDS,
    prometheus,
)
from tests.dashboards.pictures import pixels
from tests.dashboards.preview import preview, releases
from tests.dashboards.prometheus_client import PreviewScope, Prometheus
from tests.live.prometheus import Prometheus as Running, await_

END = float(int(time.time()) // 60 * 60)
SPAN = PreviewScope(END - SHOWN_SECONDS, END)
PLAIN = Panel(title="", kind="timeseries", description="")
DRAWN = [pytest.param(panel, id=name) for name, panel in panels() if panel.kind != "text"]
NEED_A_RANGE_BEFORE = {"Change of documents over the range"}
NEED_A_RECEIVER = {
    panel.title
    for panel in (param.values[0] for param in DRAWN)
    if isinstance(panel, Panel) and all("ragtrace_receiver_" in target.expr for target in panel.targets)
}
WIDTHS = [pytest.param(390, id="phone"), pytest.param(820, id="tablet"), pytest.param(1600, id="wide")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A real Prometheus that holds hours of a service in which a rollout broke the ranking of two segments."""
    with prometheus(tmp_path_factory.mktemp("prometheus"), END) as url:
        yield Prometheus(url)


@pytest.fixture(scope="module")
def page(server: Prometheus) -> str:
    """The preview of all dashboards."""
    return preview(server, SPAN, trace_url="https://traces/{trace_id}?x")


@pytest.mark.parametrize("panel", DRAWN)
def test_every_target_returns_series(server: Prometheus, panel: Panel) -> None:
    """Each query of each panel gives values, as an instant where the panel shows one, over time elsewhere."""
    for target in panel.targets:
        expr = SPAN.filled(target.expr, panel)
        assert "$" not in expr
        assert server.query(expr, SPAN.end), expr
        if panel.kind not in ("stat", "table"):
            found = server.query_range(expr, SPAN.start, SPAN.end, SPAN.step(panel))
            assert any(len(one.points) > 1 for one in found), expr


@pytest.mark.parametrize("panel", DRAWN)
def test_legends_are_filled_in(server: Prometheus, panel: Panel) -> None:
    """Every label that a legend or a table's column names is there, and tells series apart."""
    for target in panel.targets:
        wanted = [*re.findall(r"\{\{(\w+)\}\}", target.legend), *panel.key]
        for one in server.query(SPAN.filled(target.expr, panel), SPAN.end):
            assert all(one.labels.get(name) for name in wanted), (target.expr, one.labels)


def test_every_variable_has_values(server: Prometheus) -> None:
    """The variables' queries give the course's service and segments."""
    found = {}
    for name, query in VARIABLE_QUERIES.items():
        matched = re.fullmatch(r"label_values\((.*), (\w+)\)", query)
        assert matched is not None
        series = server.query(f"count by ({matched[2]}) ({SPAN.filled(matched[1], DRAWN[0].values[0])})", SPAN.end)  # type: ignore[arg-type]  # a Panel
        found[name] = sorted(one.labels[matched[2]] for one in series)
    assert found == {"service": [SERVICE], "segment": sorted(SEGMENTS)}


def test_annotations_show_releases_from_their_first_sample(server: Prometheus) -> None:
    """Both releases of the time that is shown, as times in milliseconds; `changes()` sees none of them."""
    found = server.query_range(SPAN.filled(RELEASES, PLAIN), SPAN.start, SPAN.end, 60)
    times = {(one.labels["component"], one.labels["version"]): set(one.points.values()) for one in found}
    assert times == {
        ("index", "2026-11"): {(END - 2.7 * 3600) * 1000},
        BAD_RELEASE: {(END - 2 * 3600) * 1000},
    }
    changed = server.query_range("changes(ragtrace_release_timestamp_seconds[5m]) > 0", SPAN.start, SPAN.end, 60)
    assert changed == []


def test_releases_are_known_while_the_exporter_is_away(server: Prometheus) -> None:
    """A quarter of an hour after the last scrape headline and annotations still have those of the time shown."""
    later = SPAN._replace(end=SPAN.end + 900)
    marked = server.query_range(later.filled(RELEASES, PLAIN), SPAN.end + 600, later.end, 60)
    for found in (releases(server, later), marked):
        assert BAD_RELEASE in {(one.label("component"), one.label("version")) for one in found}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_preview_is_whole_in_a_browser(page: str, tmp_path: Path, width: int, dark: bool) -> None:
    """Every panel is drawn; nothing is blank, sticks out of its panel, or lies over another thing."""
    found = examined(page, tmp_path, width=width, dark=dark)
    assert (found["drawn"], found["width"]) == ("yes", width)
    texts_shown_once = len(DASHBOARDS) - 2  # of all dashboards but the analyzer's
    assert found["panels"] == sum(1 for _ in panels()) - texts_shown_once
    assert found["wider"] <= 0
    for wrong in ("undrawn", "empty", "blank", "outside", "overlapping", "covering", "clipped"):
        assert found[wrong] == [], wrong
    assert min(found["kinds"][kind] for kind in ("canvas", ".stat", "td", "pre")) > 0
    shade = np.mean([int(part) for part in re.findall(r"\d+", found["background"])])
    assert shade < 60 if dark else shade > 200


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_preview_looks_like_something(page: str, tmp_path: Path, dark: bool) -> None:
    """The picture, drawn under the page's own policy: the right ground, many colors, the red of what fails."""
    picture = pixels(photographed(page, tmp_path, width=900, height=700, dark=dark))[..., :3].astype(int)
    assert picture.shape[:2] == (700, 900)
    colors = np.unique(picture.reshape(-1, 3), axis=0)
    assert len(colors) > 50
    assert picture.mean() < 80 if dark else picture.mean() > 180
    red, green, blue = picture[..., 0], picture[..., 1], picture[..., 2]
    assert ((red > green + 20) & (red > blue + 20)).mean() > 0.01
    assert ((green > red + 10) & (green > blue + 5)).mean() > 0.005


def test_examination_can_fail(page: str, tmp_path: Path) -> None:
    """A page whose panels are torn apart is found out."""
    torn = page.replace(
        "</style>", ".panel { width: 900px; margin-top: -60px; } canvas { width: 1200px !important; }</style>"
    )
    found = examined(torn, tmp_path, width=390)
    assert found["wider"] > 0
    assert found["outside"]
    assert found["overlapping"]


def test_empty_prometheus_gives_reasons(tmp_path: Path) -> None:
    """Without a series every panel says so, and what fills it; nothing is claimed to be well."""
    running = Running(tmp_path / "prometheus")
    running.start()
    try:
        found = examined(preview(Prometheus(running.url), SPAN), tmp_path, width=1200)
    finally:
        running.stop()
    drawn = [panel.title for _, panel in panels() if panel.kind != "text"]
    assert [title for title, _ in found["empty"]] == drawn
    assert all(len(reason) > 20 for _, reason in found["empty"])
    assert sum("has no series ragtrace_" in reason for _, reason in found["empty"]) == len(drawn) - 1  # all but alerts
    assert found["overlapping"] == found["outside"] == []


@pytest.fixture
def scraped(tmp_path: Path) -> Iterator[tuple[Prometheus, PreviewScope]]:
    """A real Prometheus that scrapes a real exporter over a store which grows between scrapes."""
    url = f"sqlite:///{tmp_path / 'ragtrace.db'}"
    with Store.open(url) as store, serve(url) as exporter:
        add_round(store, 0)
        running = Running(tmp_path / "prometheus", [exporter.port])
        running.start()
        try:
            await_(lambda: running.value("count(up == 1)"))
            total = 'sum(ragtrace_requests_total{status="ok"})'
            for number in range(1, 4):
                before = await_(lambda: running.value(total))
                add_round(store, number)
                await_(lambda before=before: (running.value(total) or 0) > before)  # type: ignore[misc]  # bound now
            yield Prometheus(running.url), PreviewScope(time.time() - 60, time.time(), scrape=1)
        finally:
            running.stop()


def test_counts_are_those_of_the_scrapes(scraped: tuple[Prometheus, PreviewScope]) -> None:
    """What came between the first scrape and the last, whatever the range is."""
    server, span = scraped
    (scrapes,) = server.query_range('sum(ragtrace_requests_total{status="ok"})', span.start, span.end, 1)
    came = scrapes.last - scrapes.points[min(scrapes.points)]
    assert came > 0
    for each in (span, span._replace(start=span.start - 3600)):
        (found,) = server.query(each.filled(gained(REQUESTS, status="ok"), PLAIN), each.end)
        assert found.last == came


def test_dashboards_show_what_a_real_exporter_serves(scraped: tuple[Prometheus, PreviewScope], tmp_path: Path) -> None:
    """From the store's rows over the exporter into the browser: every panel has values, lines lead to traces."""
    server, span = scraped
    found = examined(preview(server, span, trace_url="https://traces/{trace_id}?x"), tmp_path, width=1200)
    no_rules_are_loaded, enough_is_judged = "Alerts that fire", "Stages of which next to nothing can be judged"
    known = {no_rules_are_loaded, enough_is_judged, *NEED_A_RANGE_BEFORE, *NEED_A_RECEIVER}
    assert [title for title, _ in found["empty"] if title not in known] == []
    assert set(found["traces"]) == {f"https://traces/{TRACE}?x"}
