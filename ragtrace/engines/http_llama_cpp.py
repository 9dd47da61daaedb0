"""Log-probabilities of a given answer from llama.cpp's server (tools/server, from December 2024 on).

It takes no `echo`, and tells log-probabilities of generated tokens alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ragtrace.engines.http_asking import Asking, floored, malformed, number
from ragtrace.engines.http_client import Client, LimitReached
from ragtrace.engines.token_texts import GivenText, ScoredToken, answer_tokens, joined
from ragtrace.errors import ModelError, ServerError

__all__ = ["LlamaCpp"]

_LOG: Final = logging.getLogger("ragtrace")
_LOWEST: Final = -1e30  # the server writes the lowest float32 for a probability of 0
_WHOLE_VOCABULARY: Final = 1 << 20
_BIAS: Final = 1e4  # on one token's logit: it is sampled, whatever the others have


class LlamaCpp(Asking):
    """llama.cpp's own `/completion`, which tells log-probabilities of generated tokens alone: the answer is forced.

    A grammar of token ids forces it in one request (from December 2025 on); where it does not, each token is forced by
    its bias in a request of its own, behind a prompt that the server's cache holds. Log-probabilities are those before
    sampling, so neither changes them.
    """

    def __init__(self, client: Client, model: str, chat: bool, options: Mapping[str, Any]) -> None:
        super().__init__(client, model, chat, options)
        self._takes_ids = True

    def tokens(self, prompt: str, answer: str) -> list[ScoredToken]:
        """The answer's tokens behind the prompt."""
        ids, texts, places = self._tokenized(prompt, answer)
        before, own = ids[: len(ids) - len(places)], ids[len(ids) - len(places) :]
        values = self._by_grammar(before, own) if self._takes_ids else None
        if values is None:
            self._takes_ids = False
            values = [self._forced(ids[: len(before) + at], token) for at, token in enumerate(own)]
        values = [
            self._forced(ids[: len(before) + at], own[at], _WHOLE_VOCABULARY) if value < _LOWEST else value
            for at, value in enumerate(values)
        ]
        tokens = zip(texts[len(before) :], places, values, strict=True)
        return [ScoredToken(text, *place, floored(value)) for text, place, value in tokens]

    def _tokenized(self, prompt: str, answer: str) -> tuple[list[int], list[str], list[tuple[int, int]]]:
        """Ids and texts of prompt and answer, and the places of the last ones in the answer.

        In a chat the answer is tokenized by itself, as it is generated behind the template's last token.
        """
        if not self._chat:
            given = joined(prompt, answer)
            ids, texts = self._pieces(given.text)
            return ids, texts, answer_tokens(texts, given)
        asked = {"messages": [{"role": "user", "content": prompt}]}
        rendered = self._client.post("/apply-template", asked, at_root=True).get("prompt")
        if not isinstance(rendered, str):
            raise ModelError("llama.cpp's /apply-template gives no prompt; use a newer server, or chat=False")
        ids, texts = self._pieces(rendered)
        if len(ids) > 1 and ids[0] == ids[1]:  # the template writes the BOS itself
            ids, texts = ids[1:], texts[1:]
        own, said = self._pieces(answer, special=False)
        places = answer_tokens(said, GivenText(answer, 0, 0))
        return ids + own[-len(places) :], texts + said[-len(places) :], places

    def _pieces(self, text: str, special: bool = True) -> tuple[list[int], list[str]]:
        body = {"content": text, "add_special": special, "parse_special": special, "with_pieces": True}
        found = self._client.post("/tokenize", body, at_root=True).get("tokens")
        if not isinstance(found, list) or not all(isinstance(each, dict) and "piece" in each for each in found):
            raise ModelError("llama.cpp's /tokenize gives no pieces; use a server from September 2024 on")
        return [_id(each.get("id")) for each in found], [_piece(each["piece"]) for each in found]

    def _by_grammar(self, before: Sequence[int], own: Sequence[int]) -> list[float] | None:
        """All tokens in one request; None where the server knows no grammar of ids, or does not keep to it."""
        grammar = "root ::= " + " ".join(f"<[{token}]>" for token in own)
        try:
            found = self._generated(before, len(own), 1, grammar=grammar)
        except LimitReached:
            raise
        except ServerError as error:
            if error.status is None or error.status in (401, 403, 429):
                raise
            _LOG.info("llama.cpp takes no grammar of token ids (%s); each token is asked for by itself", error)
            return None
        kept = [each.get("id") for each in found] == list(own)
        return [number(each.get("logprob")) for each in found] if kept else None

    def _forced(self, before: Sequence[int], token: int, n_probs: int = 1) -> float:
        """The log-probability of one token. Raises: ModelError when the server neither samples nor lists it."""
        found = self._generated(before, 1, n_probs, logit_bias=[[token, _BIAS]])
        first = found[0] if found else {}
        others = first.get("top_logprobs")
        others = others if isinstance(others, list) else []
        for each in [*others, first]:
            if isinstance(each, dict) and each.get("id") == token:
                return number(each.get("logprob"))
        raise ModelError(
            f"llama.cpp does not sample token {token} under its bias, nor is it among the {len(others)} most likely "
            "ones; use a server from December 2024 on"
        )

    def _generated(self, before: Sequence[int], count: int, n_probs: int, **forced: Any) -> list[dict[str, Any]]:
        body = {"prompt": list(before), "n_predict": count, "n_probs": n_probs, "temperature": 0, "cache_prompt": True}
        found = self._client.post("/completion", body | forced, characters=4 * len(before), at_root=True)
        if found.get("truncated") is True:
            raise ModelError(
                f"llama.cpp left out a part of a prompt of {len(before)} tokens, which is longer than its context; "
                "start it with a larger --ctx-size"
            )
        listed = found.get("completion_probabilities")
        return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _piece(piece: Any) -> str:
    """A piece of llama.cpp: a text, or bytes where it is none by itself."""
    try:
        return bytes(piece).decode("utf-8", "replace") if isinstance(piece, list) else str(piece)
    except (TypeError, ValueError) as error:
        raise malformed("the bytes of a token", piece) from error


def _id(token: Any) -> int:
    if isinstance(token, bool) or not isinstance(token, int):
        raise malformed("a token's id", token)
    return token
