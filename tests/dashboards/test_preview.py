"""The file of the preview: it loads nothing, and no value of a label can break out of it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from ragtrace.dashboards.preview import page
from tests.dashboards.browser import examined

HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(1)">{style}'
DATA: dict[str, Any] = {
    "start": 0,
    "end": 60,
    "stage_colors": [],
    "trace_url": "http://t/{trace_id}",
    "about": HOSTILE,
    "findings": [{"text": HOSTILE, "good": False}],
    "releases": [{"at": 30, "name": HOSTILE}],
    "dashboards": [],
}


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
