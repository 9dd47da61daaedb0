"""What each framework returned, as recorded by `make frameworks`, is read the same where the framework is missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ragtrace.record.coercion import Chunk, read_chunks
from tests.frameworks.look_alikes import build

FILES = sorted((Path(__file__).parent / "recorded").glob("*.json"))
CASES = {
    f"{path.stem}-{name}": case
    for path in FILES
    for name, case in json.loads(path.read_text(encoding="utf-8"))["cases"].items()
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_recorded_result_is_read_without_its_library(case: dict[str, Any]) -> None:
    """The same chunks as from the real object, at their places, twice in a row, and the library is not imported."""
    before = set(sys.modules)
    for _ in range(2):
        read = read_chunks(build(case["value"]))
        assert read.ranked == list(enumerate((Chunk(**chunk) for chunk in case["chunks"]), 1))
        assert read.unread == []
    assert all(name.startswith(("ragtrace.", "numpy.")) for name in set(sys.modules) - before)


def test_every_framework_has_a_recording() -> None:
    """A test of a framework without a recording would leave the core suite blind to it."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py")}
    tests = {name.removeprefix("test_") for name, body in texts.items() if "import Reads\n" in body}
    assert tests == {path.stem for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_a_recording_says_what_it_is_of(path: Path) -> None:
    """The versions stand in the file."""
    recorded = json.loads(path.read_text(encoding="utf-8"))
    assert recorded["recorded_with"]
    assert recorded["cases"]
