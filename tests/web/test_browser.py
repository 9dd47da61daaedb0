"""The pages in real Chromium: they fit a phone, say nothing to the console, and light the sentence behind a claim."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

import pytest

from ragtrace.analyze import analyze_record
from ragtrace.store import Drawing, Drawn, Finished, Store
from ragtrace.web import WebSettings, serving
from tests.web.browser import Browser, browsing
from tests.web.gated import COMPARED, RUN
from tests.web.stored import ALTERED, EXPLAINED, HOSTILE, LARGE, LOST, SERVICE, large, store_of

AXE: Final = "4.14.1"
PAGES: Final = {
    "services": "/",
    "overview": f"/?service={quote(SERVICE)}",
    "requests": "/requests?reason=contradicted",
    "request": f"/requests/{ALTERED}",
    "hostile": f"/requests/{HOSTILE}",
    "triage": f"/triage?service={quote(SERVICE)}",
    "explanation": f"/requests/{EXPLAINED}",
    "label": f"/label?service={quote(SERVICE)}",
    "runbook": "/runbooks/retrieval",
    "progress": f"/explanations/{LOST}",
    "gate": "/gate",
    "gate run": f"/gate/{RUN}",
    "comparison": COMPARED,
}
CONTRAST: Final = """
(() => {
  const parse = (color) => { const p = color.match(/[\\d.]+/g).map(Number); return p.length < 4 ? [...p, 1] : p; };
  const part = (v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const behind = (node) => {
    for (let one = node; one; one = one.parentElement) {
      const color = parse(getComputedStyle(one).backgroundColor);
      if (color[3] === 1) return color;
      if (color[3] > 0) return null;
    }
    return parse(getComputedStyle(document.body).backgroundColor);
  };
  const bad = [];
  const walker = document.createTreeWalker(document.querySelector("body"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    if (!text || node.closest("svg, script, caption, .skip") || !node.getClientRects().length) continue;
    const back = behind(node);
    if (!back) continue;
    const [one, other] = [light(parse(getComputedStyle(node).color)), light(back)].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    if (ratio < 4.5) bad.push(`${ratio.toFixed(2)} ${node.tagName}.${node.className}: ${text.slice(0, 40)}`);
  }
  return bad;
})()
"""
WIDEST: Final = "document.documentElement.scrollWidth"
"""Pixels; beside the width that was asked for, since the window of a phone grows with a page that is too wide."""
NAMELESS: Final = """
[...document.querySelectorAll("input:not([type=hidden]), select, button, a, svg[role=img]")].filter((node) =>
  !(node.textContent.trim() || node.getAttribute("aria-label") || (node.labels && node.labels.length))
).map((node) => node.outerHTML.slice(0, 80))
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the pages."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = store_of(tmp_path_factory.mktemp("pages"))
    with Store.open(url) as store:
        store.write([large()])
        for job in store.claim("large"):
            store.finish([Finished(job, analyze_record(large()), ())])
        drawing = Drawing("d", SERVICE, 0, 2**62, {}, "j", 1, 1.0)
        store.draw(drawing, [Drawn(LOST, 0, "named", 1.0), Drawn(ALTERED, 1, "named", 1.0)])
    with serving(url, WebSettings(port=port, may_judge=True, labeler="me")) as address:
        yield address.rstrip("/")


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of pages that take no labels."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with serving(store_of(tmp_path_factory.mktemp("readers")), WebSettings(port=port)) as address:
        yield address.rstrip("/")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all of them."""
    with browsing(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_is_readable_and_complains_of_nothing(browser: Browser, pages: str, page: str) -> None:
    """At 360 and 1,280 pixels, light and dark: nothing is wider than the window, every text has a contrast of 4.5,
    every control a name, and the policy stops nothing."""
    for width, dark in ((360, True), (1280, False)):
        browser.open(pages + PAGES[page], width=width, dark=dark)
        assert browser.run(WIDEST) <= width
        assert browser.run(CONTRAST) == []
        assert browser.run(NAMELESS) == []
        assert browser.complaints == []


def test_a_reader_s_triage_fits_a_phone(browser: Browser, readers: str) -> None:
    """The command that judges the alert is longer than the window."""
    browser.open(f"{readers}{PAGES['triage']}&stage=ranking&segment=limit", width=360)
    assert "ragtrace triage judge" in browser.run("document.querySelector('pre').textContent")
    assert browser.run(WIDEST) <= 360


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The checks of axe-core, from the npm registry: MPL-2.0, and no part of ragtrace."""
    npm, folder = shutil.which("npm"), tmp_path_factory.mktemp("axe")
    if npm is None:
        pytest.skip("npm is missing; it brings axe-core")
    command = [npm, "pack", f"axe-core@{AXE}", "--pack-destination", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        pytest.skip(f"npm gave no axe-core {AXE}: {done.stderr[-200:]}")
    with tarfile.open(next(folder.glob("*.tgz"))) as packed:
        script = packed.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing_serious(browser: Browser, pages: str, axe: str, page: str) -> None:
    """By the rules of WCAG A and AA and the best practices, whatever it calls serious or critical."""
    browser.open(pages + PAGES[page], width=360 if len(page) % 2 else 1280, dark=len(page) % 2 == 0)
    browser.run(f"{axe}; 1")
    found = browser.run(
        "axe.run().then((found) => found.violations.filter((one) => ['serious', 'critical'].includes(one.impact))"
        ".map((one) => [one.id, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160))]))"
    )
    assert found == []


def test_200_candidates_and_100_claims_are_drawn_in_a_second(browser: Browser, pages: str) -> None:
    """From the navigation to the painted page; nothing is wider than the window, up to 2,000 pixels."""
    for width in (360, 2000):
        browser.open(f"{pages}/requests/{LARGE}", width=width)
        assert browser.run("performance.getEntriesByType('navigation')[0].loadEventEnd") <= 1_000
        assert browser.run(WIDEST) <= width
        assert browser.run("document.querySelectorAll('a.claim').length") == 100
        assert browser.run("document.querySelectorAll('.others li, .chunk-text').length") == 200
        assert browser.complaints == []


def test_a_claim_lights_its_sentence_by_pointer_and_by_keyboard(browser: Browser, pages: str) -> None:
    """And where it is followed, the page goes to the sentence."""
    outline = "getComputedStyle(document.querySelector('.sentence.c1')).outlineStyle"
    browser.open(pages + PAGES["request"])
    assert browser.run(outline) == "none"
    browser.point("#claim-1")
    assert browser.run(outline) == "solid"
    browser.point("h1")
    assert browser.run(outline) == "none"
    browser.run("document.querySelector('#claim-1').focus({focusVisible: true})")
    assert browser.run(outline) == "solid"
    browser.run("document.querySelector('#claim-1').click()")
    assert browser.run("document.querySelector(':target').nextElementSibling.className") == "sentence c1 bad "


def test_a_phone_shows_the_newest_end_of_the_time_axis(browser: Browser, pages: str) -> None:
    """With the names of the stages at that end; a wide window has them at the left alone."""
    shown = (
        "[...document.querySelectorAll('svg.trend text.again')].filter((one) => one.getClientRects().length)"
        ".map((one) => one.getBoundingClientRect().right <= document.documentElement.clientWidth)"
    )
    browser.open(pages + PAGES["overview"], width=360)
    assert browser.run(shown) == [True] * 4
    browser.open(pages + PAGES["overview"], width=1280)
    assert browser.run(shown) == []


def test_from_the_overview_to_the_altered_sentence_in_two_steps(browser: Browser, pages: str) -> None:
    """The overview names the stage, and its link leads to a request whose altered value is marked."""
    browser.open(pages + PAGES["overview"])
    assert "generation" in browser.run("document.querySelector('.breaks tbody').innerText")
    rows = "[...document.querySelectorAll('.breaks tbody tr')]"
    browser.run(f"{rows}.find((row) => row.innerText.includes('generation')).querySelector('a.button').click()")
    browser.wait("location.pathname.startsWith('/requests/')")
    assert "91,500" in browser.run("[...document.querySelectorAll('.fault mark')].map((one) => one.textContent).join()")


def test_a_request_is_labeled_by_keys_alone(browser: Browser, pages: str) -> None:
    """A digit answers the stage that is asked, and k keeps it and shows the next request."""
    browser.open(pages + PAGES["label"])
    assert browser.run("document.querySelector('fieldset.asked legend').textContent") == "retrieval"
    for key in "1213":
        browser.press(key)
        browser.call("Input.dispatchKeyEvent", type="keyDown", key="2", text="2", autoRepeat=True)  # one that is held
    chosen = "[...document.querySelectorAll('input[type=radio]:checked')].map((one) => one.value).join()"
    assert browser.run(chosen) == "sound,broken,sound,cannot_tell"
    browser.press("k")
    browser.wait("location.search.includes('kept=')")
    assert "label 2 of 2" in browser.run("document.querySelector('.eyebrow').textContent")
    assert browser.complaints == []
