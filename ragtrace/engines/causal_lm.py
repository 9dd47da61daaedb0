"""A Hugging Face causal language model, loaded by folder or name: it generates texts and scores given answers.

Prompts and answers become token ids here: a prompt as a user's message in the model's chat format, where what it says
is text, whatever it says; a prompt and an answer as one text, cut where the answer begins. Of a model in less than
float32, a sample of prompts is scored in float32, too (`CheckedScoring`).
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from ragtrace.engines._scoring import positions
from ragtrace.engines.models import (
    LoadedModel,
    OutOfMemoryError,
    digest_of,
    find_gguf,
    load_package,
    load_pretrained,
    pass_on_unless_memory,
    read_gguf,
    torch_threads,
)
from ragtrace.engines.tokens import GivenText, joined
from ragtrace.errors import ModelError
from ragtrace.explanations import Precision

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "SAMPLE",
    "TOLERANCE",
    "CausalLM",
    "CheckedScoring",
    "Generated",
    "bare",
    "chat_ids",
    "chat_pieces",
    "continued",
]

_FLOAT32_BYTES: Final = 4
Place: TypeAlias = tuple[int, int]
_LOG: Final = logging.getLogger("ragtrace")
Piece: TypeAlias = tuple[int, int, int]
"""A token: its id, and where it stands in the prompt; outside of it where it is the format's."""


@dataclass(frozen=True, slots=True)
class Generated:
    """A generated text with the model's own token counts. `finish_reason` is `stop` or `length`."""

    text: str
    input_tokens: int
    output_tokens: int
    finish_reason: str


