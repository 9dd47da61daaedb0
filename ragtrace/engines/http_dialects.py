"""How servers give the log-probabilities of a given text, and which of these ways a server knows.

Forms as of vLLM 0.6 to 0.20 (entrypoints/openai: `prompt_logprobs`), and OpenAI's legacy completions with `echo` and
`logprobs`, which vLLM, SGLang, llama-cpp-python and others serve; llama.cpp's is in `http_llama_cpp`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ragtrace.engines.http_asking import Asking, Dialect, floored, malformed, number
from ragtrace.engines.http_client import Client, LimitReached
from ragtrace.engines.http_llama_cpp import LlamaCpp
from ragtrace.engines.token_texts import GivenText, ScoredToken, answer_tokens, joined, may_say
from ragtrace.errors import ConfigurationError, ModelError, ServerError

__all__ = ["DIALECTS", "Echo", "Vllm", "detect"]

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


class Echo(Asking):
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
        read = echoed(found)
        if read is None:
            raise ModelError("the server gives no log-probabilities of an echoed prompt; give another dialect")
        texts, values = read
        return _placed(texts, values, given, prompt)


DIALECTS: Final[dict[str, type[Dialect]]] = {"vllm": Vllm, "echo": Echo, "llama.cpp": LlamaCpp}


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
        if not chat and echoed(found) is not None:
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


def echoed(found: Mapping[str, Any]) -> tuple[list[str], list[Any]] | None:
    """Tokens of an echoed prompt and their log-probabilities, without what was generated behind it.

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
