"""Greedy generation by a causal language model."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ragtrace.engines.causal_lm import CausalLM
from ragtrace.errors import ModelError

_BOS = 1
_CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message['role'] }} : {{ message['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}assistant :{% endif %}"
)


@pytest.fixture(params=["plain", "chat"])
def folder(request: pytest.FixtureRequest, tiny_causal_lm: Path, tmp_path: Path) -> Path:
    """The tiny model without and with a chat template."""
    copy = tmp_path / "model"
    shutil.copytree(tiny_causal_lm, copy)
    if request.param == "chat":
        (copy / "chat_template.jinja").write_text(_CHAT_TEMPLATE)
    return copy


def test_one_bos(folder: Path) -> None:
    """A prompt gets exactly one BOS, with a chat template that writes one and without."""
    ids = CausalLM.load(folder).encode("the limit is")
    assert ids[0] == _BOS
    assert ids.count(_BOS) == 1


def test_the_chat_format_is_used(tiny_causal_lm: Path, tmp_path: Path) -> None:
    """With a chat template the prompt becomes a user's message and the assistant's turn is opened."""
    shutil.copytree(tiny_causal_lm, tmp_path, dirs_exist_ok=True)
    plain = CausalLM.load(tmp_path).encode("the limit")
    (tmp_path / "chat_template.jinja").write_text(_CHAT_TEMPLATE)
    chat = CausalLM.load(tmp_path).encode("the limit")
    assert len(chat) == len(plain) + 4  # "user :" before, "assistant :" behind


def test_generation_is_greedy_and_counted(folder: Path) -> None:
    """The same prompt gives the same text; the counts are the model's own."""
    model = CausalLM.load(folder)
    first = model.generate("the limit is", max_new_tokens=5)
    assert model.generate("the limit is", max_new_tokens=5) == first
    assert first.input_tokens == len(model.encode("the limit is"))
    assert 1 <= first.output_tokens <= 5
    assert first.finish_reason == ("length" if first.output_tokens == 5 else "stop")


def test_a_prompt_that_is_too_long(folder: Path) -> None:
    """A prompt past the model's positions is a model error, not a garbled answer."""
    model = CausalLM.load(folder)
    with pytest.raises(ModelError, match=r"do not fit the 128 positions"):
        model.generate("limit " * 200)