class CausalLM(LoadedModel):
    """A causal language model that continues a prompt greedily, so that the same prompt gives the same text.

    Attributes:
        workers: passes of `score` side by side on a CPU, each with its own thread; more than one is for a process that
            has the machine's cores to itself.
    """

    kind: Final = "causal_lm"

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: Any,
        load_float32: Callable[[], Any] | None = None,
        folder: str | None = None,
    ) -> None:
        super().__init__(name, model, folder)
        self.workers = 1
        self._tokenizer = tokenizer
        self._load_float32 = load_float32 or (lambda: copy.deepcopy(model).float())
        self._in_float32: CausalLM | None = None

    @property
    def dtype(self) -> str:
        """The torch type of its weights: `float32`, `bfloat16` and the like."""
        return str(self._model.dtype).removeprefix("torch.")

    @classmethod
    def load(cls, model: str | Path, *, dtype: str | None = None) -> CausalLM:
        """Load model and tokenizer from a folder, from a GGUF file or a folder with one, or by their Hugging Face name.

        dtype: a torch type by name; by default bfloat16 on a GPU and float32 on a CPU.

        Raises: ModelError when they cannot be loaded, OutOfMemoryError when they do not fit, MissingExtraError without
            the models extra.
        """
        library = load_package("transformers")
        has_gpu = load_package("torch").cuda.is_available()
        device = "cuda" if has_gpu else "cpu"
        chosen = dtype or ("bfloat16" if has_gpu else "float32")

        file = find_gguf(model)

        def weights(precision: str) -> Any:
            if file is not None:
                return read_gguf(file, precision)[0].to(device).eval()
            loaded = load_pretrained(
                model,
                lambda name, local: library.AutoModelForCausalLM.from_pretrained(
                    name, local_files_only=local, dtype=precision
                ),
            )
            return loaded.to(device).eval()

        try:
            if file is not None:
                loaded, tokenizer = read_gguf(file, chosen)
                loaded = loaded.to(device).eval()
            else:
                tokenizer = load_pretrained(
                    model, lambda name, local: library.AutoTokenizer.from_pretrained(name, local_files_only=local)
                )
                loaded = weights(chosen)
        except (RuntimeError, MemoryError) as error:
            pass_on_unless_memory(error)
            raise OutOfMemoryError(
                f"there is no memory on {device} for {str(model)!r} in {chosen}; use a smaller model or another device"
            ) from error
        name = Path(model).name if file is None else file.stem
        return cls(name, loaded, tokenizer, lambda: weights("float32"), digest_of(file or model))

    def in_float32(self) -> CausalLM:
        """The same model in float32, loaded when it is first asked for and then kept; itself where it is as precise.

        Raises: OutOfMemoryError when there is no memory for it beside this one, ModelError as `load`.
        """
        if self._model.dtype.itemsize >= _FLOAT32_BYTES:
            return self
        if self._in_float32 is None:
            try:
                self._in_float32 = CausalLM(self.name, self._load_float32(), self._tokenizer, folder=self._folder)
                self._in_float32.workers = self.workers
            except (RuntimeError, MemoryError) as error:
                pass_on_unless_memory(error)
                raise OutOfMemoryError(f"there is no memory for {self.name!r} in float32 as well") from error
        return self._in_float32

    def encode(self, prompt: str) -> list[int]:
        """Token ids of `prompt` as a user's message, in the model's chat format where it has one.

        In a chat a document that spells a control token says so and no more.
        """
        if self._is_chat:
            return chat_ids(self._tokenizer, prompt)
        return [int(token) for token in self._tokenizer(prompt)["input_ids"]]

    def generate(self, prompt: str, *, max_new_tokens: int = 96) -> Generated:
        """The greedy continuation of `prompt`.

        Raises: ModelError when the prompt leaves no room in the model's context for `max_new_tokens`.
        """
        import torch

        ids = self.encode(prompt)
        self._check_length(len(ids), max_new_tokens)
        input_ids = torch.tensor([ids], device=self._model.device)
        with torch.inference_mode():
            full = self._model.generate(
                input_ids=input_ids,
                attention_mask=torch.ones_like(input_ids),
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
        like: str | None = None,
        method: Literal["shared", "batched"] = "shared",
        batch: int = 16,
        threads: int | None = 1,
    ) -> NDArray[np.float64]:
        """Log-probabilities of each token of `answer` behind each prompt, teacher-forced: (prompts, answer tokens).

        like: the prompt whose answer tokens are scored behind all others; needed only where prompts end in different
        ways, so that the answer begins with other tokens. shared: what prompts begin with alike is read once; batched:
        each is read whole, `batch` at a time. threads: of torch on the CPU, while it lasts; one is the fastest beside
        other work, None leaves them alone.

        Raises: ModelError for an empty answer, a prompt that does not fit into the model's context with it, or prompts
            behind which its tokens differ.
        """
        from ragtrace.engines._scoring import score_verified, score_whole

        own, heads = self._cut(prompts, answer, like)
        if not heads:
            import numpy as np

            return np.empty((0, len(own)))
        self._check_length(max(map(len, heads)), len(own))
        sequences = [[*head, *own] for head in heads]
        with torch_threads(threads):
            if method == "shared":
                workers = self.workers if self.device == "cpu" else 1
                return score_verified(self._model, sequences, len(own), workers=workers)
            return score_whole(self._model, sequences, len(own), batch=batch)

    def attention_gradients(
        self, prompt: str, answer: str, *, threads: int | None = 1
    ) -> tuple[NDArray[np.float64], list[tuple[int, int]]]:
        """Attention times gradient of the answer's mean log-probability, for tokens of `prompt`, and where they stand.

        Raises: ModelError as `score`, and for a model that shows no attention.
        """
        import numpy as np

        from ragtrace.engines._gradients import attention_times_gradient

        cut = self._continued(prompt, answer)
        self._check_length(len(cut.before), len(cut.own))
        places = cut.prompt_places
        if places is None:
            places = self._prompt_places(prompt, len(cut.before))
        with torch_threads(threads):
            scores = attention_times_gradient(self._model, [*cut.before, *cut.own], len(cut.own))
        inside = [at for at, (start, end) in enumerate(places) if 0 <= start < end <= len(prompt)]
        return np.asarray(scores[inside]), [places[at] for at in inside]

    def _prompt_places(self, prompt: str, count: int) -> list[tuple[int, int]]:
        """The offsets in `prompt` of each of the `count` tokens of its chat; those around it lie outside."""
        if not (self._is_chat and getattr(self._tokenizer, "is_fast", False)):
            raise ModelError(f"the tokenizer of {self.name!r} does not say where its tokens stand; give another model")
        pieces = chat_pieces(self._tokenizer, prompt)
        if pieces is None or len(pieces) != count:
            raise ModelError(f"the chat format of {self.name!r} changes the prompt, so that its tokens cannot be found")
        return [(start, end) for _, start, end in pieces]

    def answer_places(self, prompt: str, answer: str) -> list[tuple[int, int]]:
        """Where each token that `score` gives behind `prompt` stands in `answer`: (start, end) offsets.

        Empty where the tokenizer does not say.
        """
        return list(self._continued(prompt, answer).places or ())

    def _cut(self, prompts: Sequence[str], answer: str, like: str | None) -> tuple[list[int], list[list[int]]]:
        """The answer's ids, the same for all prompts, and the ids of each prompt."""
        cuts = [self._continued(prompt, answer) for prompt in prompts]
        if like is not None or not cuts:
            reference = self._continued(like or "", answer)
        else:
            reference = cuts[0]
            if any(cut.own != reference.own for cut in cuts):
                raise ModelError(
                    "the prompts end in different ways, behind which the answer has different tokens; give like=, the "
                    "prompt whose tokens of the answer count behind all of them"
                )
        heads = [
            cut.before
            if cut.own == reference.own
            else _behind(self._tokenizer, prompt, answer, takes_space=reference.takes_space)
            for prompt, cut in zip(prompts, cuts, strict=True)
        ]
        if not all(heads):
            raise ModelError(
                "a prompt is empty, and this model's tokenizer puts no token before a text, so that the answer's first "
                "token has no probability; record the whole prompt, with its instructions or question, or give a model "
                "with a token for the beginning of texts"
            )
        return reference.own, heads

    def _continued(self, prompt: str, answer: str) -> _Continued:
        """The prompt's ids and the answer's behind it; in a chat the answer is a turn of its own."""
        if not answer.strip():
            raise ModelError("the answer is empty, so that no token of it can be scored")
        if self._is_chat:
            return replace(bare(self._tokenizer, answer), before=self.encode(prompt))
        return continued(self._tokenizer, prompt, answer)

    @property
    def _is_chat(self) -> bool:
        return bool(getattr(self._tokenizer, "chat_template", None))

    @property
    def _stop_id(self) -> int | None:
        padding = self._tokenizer.pad_token_id
        return int(padding) if padding is not None else self._tokenizer.eos_token_id

    def _check_length(self, prompt_tokens: int, wanted: int) -> None:
        allowed = positions(self._model.config)
        if allowed is not None and prompt_tokens + wanted > allowed:
            raise ModelError(
                f"a prompt of {prompt_tokens} tokens and {wanted} new ones do not fit the {allowed} positions of "
                f"{self.name!r}; give a model with a longer context"
            )


