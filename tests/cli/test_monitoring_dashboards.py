"""`ragtrace dashboards`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ragtrace.dashboards import FILES

if TYPE_CHECKING:
    from tests.cli.conftest import Cli


def test_render_writes_every_dashboard(cli: Cli, tmp_path: Path) -> None:
    """Nine files that Grafana imports, with the settings of the user, and no SDK needed."""
    done = cli("dashboards", "render", "--out", "mine", "--datasource", "Mimir", "--metric-prefix", "acme_")

    assert done.returncode == 0, done.stderr
    assert done.stdout == f"wrote {len(FILES)} dashboards into mine\n"
    overview = json.loads((tmp_path / "mine" / "ragtrace-overview.json").read_text(encoding="utf-8"))
    assert overview["templating"]["list"][0]["current"]["text"] == "Mimir"
    assert "acme_ragtrace_sli_requests_total" in json.dumps(overview)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("render", "--metric-prefix", "1-"), "--metric-prefix"),
    ],
)
def test_what_cannot_be_done_is_one_line(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    """Exit code 2, one line on stderr, and no file."""
    done = cli("dashboards", *arguments)

    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
