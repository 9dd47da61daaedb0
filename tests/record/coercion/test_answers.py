"""What a generator may return, and be given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ragtrace.record.coercion import Unreadable, read_answer, read_prompt
from ragtrace.types import Citation, TokenUsage

OPENAI = SimpleNamespace(
    model="gpt-4o",
    choices=[SimpleNamespace(message=SimpleNamespace(content="So."), finish_reason="stop")],
    usage=SimpleNamespace(prompt_tokens=7, completion_tokens=2),
)
ANTHROPIC = SimpleNamespace(
    model="claude",
    content=[SimpleNamespace(type="text", text="S"), SimpleNamespace(type="text", text="o.")],
    stop_reason="end_turn",
    usage=SimpleNamespace(input_tokens=7, output_tokens=2),
)


@pytest.mark.parametrize(
    "value",
    [
        "So.",
        {"answer": "So."},
        {"text": "So."},
        SimpleNamespace(content="So."),
        [{"generated_text": "So."}],
        ("So.", ["a"]),
        {"choices": [{"message": {"content": "So."}}]},
        OPENAI,
        ANTHROPIC,
    ],
)
def test_answers(value: Any) -> None:
    """Texts, mappings and the usual responses."""
    assert read_answer(value).answer == "So."


@pytest.mark.parametrize(("value", "finish"), [(OPENAI, "stop"), (ANTHROPIC, "end_turn")])
def test_what_comes_with_a_response(value: Any, finish: str) -> None:
    """Model, usage and finish reason."""
    generation = read_answer(value)
    assert generation.usage == TokenUsage(input_tokens=7, output_tokens=2)
    assert (generation.finish_reason, generation.model) == (finish, value.model)


def test_citations() -> None:
    """Chunk ids, places in the prompt (from 1), mappings with offsets; a place that is not there dangles."""
    given = ["a", 2, 9, {"marker": "[1]", "chunk_id": "c", "start": 3, "end": 6}, Citation(marker="x")]
    assert read_answer({"answer": "So.", "citations": given}, ["a", "b"]).citations == (
        Citation(marker="a", chunk_id="a"),
        Citation(marker="[2]", chunk_id="b"),
        Citation(marker="[9]"),
        Citation(marker="[1]", chunk_id="c", start=3, end=6),
        Citation(marker="x"),
    )


@pytest.mark.parametrize("value", [5, None, object(), {}, [], {"answer": 5}])
def test_what_holds_no_answer_is_unreadable(value: Any) -> None:
    """It is named by its type."""
    with pytest.raises(Unreadable) as caught:
        read_answer(value)
    assert caught.value.kind == type(value).__name__


@pytest.mark.parametrize("value", [("So.", ["a"]), (["a"], "So."), ((), "So."), (["a"], {"answer": "So."}, 3)])
def test_the_answer_beside_the_documents_used(value: Any) -> None:
    """In either order; a document is no answer."""
    assert read_answer(value).answer == "So."


def test_prompts() -> None:
    """A text, or chat messages one after the other."""
    messages = [{"role": "system", "content": "Be brief."}, SimpleNamespace(content="When?")]
    assert read_prompt("When?") == "When?"
    assert read_prompt(messages) == "Be brief.\n\nWhen?"
    assert read_prompt(5) is None
