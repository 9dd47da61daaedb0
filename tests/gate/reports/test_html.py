"""The page of a gate: whole, safe, and readable by everybody, on phones and in the dark as well."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from ragtrace.gate.reports import render
from ragtrace.gate.reports.html import scale
from ragtrace.gate.types import GateReport
from tests.dashboards.browser import examined, photographed
from tests.dashboards.pictures import pixels
from tests.gate import reported
from tests.gate.reported import cell, failed, grid, report

_VOID = {"meta", "br"}
_X = re.compile(r"([\d.]+)%")


class _Page(HTMLParser):
    """Elements with their attributes, and texts, of a page whose every element is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] != ["style"]:
            self.text += data + "\n"

    def all(self, tag: str, class_: str = "") -> list[dict[str, str | None]]:
        return [found for name, found in self.elements if name == tag and class_ in (found.get("class") or "")]


def _page(found: object = None) -> _Page:
    return _Page(render(reported.blocked() if found is None else found, "html"))  # type: ignore[arg-type]


def test_all_of_it() -> None:
    """Verdict, what to do, the matrix, each stage, the signature, the method."""
    page = _page()
    for piece in (
        "generation got worse in segment claims-de: the share of requests with broken generation rose by 60 points",
        "What to do next",
        "Stages and segments",
        "Grounding failure in claims-de",
        "ragtrace show candidate-5",
        "−16.0 to −8.0",
        "BCa bootstrap",
    ):
        assert piece in page.text
    assert len(page.all("tr")) >= len(reported.blocked().cells)


def test_nothing_is_loaded_and_nothing_runs() -> None:
    """No script, no link to elsewhere, and a policy that forbids both."""
    page = _page()
    assert page.all("script") == []
    (policy,) = [each["content"] for each in page.all("meta") if each.get("http-equiv")]
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "script-src 'none'" in policy
    assert all((each.get("href") or "").startswith("#") for each in page.all("a"))
    targets = {each.get("id") for _, each in page.elements}
    assert {(each["href"] or "")[1:] for each in page.all("a")} <= targets


@pytest.mark.parametrize("evil", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a\x00\x1b[2J\n</td>"])
def test_names_are_only_text(evil: str) -> None:
    """Segments, versions and ids of the host cannot become elements."""
    page = _page(report("block", [cell(), failed("answer_coverage", evil)]))
    assert page.all("script") == []
    assert page.all("img") == []
    assert "\x1b" not in page.text
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)


def test_a_segment_of_another_script_leaves_the_numbers_where_they_are() -> None:
    """A name that runs from right to left stands by itself, so that the count behind it does not move before it."""
    shown = render(report("block", grid(failed("broken_generation", reported.SEGMENTS[0], 0.4))), "html")
    titles = re.findall(r"<summary[^>]*>(.*?)</summary>", shown, re.DOTALL)
    (signature,) = [title for title in titles if "were sound here" in title]
    parts = re.findall(r"<(b|span)([^>]*)>", signature)
    assert len(parts) == 2
    assert all('dir="auto"' in attributes for _, attributes in parts)


def test_readable_without_the_plots() -> None:
    """The figures stand in tables with heads; drawings are hidden from readers of texts, states are words."""
    page = _page()
    assert all(each.get("aria-hidden") == "true" for each in page.all("svg"))
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(each.get("scope") in ("row", "col") for each in page.all("th"))
    assert page.text.count("FAILED") >= 4


def test_open_where_something_is_wrong() -> None:
    """Metrics that passed are folded."""
    details = [each for each in _page().all("details") if each.get("class") != "break"]
    assert sum("open" in each for each in details) == 5
    assert len(details) == len(reported.RULES)
    (signature,) = _page().all("details", "break")
    assert "open" in signature


def test_an_interval_stands_where_it_is() -> None:
    """Low, mean and high in their order, all on the side of harm; zero and margin between them and the better side."""
    bad = failed(harm=0.12)
    svg = scale([bad]).interval(bad)
    harm, *lines = [[float(x) for x in _X.findall(part)] for part in re.findall(r"<(?:rect|line|circle)[^>]*>", svg)]
    margin, zero, (low, high), _, _, (mean,) = lines
    assert low < mean < high < margin[0] < zero[0]
    assert harm[0] < low
    assert harm[0] + harm[1] == pytest.approx(margin[0], abs=0.02)


def test_harm_of_what_should_be_low_is_right_of_zero() -> None:
    """The shaded part lies where the metric gets worse."""
    bad = failed("contradiction_rate", harm=0.12)
    svg = scale([bad]).interval(bad)
    rect, margin, zero = [[float(x) for x in _X.findall(part)] for part in re.findall(r"<(?:rect|line)[^>]*>", svg)][:3]
    assert zero[0] < margin[0] == rect[0]


def test_nothing_to_draw() -> None:
    """Undefined cells and floors have rows, and no plot."""
    low = cell(family="floors", outcome="fail", baseline=None, difference=None, candidate=0.5, low=0.45, high=0.55,
               margin=0.0)  # fmt: skip
    page = _page(report("block", [low, reported.empty("answer_coverage", None)]))
    assert page.all("svg", "interval") == []
    assert "all requests, against the floor" in page.text
    assert "45.0 % to 55.0 %" in page.text


@pytest.mark.parametrize("made", [reported.blocked, reported.missing])
def test_nothing_is_wider_than_a_phone(made: Callable[[], GateReport], tmp_path: Path) -> None:
    """Long ids, many segments and long names wrap, or scroll inside of their own frame."""
    long = [failed("citation_coverage", "a" * 90), *(cell("answer_coverage", f"segment-{at}") for at in range(20))]
    found = made()
    page = render(msgspec.structs.replace(found, cells=(*found.cells, *long)), "html")
    assert examined(page, tmp_path, width=390)["wider"] <= 0


@pytest.mark.parametrize("dark", [False, True])
def test_in_a_browser(dark: bool, tmp_path: Path) -> None:
    """The page follows the reader's colors, and keeps its margin."""
    picture = pixels(photographed(render(reported.blocked(), "html"), tmp_path, width=500, height=1200, dark=dark))
    corner = int(picture[-1, -1, :3].max())
    assert corner < 60 if dark else corner > 240
    background = picture[:, -4, :3].astype(int)
    assert (abs(background - background[0]).max(axis=1) < 12).mean() > 0.9
