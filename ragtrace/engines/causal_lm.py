"""A Hugging Face causal language model, loaded by folder or name: it generates texts and scores given answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ragtrace.engines.loading import device_of, load_package, load_pretrained, revision_of
from ragtrace.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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

    kind: Final = "causal_lm"

    def __init__(self, name: str, model: Any, tokenizer: Any) -> None:
        self.name = name
        self._model = model
        self._tokenizer = tokenizer

    @property
    def revision(self) -> str | None:
        """The commit of the model hub; None for a local folder."""
        return revision_of(self._model)

    @property
    def device(self) -> str:
        """`cpu`, `cuda` and the like."""
        return device_of(self._model)

    @classmethod
    def load(cls, model: str | Path, *, dtype: str | None = None) -> CausalLM:
        """Load model and tokenizer from a folder, or by their Hugging Face name.

        dtype: a torch type by name; by default bfloat16 on a GPU and float32 on a CPU.

        Raises: ModelError when they cannot be loaded, MissingExtraError without the models extra.
        """
        library = load_package("transformers")
        has_gpu = load_package("torch").cuda.is_available()
        device = "cuda" if has_gpu else "cpu"
        chosen = dtype or ("bfloat16" if has_gpu else "float32")

        def load(name: str, local: bool) -> tuple[Any, Any]:
            tokenizer = library.AutoTokenizer.from_pretrained(name, local_files_only=local)
            loaded = library.AutoModelForCausalLM.from_pretrained(name, local_files_only=local, dtype=chosen)
            return loaded, tokenizer

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

    def score(
        self,
        prompts: Sequence[str],
        answer: str,
        *,
        method: Literal["shared", "batched"] = "shared",
        batch: int = 16,
    ) -> NDArray[np.float64]:
        """Log-probabilities of each token of `answer` behind each prompt, teacher-forced: (prompts, answer tokens).

        shared: what prompts begin with alike is read once; batched: each is read whole, `batch` at a time.

        Raises: ModelError for an empty answer, or a prompt that does not fit into the model's context with it.
        """
        from ragtrace.engines.scoring import score_batched, score_verified

        own = self._answer_ids(prompts[0] if prompts else "", answer)
        sequences = [[*self.encode(prompt), *own] for prompt in prompts]
        if not sequences:
            import numpy as np

            return np.empty((0, len(own)))
        self._check_length(max(len(sequence) for sequence in sequences) - len(own), len(own))
        if method == "shared":
            return score_verified(self._model, sequences, len(own))
        return score_batched(self._model, sequences, len(own), batch=batch)

    def answer_places(self, prompt: str, answer: str) -> list[tuple[int, int]]:
        """Where each token that `score` gives stands in `answer`: (start, end) offsets."""
        tokenizer = self._tokenizer
        joint = self._join(prompt, answer)
        shift = len(joint) - len(answer)
        encoded = tokenizer(joint, add_special_tokens=False, return_offsets_mapping=True)
        count = len(self._answer_ids(prompt, answer))
        places = encoded["offset_mapping"][-count:]
        return [(max(0, int(start) - shift), max(0, int(end) - shift)) for start, end in places]

    def _answer_ids(self, prompt: str, answer: str) -> list[int]:
        """The answer's token ids as the model would have written them behind the prompt."""
        if not answer.strip():
            raise ModelError("the answer is empty, so that no token of it can be scored")
        joint = self._join(prompt, answer)
        before = self._tokenizer(joint[: len(joint) - len(answer)].rstrip(), add_special_tokens=False)["input_ids"]
        both = self._tokenizer(joint, add_special_tokens=False)["input_ids"]
        if both[: len(before)] != before or len(both) == len(before):
            both, before = self._tokenizer(answer, add_special_tokens=False)["input_ids"], []
        return [int(token) for token in both[len(before) :]]

    def _join(self, prompt: str, answer: str) -> str:
        """The end of what stands before the answer, and the answer: in a chat it begins a turn of its own."""
        if getattr(self._tokenizer, "chat_template", None):
            return answer
        last = prompt.rpartition("\n")[2]
        return f"{last} {answer}" if last and not last[-1].isspace() and not answer[0].isspace() else last + answer

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
