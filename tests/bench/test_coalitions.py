"""The benchmark of coalitions, with a tiny model: on the CPU, and on a card that is pretended."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from bench import coalitions
from bench.prefill import Work, large, linears, matrix_rate, work_of
from tests.engines.pretending import pretended

torch = pytest.importorskip("torch", reason="pip install 'ragtrace[models]'")

TINY = 0.001
SEQUENCES = [[1, 2, 3, 4, 5, 6], [1, 2, 3, 9, 5, 6], [1, 2, 7, 7, 5, 6]]


def test_the_work_of_a_prefill() -> None:
    """Shared beginnings once, weights without embeddings, attention to what stands before, logits of answers."""
    model = large(TINY, "cpu", seed=0)
    found = work_of(model, SEQUENCES, own=2)
    read = [1, 2, 3, 3, *[4, 5] * 3]  # tokens that each token sees: 1, 2, 3 and 7 once, two at each end
    config = model.config
    per_layer = 64 * (64 + 2 * 2 * 16) + 64 * 64 + 3 * 64 * 128  # q, k, v; o; the feed-forward layers
    assert found == Work(
        tokens=len(read),
        weights=2.0 * 2 * per_layer * len(read),
        attention=4.0 * 2 * 64 * sum(read),
        logits=2.0 * config.vocab_size * 64 * len(SEQUENCES) * 2,
    )
    assert found.total == found.weights + found.attention + found.logits


def test_the_matrix_rate_is_that_of_the_layers_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the model's matrices, none of its embeddings, and nothing else."""
    model, asked = large(TINY, "cpu", seed=0), []
    linear = torch.nn.functional.linear

    def noted(given: Any, weight: Any) -> Any:
        asked.append(id(weight))
        return linear(given, weight)

    monkeypatch.setattr(torch.nn.functional, "linear", noted)
    assert matrix_rate(model) > 0
    assert set(asked) == {id(layer.weight) for layer in linears(model)}


def printed(device: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """What the benchmark says of a tiny model."""
    options = ["--coalitions", "4", "--pack-sizes", "256", "--billions", str(TINY), "--device", device]
    monkeypatch.setattr(sys, "argv", ["coalitions.py", *options])
    monkeypatch.setattr(coalitions, "small", lambda: large(TINY, "cpu", seed=1).float())
    coalitions.main()
    return capsys.readouterr().out


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_all_that_it_does_for_a_large_model(
    device: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each way, the share of the matrix rate, half the memory that loses nothing, and float32 beside the CPU."""
    if device == "cuda":
        with pretended(monkeypatch):
            text = printed(device, monkeypatch, capsys)
        assert "bfloat16 on a card that is pretended, torch " in text
        assert text.count("GiB at most") == 4
    else:
        text = printed(device, monkeypatch, capsys)
    assert re.search(r"^shared, 256 +\d+\.\d+ x as fast", text, re.MULTILINE)
    assert re.search(r"^\d+% of the matrix rate .* for the \d+ tokens that remain", text, re.MULTILINE)
    scarce = re.findall(r"with half the memory: halved (\d+) times, (\d+) scores missing", text)
    assert [int(missing) for _, missing in scarce] == [0, 0]
    assert all(int(halved) > 0 for halved, _ in scarce)
    apart = re.findall(r"in float32 beside the CPU: max \|difference of log p\| (\S+)", text)
    assert len(apart) == 3
    assert max(map(float, apart)) < 1e-4
