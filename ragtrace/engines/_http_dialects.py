"""Dialects of servers: how they give the log-probabilities of a given text, and which of these ways a server knows.

Forms as of vLLM 0.6 to 0.20 (entrypoints/openai: `prompt_logprobs`), OpenAI's legacy completions with `echo` and
`logprobs`, which vLLM, SGLang, llama-cpp-python and others serve, and llama.cpp's server (tools/server, from December
2024 on), which takes no `echo` and tells log-probabilities of generated tokens alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ragtrace.engines.model_server import Asking, Client, LimitReached, ServerDialect, floored, malformed, number
from ragtrace.engines.tokens import GivenText, ScoredToken, answer_tokens, joined, may_say
from ragtrace.errors import ConfigurationError, ModelError, ServerError

__all__ = ["DIALECTS", "Vllm", "detect"]

_LOG: Final = logging.getLogger("ragtrace")
_LOWEST: Final = -1e30  # the server writes the lowest float32 for a probability of 0
_WHOLE_VOCABULARY: Final = 1 << 20
_BIAS: Final = 1e4  # on one token's logit: it is sampled, whatever the others have


class _LlamaCpp(Asking):
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
        tokens = self._client.post("/tokenize", body, at_root=True).get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, dict) and "piece" in token for token in tokens):
            raise ModelError("llama.cpp's /tokenize gives no pieces; use a server from September 2024 on")
        return [_id(token.get("id")) for token in tokens], [_piece(token["piece"]) for token in tokens]

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


_PROBE: Final = "The answer is"


class Vllm(Asking):
    """`prompt_logprobs=0`: per token of the prompt `{id: {logprob, decoded_token, rank}}`, null for the first.

    In a chat the answer is sent as the assistant's message with `continue_final_message`.
    """

    def tokens(self, prompt: str, answer: str) -> list[ScoredToken]:
        """The answer's tokens behind the prompt, from one request."""
        if self._chat:
            given = GivenText(answer, 0, 0)
            found = self._client.post("/chat/completions", self._asked(prompt, answer), characters=len(prompt + answer))
        else:
            given = joined(prompt, answer)
            body = self._body(prompt=given.text, prompt_logprobs=0)
            found = self._client.post("/completions", body, characters=len(given.text))
        entries = prompt_logprobs(found)
        if entries is None:
            raise ModelError("the server gives no prompt_logprobs; give another dialect")
        ids = found.get("prompt_token_ids") or _choice(found).get("prompt_token_ids") or [None] * len(entries)
        if not isinstance(ids, list) or len(ids) != len(entries):
            raise malformed(f"the prompt_token_ids of {len(entries)} tokens", ids)
        read = [_entry(entry, token) for entry, token in zip(entries, ids, strict=True)]
        return _placed([text for text, _ in read], [value for _, value in read], given, prompt)

    def _asked(self, prompt: str, answer: str) -> dict[str, Any]:
        turns = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
        return self._body(messages=turns, add_generation_prompt=False, continue_final_message=True, prompt_logprobs=0)


class _Echo(Asking):
    """`echo` with `logprobs`: the prompt's tokens come back with `token_logprobs`, the first one null.

    One token is generated, since to some servers `max_tokens=0` means no limit; it is left out.
    """

    def __init__(self, client: Client, model: str, chat: bool, options: Mapping[str, Any]) -> None:
        super().__init__(client, model, chat, options)
        if chat:
            raise ConfigurationError.of("chat", chat, "False for echo: a server gives back no message of a chat")

    def tokens(self, prompt: str, answer: str) -> list[ScoredToken]:
        """The answer's tokens behind the prompt, from one request."""
        given = joined(prompt, answer)
        body = self._body(prompt=given.text, echo=True, logprobs=1)
        found = self._client.post("/completions", body, characters=len(given.text))
        read = _echoed(found)
        if read is None:
            raise ModelError("the server gives no log-probabilities of an _echoed prompt; give another dialect")
        texts, values = read
        return _placed(texts, values, given, prompt)


DIALECTS: Final[dict[str, type[ServerDialect]]] = {"vllm": Vllm, "echo": _Echo, "llama.cpp": _LlamaCpp}


