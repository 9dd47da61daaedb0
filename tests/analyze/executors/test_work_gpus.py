"""How GPUs are divided among workers."""

from __future__ import annotations

import pytest

from ragtrace.analyze import _executor_work as work
from ragtrace.analyze._executor_work import gpus_for_each, gpus_of, visible_gpus
from ragtrace.errors import ConfigurationError


@pytest.mark.parametrize(
    ("workers", "there", "wanted", "each"),
    [
        (2, 0, None, 0),
        (2, 2, None, 1),
        (1, 8, None, 1),
        (4, 2, None, 0.5),
        (4, 3, None, 0.5),
        (5, 2, None, 1 / 3),
        (2, 4, 2.0, 2),
        (4, 1, 0.25, 0.25),
        (3, 2, 0.0, 0),
        (6, 2, 1 / 3, 1 / 3),
    ],
)
def test_each_gets_what_is_wanted_or_an_equal_part(workers: int, there: int, wanted: float | None, each: float) -> None:
    """Unasked, one GPU for each, and where there are fewer a part that lets all of them in."""
    assert gpus_for_each(workers, there, wanted) == pytest.approx(each)


@pytest.mark.parametrize(
    ("workers", "there", "wanted", "most"),
    [(2, 1, 1.0, "0.5"), (3, 4, 2.0, "1"), (1, 0, 1.0, "0"), (4, 1, 0.5, "0.25")],
)
def test_more_than_there_are_is_refused(workers: int, there: int, wanted: float, most: str) -> None:
    """The message says how much is possible."""
    with pytest.raises(
        ConfigurationError, match=rf"{wanted} is not usable; give at most {most}: GPUs {there}, workers"
    ):
        gpus_for_each(workers, there, wanted)


@pytest.mark.parametrize("wanted", [-1.0, 1.5, float("inf"), float("nan")])
def test_what_is_no_share_is_refused(wanted: float) -> None:
    """Parts of one, or whole ones."""
    with pytest.raises(ConfigurationError, match="a part of one GPU, or a whole number"):
        gpus_for_each(1, 4, wanted)


@pytest.mark.parametrize(
    ("share", "given"),
    [
        (0.0, [[], []]),
        (1.0, [["4"], ["5"], ["6"]]),
        (0.5, [["4"], ["4"], ["5"], ["5"], ["6"], ["6"]]),
        (1 / 3, [["4"], ["4"], ["4"], ["5"]]),
        (2.0, [["4", "5"]]),
    ],
)
def test_gpus_go_by_the_number_of_the_worker(share: float, given: list[list[str]]) -> None:
    """Neighbors share one; none is given to more workers than fit."""
    assert [gpus_of(number, share, ["4", "5", "6"]) for number in range(len(given))] == given


def test_names_are_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a scheduler allowed this process is divided, and nothing else."""
    monkeypatch.setattr(work, "gpu_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert visible_gpus() == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a, GPU-b")
    assert visible_gpus() == ["GPU-a", "GPU-b"]
