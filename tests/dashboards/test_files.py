"""Dashboards for a user with another data source, metric prefix or trace URL."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragtrace import installation
from ragtrace.dashboards import FILES, dashboard_files, write_files
from ragtrace.errors import ConfigurationError
from tests.dashboards.asked import asked


def test_nothing_changes_unless_asked() -> None:
    """Without a setting the shipped files come out as they are."""
    shipped = installation.folder("dashboards") / "generated"
    assert dashboard_files() == {name: (shipped / name).read_text(encoding="utf-8") for name in sorted(FILES)}


def test_prefix_stands_before_every_metric() -> None:
    """In targets, variables and annotations, and nowhere else: uids and commands keep their names."""
    for text in dashboard_files(metric_prefix="acme_").values():
        dashboard = json.loads(text)
        assert dashboard["uid"].startswith("ragtrace-")
        exprs = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
        exprs += [each["expr"] for each in dashboard["annotations"]["list"]]
        names = {one.name for expr in exprs for one in asked(expr)} - {"ALERTS"}
        assert names
        assert all(name.startswith("acme_ragtrace_") for name in names)
        queries = [each["definition"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
        assert queries
        assert all(query.startswith("label_values(acme_ragtrace_") for query in queries)


def test_data_source_and_trace_url_are_chosen() -> None:
    """They are what the variables hold when a dashboard opens."""
    for text in dashboard_files(datasource="Mimir", trace_url="https://traces/").values():
        variables = {each["name"]: each for each in json.loads(text)["templating"]["list"]}
        assert variables["datasource"]["current"]["value"] == "Mimir"
        assert variables["datasource"]["query"] == "prometheus"
        assert variables["trace_url"]["current"]["value"] == variables["trace_url"]["query"] == "https://traces/"


@pytest.mark.parametrize("prefix", ["9a", "a-b", "a b", "é"])
def test_prefix_that_no_metric_can_have_is_refused(prefix: str) -> None:
    """The message says what may stand there."""
    with pytest.raises(ConfigurationError, match="--metric-prefix"):
        dashboard_files(metric_prefix=prefix)


def test_folder_is_made(tmp_path: Path) -> None:
    """Files are written into a folder that is made; one that cannot be is an error."""
    files = write_files(tmp_path / "new" / "folder", {"a.json": "{}\n"})
    assert [file.read_text(encoding="utf-8") for file in files] == ["{}\n"]
    with pytest.raises(ConfigurationError, match="give another --out"):
        write_files(files[0], {"a.json": "{}"})