@dataclass(frozen=True, slots=True)
class _Continued:
    """The ids of a prompt, and those of the answer behind it.

    Attributes:
        before, own: the ids of the prompt and of the answer.
        prompt_places: where the tokens of `before` stand in the prompt; None where the tokenizer does not say.
        places: where those of `own` stand in the answer.
        takes_space: whether the answer's first token holds the white space in front of the answer.
    """

    before: list[int]
    own: list[int]
    prompt_places: list[Place] | None
    places: list[Place] | None
    takes_space: bool


def continued(tokenizer: Any, prompt: str, answer: str) -> _Continued:
    """Both as one text, with a space between them where neither has one: what a server makes of it, too.

    A token across the border is the answer's, unless nothing but white space of the answer is in it.
    """
    whole = joined(prompt, answer)
    if not getattr(tokenizer, "is_fast", False):
        return _by_prefix(tokenizer, prompt, whole)
    encoded = tokenizer(whole.text, return_offsets_mapping=True, verbose=False)
    count = _visible(encoded.sequence_ids())
    ids = [int(token) for token in encoded["input_ids"][:count]]
    places = [(int(start), int(end)) for start, end in encoded["offset_mapping"][:count]]
    first = next((at for at, place in enumerate(places) if whole.is_own(*place)), count)
    shifted = [(max(0, start - whole.shift), max(0, end - whole.shift)) for start, end in places[first:]]
    covered = places[first - 1][1] if first else 0
    return _Continued(ids[:first], ids[first:], places[:first], shifted, covered < whole.shift)


