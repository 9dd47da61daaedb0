"""Text generation by a Hugging Face causal language model, loaded by folder or name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtrace.engines.loading import load_package, load_pretrained
from ragtrace.errors import ModelError

__all__ = ["CausalLM", "Generated"]


@dataclass(frozen=True, slots=True)
class Generated:
    """A generated text with the model's own token counts. `finish_reason` is `stop` or `length`."""

    text: str
    input_tokens: int
    output_tokens: int
    finish_reason: str


class CausalLM:
    """A causal language model that continues a prompt greedily, so that the same prompt gives the same text."""

    def __init__(self, name: str, model: Any, tokenizer: Any) -> None:
        self.name = name
        self._model = model
        self._tokenizer = tokenizer

    @classmethod
    def load(cls, model: str | Path) -> CausalLM:
        """Load model and tokenizer from a folder, or by their Hugging Face name.

        Raises: ModelError when they cannot be loaded, MissingExtraError without the models extra.
        """
        library = load_package("transformers")
        device = "cuda" if load_package("torch").cuda.is_available() else "cpu"

        def load(name: str, local: bool) -> tuple[Any, Any]:
            tokenizer = library.AutoTokenizer.from_pretrained(name, local_files_only=local)
            return library.AutoModelForCausalLM.from_pretrained(name, local_files_only=local), tokenizer

        loaded, tokenizer = load_pretrained(model, load)
        return cls(Path(model).name, loaded.to(device).eval(), tokenizer)

    def encode(self, prompt: str) -> list[int]:
        """Token ids of `prompt` as a user's message, in the model's chat format where it has one.

        The template is rendered straight to ids: a rendered string that is tokenized again gets a second BOS.
        """
        if getattr(self._tokenizer, "chat_template", None):
            messages = [{"role": "user", "content": prompt}]
            encoded = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
        else:
            encoded = self._tokenizer(prompt)
        return [int(token) for token in encoded["input_ids"]]

    def generate(self, prompt: str, *, max_new_tokens: int = 96) -> Generated:
        """The greedy continuation of `prompt`.

        Raises: ModelError when the prompt leaves no room in the model's context for `max_new_tokens`.
        """
        import torch

        ids = self.encode(prompt)
        self._check_length(len(ids), max_new_tokens)
        given = torch.tensor([ids], device=self._model.device)
        with torch.inference_mode():
            full = self._model.generate(
                input_ids=given,
                attention_mask=torch.ones_like(given),
                do_sample=False,
                max_new_tokens=max_new_tokens,
                pad_token_id=self._stop_id,
            )
        new = full[0, len(ids) :].tolist()
        text = self._tokenizer.decode(new, skip_special_tokens=True).strip()
        return Generated(text, len(ids), len(new), "length" if len(new) >= max_new_tokens else "stop")

    @property
    def _stop_id(self) -> int | None:
        padding = self._tokenizer.pad_token_id
        return int(padding) if padding is not None else self._tokenizer.eos_token_id

    def _check_length(self, given: int, wanted: int) -> None:
        allowed = getattr(self._model.config, "max_position_embeddings", None)
        if allowed is not None and given + wanted > allowed:
            raise ModelError(
                f"a prompt of {given} tokens and {wanted} new ones do not fit the {allowed} positions of "
                f"{self.name!r}; give a model with a longer context"
            )
