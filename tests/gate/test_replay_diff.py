"""Two replays question by question."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtrace.errors import InputError
from ragtrace.gate.replay_diff import ReplayDiff, diff_html, diff_markdown, diff_replays
from tests.gate.asked import judged, written


@pytest.fixture
def sides(tmp_path: Path) -> tuple[str, str]:
    """Four questions of both sides: the same, another prompt, another answer, one that broke; and one of each alone."""
    names = ("same?", "prompt?", "answer?", "broken <b>?")
    before = [judged(f"a{at}", question=name, segment=f"s{at % 2}") for at, name in enumerate((*names, "old?"))]
    after = [
        judged("b0", question=names[0]),
        judged("b1", packed=("c2", "c1"), question=names[1]),
        judged("b2", "Up to 500 EUR.", question=names[2]),
        judged("b3", "Never.", ("c2",), question=names[3], broken="ranking", support=0.0),
        judged("b4", question="new?"),
    ]
    return written(tmp_path / "a.jsonl", *before), written(tmp_path / "b.jsonl", *after)


def _listed(diff: ReplayDiff) -> list[str | None]:
    return [pair.question for pair in diff.listed]


def test_what_changed_is_counted_and_listed(sides: tuple[str, str]) -> None:
    """What broke comes first; what is the same is counted only, what one side alone has as well."""
    diff = diff_replays(*sides)
    assert (diff.questions, diff.same, diff.missing, diff.left_out) == (4, 1, 0, 0)
    assert (diff.baseline.unmatched, diff.candidate.unmatched) == (1, 1)
    assert diff.changed == {"worse": 1, "better": 0, "answer": 2, "evidence": 1, "prompt": 2}
    assert _listed(diff) == ["broken <b>?", "answer?", "prompt?"]


def test_what_is_asked_for(sides: tuple[str, str]) -> None:
    """By change, by segment, by words, and no more than the limit."""
    assert _listed(diff_replays(*sides, only=["prompt"])) == ["broken <b>?", "prompt?"]
    assert _listed(diff_replays(*sides, containing="SAME")) == ["same?"]
    of_segment = diff_replays(*sides, segment="s0")
    assert (of_segment.questions, sorted(map(str, _listed(of_segment)))) == (2, ["answer?", "same?"])
    first = diff_replays(*sides, limit=1)
    assert (_listed(first), first.left_out) == (["broken <b>?"], 2)


def test_what_is_not_stored_is_not_called_the_same(tmp_path: Path) -> None:
    """Without the answers nobody can say that nothing changed."""
    one, two = (
        written(tmp_path / f"{side}.jsonl", judged(f"{side}0", None), judged(f"{side}1", question="else?"))
        for side in "ab"
    )
    diff = diff_replays(one, two)
    assert (diff.questions, diff.same, diff.unknown) == (2, 1, 1)
    assert "1 without any of these changes; of 1 the answer is not stored" in diff_markdown(diff)


def test_nothing_in_common(sides: tuple[str, str], tmp_path: Path) -> None:
    """An error names both."""
    other = written(tmp_path / "c.jsonl", judged("c", question="else?"))
    with pytest.raises(InputError, match="no question"):
        diff_replays(sides[0], other)


def test_the_forms_hold_the_texts(sides: tuple[str, str]) -> None:
    """Escaped, and readable without the files."""
    diff = diff_replays(*sides)
    page, text = diff_html(diff), diff_markdown(diff)
    assert "<ins>Never.</ins>" in page
    assert "broken &lt;b&gt;?" in page
    assert "<b>?" not in page
    assert r"broken \<b\>?" in text
    assert "| Theft is covered up to 500 EUR. | Never. |" in text