def bare(tokenizer: Any, answer: str) -> _Continued:
    """The answer by itself, as a turn of a chat begins with it; what it says is text."""
    if not getattr(tokenizer, "is_fast", False):
        ids = tokenizer(answer, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        return _Continued([], [int(token) for token in ids], None, None, False)
    encoded = tokenizer(
        answer, add_special_tokens=False, return_offsets_mapping=True, split_special_tokens=True, verbose=False
    )
    places = [(int(start), int(end)) for start, end in encoded["offset_mapping"]]
    return _Continued([], [int(token) for token in encoded["input_ids"]], None, places, False)


def _behind(tokenizer: Any, prompt: str, answer: str, *, takes_space: bool) -> list[int]:
    """The ids of a prompt behind which the answer's tokens are those of another prompt.

    Of the white space before the answer neither too much nor too little stays: spaces at the prompt's end are left out
    where the answer's first token has one, and one is added where neither has.
    """
    text = prompt.rstrip(" ") if takes_space else joined(prompt, answer).text[: -len(answer)]
    encoded = tokenizer(text)
    count = _visible(encoded.sequence_ids()) if getattr(tokenizer, "is_fast", False) else None
    return [int(token) for token in encoded["input_ids"][:count]]


def _visible(sides: Sequence[int | None]) -> int:
    """How many tokens there are up to the last of the text: an end that the tokenizer adds is no part of it."""
    return max((at + 1 for at, side in enumerate(sides) if side is not None), default=len(sides))


def _by_prefix(tokenizer: Any, prompt: str, whole: GivenText) -> _Continued:
    """For a tokenizer that does not say where tokens stand: the answer's are those that the prompt alone has not."""
    alone = [int(token) for token in tokenizer(prompt)["input_ids"]]
    ids = [int(token) for token in tokenizer(whole.text)["input_ids"]]
    pairs = zip(alone, ids, strict=False)
    first = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(alone), len(ids)))
    return _Continued(ids[:first], ids[first:], None, None, first < len(alone) or whole.shift > len(prompt))


def chat_ids(tokenizer: Any, prompt: str) -> list[int]:
    """Token ids of the chat, with the assistant's turn opened.

    The template is rendered straight to ids: a rendered string that is tokenized again gets a second BOS. Where a
    document spells a control token, such as `</s>`, it is no control token: it would end the turn that holds it.
    """
    encoded = tokenizer.apply_chat_template(_turns(prompt), add_generation_prompt=True, return_dict=True)
    ids = [int(token) for token in encoded["input_ids"]]
    if not any(text in prompt for text in _controls(tokenizer).values()):
        return ids
    pieces = chat_pieces(tokenizer, prompt)
    if pieces is None:
        _LOG.warning("the prompt spells a control token of the model, and it cannot be told apart; it counts as one")
        return ids
    return [token for token, _, _ in pieces]


def chat_pieces(tokenizer: Any, prompt: str) -> list[Piece] | None:
    """The tokens of the chat; None where it is not known where they stand, or the format changes the text."""
    if not getattr(tokenizer, "is_fast", False):
        return None
    text = str(tokenizer.apply_chat_template(_turns(prompt), add_generation_prompt=True, tokenize=False))
    own = prompt.strip()
    start = text.find(own)
    if start < 0:
        return None
    controls = _controls(tokenizer)
    whole = _chat_tokens(tokenizer, text)
    pieces: list[Piece] = []
    at = 0
    for token, first, last in whole:
        if token in controls and last > first and not (first < start + len(own) and last > start):
            pieces += [*_chat_tokens(tokenizer, text[at:first], at, split=True), (token, first, last)]
            at = last
    pieces += _chat_tokens(tokenizer, text[at:], at, split=True)
    if not any(control in own for control in controls.values()) and pieces != whole:
        pieces = whole  # a tokenizer that reads a text otherwise where it begins
    shift = start - (len(prompt) - len(prompt.lstrip()))
    return [(token, first - shift, last - shift) for token, first, last in pieces]


