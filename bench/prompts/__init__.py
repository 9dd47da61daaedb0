"""What `bench/coalitions.py` scores: prompts of numbered documents, as tokens for us and as text for other tools."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast

__all__ = ["ANSWER", "DOCUMENT", "DOCUMENTS", "QUESTION", "VOCABULARY", "Peer", "Prompts", "Request"]

DOCUMENTS: Final = 10
DOCUMENT, QUESTION, ANSWER = 120, 20, 64  # tokens
VOCABULARY: Final = 2000


@dataclass(frozen=True)
class Request:
    """One request as text. Each word is a token."""

    model: Any
    tokenizer: Any
    documents: tuple[str, ...]
    question: str
    answer: str

    def context(self, documents: Iterable[str]) -> str:
        """The documents, numbered."""
        return " ".join(f"w{2 + place} {text}" for place, text in enumerate(documents))

    def prompt(self, documents: Iterable[str]) -> str:
        """What the answer follows."""
        return f"w1 {self.context(documents)} {self.question}"


@dataclass(frozen=True)
class Peer:
    """A tool's way to attribute an answer to documents.

    attribute: takes how many subsets to evaluate. whole: each pass of the model reads the prompt of one subset.
    """

    name: str
    computes: str
    attribute: Callable[[Request, int], NDArray[np.float64]]
    whole: bool = True


class Prompts:
    """Prompts of subsets: numbered documents, the question, the answer."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._documents = [self._tokens(DOCUMENT) for _ in range(DOCUMENTS)]
        self._question, self._answer = self._tokens(QUESTION), self._tokens(ANSWER)

    def _tokens(self, count: int) -> list[int]:
        return [self._draw.randrange(20, VOCABULARY) for _ in range(count)]

    def of(self, subset: Sequence[int]) -> list[int]:
        """The tokens of a subset's prompt and of the answer."""
        listed = [token for place, which in enumerate(subset) for token in (2 + place, *self._documents[which])]
        return [1, *listed, *self._question, *self._answer]

    def some(self, count: int) -> list[list[int]]:
        """The prompts of distinct random subsets, the empty and the full one among them."""
        chosen = {0, 2**DOCUMENTS - 1}
        while len(chosen) < count:
            chosen.add(self._draw.randrange(2**DOCUMENTS))
        return [self.of([place for place in range(DOCUMENTS) if mask >> place & 1]) for mask in sorted(chosen)]

    def request(self, model: Any) -> Request:
        """The same as text, with a tokenizer that reads the word w7 as token 7."""
        words = Tokenizer(WordLevel({f"w{token}": token for token in range(VOCABULARY)}, unk_token="w0"))
        words.pre_tokenizer = WhitespaceSplit()
        build: Any = PreTrainedTokenizerFast  # it has no types
        tokenizer = build(tokenizer_object=words, unk_token="w0", bos_token="w18", eos_token="w19", pad_token="w19")
        tokenizer.chat_template = "{{ messages[0]['content'] }}"
        documents = tuple(_text(document) for document in self._documents)
        return Request(model, tokenizer, documents, _text(self._question), _text(self._answer))


def _text(tokens: Iterable[int]) -> str:
    return " ".join(f"w{token}" for token in tokens)
