"""What the verbs print alike."""

from __future__ import annotations

import pytest

from ragtrace.cli.terminal import print_table

COLUMNS = ("request", "started", "service", "verdict", "first request")
ROW = ("01a20394c7d97b6c9f425b6a03fb90c4", "2026-11-22 14:06:51Z", "policy-assistant", "healthy", "wordings-2025.02")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_narrow_terminal_cuts_nothing(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns are broken into lines, but for the id, which is copied from there."""
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(COLUMNS, [ROW])
    printed = capsys.readouterr().out
    assert ROW[0] in printed
    assert max(map(len, printed.splitlines())) <= width
    assert sorted("".join(printed.split())) == sorted("".join("".join((*COLUMNS, *ROW)).split()))