def _turns(prompt: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": prompt}]


def _controls(tokenizer: Any) -> dict[int, str]:
    """Control tokens: their ids, and how they are spelled."""
    return {int(number): str(token) for number, token in tokenizer.added_tokens_decoder.items() if token.special}


def _chat_tokens(tokenizer: Any, text: str, at: int = 0, *, split: bool = False) -> list[Piece]:
    """The tokens of a part of the text, none of them a control token where it is `split`."""
    encoded = tokenizer(
        text, add_special_tokens=False, return_offsets_mapping=True, split_special_tokens=split, verbose=False
    )
    places = zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
    return [(int(token), at + int(first), at + int(last)) for token, (first, last) in places]


TOLERANCE: Final = 0.5
"""Nats by which the log-probability of a token may differ from that in float32."""
SAMPLE: Final = 2
"""Prompts that are compared: those behind which the answer is least and most probable."""


class Scoring(Protocol):
    """A model that scores a given answer."""

    def score(self, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
        """Log-probabilities of each token of the answer behind each prompt: `(prompts, answer tokens)`."""
        ...


class CheckedScoring:
    """The scores of one game; a local model in bfloat16 or float16 is compared with float32 at the first call.

    Where they differ by more than `TOLERANCE`, that call and all further ones are done in float32. Where float32 finds
    no memory, nothing is compared, and `precision` says so.

    Args:
        model: any; only a `CausalLM` can be compared.
        known: the precision of an earlier run that goes on here.
        like: the prompt whose tokens of the answer count behind all prompts; see `CausalLM.score`.
    """

    def __init__(self, model: Scoring, known: Precision | None = None, like: str | None = None) -> None:
        self._model = model
        self._known = known
        self._like = like
        self.precision: Precision | None = None

    def score(self, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
        """As `CausalLM.score`. Raises: what the model raises."""
        if self.precision is None and isinstance(self._model, CausalLM) and _is_reduced(self._model):
            return self._first(self._model, prompts, answer)
        return self._scored(prompts, answer)

    def _first(self, model: CausalLM, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
        if self._known is not None and self._known.repeated:
            self.precision, self._model = self._known, model.in_float32()
            return self._scored(prompts, answer)
        scores = self._scored(prompts, answer)
        self.precision = _united(self._compared(model, prompts, answer, scores), self._known)
        if self.precision.repeated:
            self._model = model.in_float32()
            return self._scored(prompts, answer)
        return scores

    def _scored(self, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
        if isinstance(self._model, CausalLM):
            return self._model.score(prompts, answer, like=self._like)
        return self._model.score(prompts, answer)

    def _compared(self, model: CausalLM, prompts: Sequence[str], answer: str, scores: NDArray[np.float64]) -> Precision:
        """The largest difference on the sample, or why there is none."""
        import numpy as np

        order = np.argsort(scores.mean(axis=1), kind="stable").tolist()
        sample = list(dict.fromkeys([*order[: SAMPLE - 1], *order[-1:]]))
        try:
            precise = model.in_float32()
        except ModelError as error:
            return Precision(dtype=model.dtype, skipped=str(error))
        try:
            expected = precise.score([prompts[at] for at in sample], answer, like=self._like, method="batched", batch=1)
        except OutOfMemoryError as error:
            return Precision(dtype=model.dtype, skipped=str(error))
        difference = float(np.abs(expected - scores[sample]).max(initial=0.0))
        return Precision(dtype=model.dtype, prompts=len(sample), difference=difference, repeated=difference > TOLERANCE)


def _is_reduced(model: CausalLM) -> bool:
    return model.dtype in ("bfloat16", "float16")


def _united(measured: Precision, known: Precision | None) -> Precision:
    """What is worse of both: the earlier run's values are used as well."""
    if (
        known is None
        or measured.repeated
        or measured.difference is None
        or (known.difference or 0.0) <= measured.difference
    ):
        return measured
    return known