def detect(client: Client, model: str, chat: bool, options: Mapping[str, Any]) -> str:
    """The name of the server's dialect, found by one request of all that they ask for, seldom by a second.

    Raises: ModelError when the server gives no log-probabilities of a prompt.
    """
    reason = "it gives none of a prompt"
    both = {"prompt_logprobs": 0, "echo": True, "logprobs": 1}
    turns = {"messages": [{"role": "user", "content": _PROBE}], "prompt_logprobs": 0}
    for fields in (turns,) if chat else (both, {"echo": True, "logprobs": 1}):
        sent = {} if chat else {"prompt": _PROBE}
        body = {"model": model, "max_tokens": 1, "temperature": 0, **sent, **fields, **options}
        body = {name: value for name, value in body.items() if value is not None}
        try:
            found = client.post("/chat/completions" if chat else "/completions", body, characters=len(_PROBE))
        except ServerError as error:
            if error.status not in (400, 404, 405, 422, 501):
                raise
            reason = str(error)
            if _is_llama_cpp(client):
                return "llama.cpp"
            continue
        if prompt_logprobs(found) is not None:
            return "vllm"
        if not chat and _echoed(found) is not None:
            return "echo"
        if _is_llama_cpp(client):
            return "llama.cpp"
        break
    raise ModelError(
        f"the server gives no log-probabilities that an answer could be scored with ({reason}); leave documents out "
        "instead (ragtrace.engines.model_agnostic), or name the dialect"
    )


def _is_llama_cpp(client: Client) -> bool:
    try:
        return "default_generation_settings" in client.get("/props", at_root=True)
    except LimitReached:
        raise
    except ServerError:
        return False


def prompt_logprobs(found: Mapping[str, Any]) -> list[Any] | None:
    """vLLM's list, which stands in the choice of a completion and beside the choices of a chat."""
    entries = found.get("prompt_logprobs") or _choice(found).get("prompt_logprobs")
    return entries if isinstance(entries, list) and len(entries) > 1 else None


def _echoed(found: Mapping[str, Any]) -> tuple[list[str], list[Any]] | None:
    """Tokens of an _echoed prompt and their log-probabilities, without what was generated behind it.

    Raises: ModelError for tokens that are no texts.
    """
    given = _choice(found).get("logprobs")
    if not isinstance(given, dict):
        return None
    texts, values = given.get("tokens"), given.get("token_logprobs")
    if not isinstance(texts, list) or not isinstance(values, list) or len(texts) != len(values):
        return None
    for text in texts:
        if not isinstance(text, str):
            raise malformed("a token's text", text)
    usage = found.get("usage")
    generated = usage.get("completion_tokens", 1) if isinstance(usage, dict) else 1
    if not isinstance(generated, int) or generated < 0:
        raise malformed("the number of tokens generated", generated)
    count = len(texts) - generated
    tops = given.get("top_logprobs")
    if not isinstance(tops, list):
        tops = [None] * len(texts)
    filled = [
        value if value is not None or not isinstance(top, dict) else top.get(text)
        for text, value, top in zip(texts, values, tops, strict=False)
    ]
    return (texts[:count], filled[:count]) if count > 1 else None


def _entry(entry: Any, token: Any) -> tuple[str, float | None]:
    """Text and log-probability of one of vLLM's entries: of the token that the prompt has there.

    Raises: ModelError when several tokens are listed and nothing says which is the prompt's.
    """
    if not isinstance(entry, dict) or not entry:
        return "", None
    if token is None and len(entry) == 1:
        chosen = next(iter(entry.values()))
    elif token is not None and str(token) in entry:
        chosen = entry[str(token)]
    else:
        raise ModelError(
            f"the server lists {len(entry)} likely tokens in place of the prompt's own; it must take "
            "prompt_logprobs=0, or give prompt_token_ids"
        )
    if not isinstance(chosen, dict):
        raise malformed("a token of prompt_logprobs", chosen)
    return str(chosen.get("decoded_token") or ""), chosen.get("logprob")


def _placed(texts: Sequence[str], values: Sequence[Any], given: GivenText, prompt: str) -> list[ScoredToken]:
    places = answer_tokens(texts, given)
    first = len(texts) - len(places)
    if not may_say(texts[:first], prompt):
        raise ModelError(
            f"the server gives {first} tokens before the answer, too few for a prompt of {len(prompt)} characters: it "
            "left a part of it out, as some do with what is longer than their context; start it with a longer one"
        )
    rows = zip(texts[first:], places, values[first:], strict=True)
    return [ScoredToken(text, *place, floored(number(value))) for text, place, value in rows]


def _choice(found: Mapping[str, Any]) -> dict[str, Any]:
    choices = found.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}
