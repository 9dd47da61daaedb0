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


def test_words_stay_whole_while_the_terminal_has_room(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cells are broken between their words before a word is."""
    heads = ("model", "condition", "segment", "k", "requests", "Spearman", "p", "WARG", "floor", "chance", "adjusted")
    interval = "-1.000 [-1.000, -1.000]"
    row = ("Qwen2.5-0.5B-Instruct", "deduplicated", "exception", "10", "1,250", interval, "0.5", interval, "0.062",
           "0.594", interval)  # fmt: skip
    monkeypatch.setenv("COLUMNS", "120")
    print_table(heads, [row])
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 120
    assert {word for cell in (*heads, *row) for word in cell.split()} <= set(printed.split())
