"""Embeddings of the demo's chunks are computed once and read from the disk afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtrace.demo._retrieval import cache_folder, kept_embeddings


class Counting:
    """Stands for an encoder; knows how often it was used."""

    def __init__(self, name: str = "small", revision: str = "1") -> None:
        self.name = name
        self.revision = revision
        self.used = 0

    def encode(self, texts: Sequence[str], *, on_progress: Callable[[int], None] | None, threads: int | None) -> Any:
        """One vector for each text."""
        self.used += 1
        return np.asarray([[len(text), 1.0] for text in texts], dtype=np.float32)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_the_second_time_nothing_is_computed() -> None:
    """And the vectors are the same."""
    encoder: Any = Counting()
    first = kept_embeddings(["a", "bb"], encoder)
    assert np.array_equal(kept_embeddings(["a", "bb"], encoder), first)
    assert (encoder.used, first.tolist()) == (1, [[1.0, 1.0], [2.0, 1.0]])


def test_other_texts_and_other_models_are_not_mixed_up() -> None:
    """Each has a file of its own."""
    makers: list[Any] = [Counting(), Counting(name="large"), Counting(revision="2")]
    for encoder in makers:
        for texts in (["a", "bb"], ["bb", "a"], ["a"]):
            kept_embeddings(texts, encoder)
    assert [encoder.used for encoder in makers] == [3, 3, 3]
    assert len(list(cache_folder().iterdir())) == 9


def test_a_damaged_file_is_made_again() -> None:
    """Cut short, or something else."""
    encoder: Any = Counting()
    kept_embeddings(["a"], encoder)
    (file,) = cache_folder().iterdir()
    for content in (b"", file.read_bytes()[:-3], b"text"):
        file.write_bytes(content)
        assert kept_embeddings(["a"], encoder).tolist() == [[1.0, 1.0]]
    assert encoder.used == 4


def test_without_a_folder_it_is_only_slower(folder: Path) -> None:
    """A file stands where the folder should be."""
    (folder / "ragtrace").write_text("")
    encoder: Any = Counting()
    for _ in range(2):
        assert len(kept_embeddings(["a", "b"], encoder)) == 2
    assert encoder.used == 2
