"""Models behind an OpenAI-compatible server: one that generates texts and, where the server can, scores given answers;
and one that gives the vectors of texts, and nothing that is inside of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ragtrace.engines._http_dialects import DIALECTS, detect
from ragtrace.engines.causal_lm import Generated
from ragtrace.engines.model_server import RequestLimits, ServedModel, ServerDialect, check_least
from ragtrace.engines.tokens import ScoredToken, united
from ragtrace.errors import ConfigurationError, ModelError, ScoringStopped, ServerError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["BATCH", "EmbeddingServer", "HttpLM", "at_once"]

T = TypeVar("T")
_PATIENCE: Final = 60.0


class HttpLM(ServedModel):
    """A language model behind an OpenAI-compatible server, with the interface of `CausalLM`.

    What was scored or generated before a limit or a failure ended a call is kept: the same call goes on from there.

    Args:
        base_url: of the API, such as `http://localhost:8000/v1`.
        model: its name there.
        chat: whether a prompt is a user's message in the model's chat format, or a text to be continued as it is.
        dialect: how the server tells log-probabilities: `vllm`, `echo`, `llama.cpp`, or `auto`, which asks it once.
        api_key_env: name of the environment variable with the key; None: no key is sent.
        concurrency: requests at a time.
        timeout: seconds until an answer must have come. retries: of a request that failed for a passing reason.
        max_requests, max_prompt_tokens: limits over the life of the object, retries included; `usage` counts.
        options: further fields of each request of a completion; None takes one out, such as `max_tokens`.

    Raises: ConfigurationError for arguments, MissingExtraError without the http extra.
    """

    kind: Final = "http"

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        chat: bool = False,
        dialect: str = "auto",
        api_key_env: str | None = None,
        concurrency: int = 8,
        timeout: float = _PATIENCE,
        retries: int = 5,
        max_requests: int | None = None,
        max_prompt_tokens: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if dialect not in ("auto", *DIALECTS):
            raise ConfigurationError.of("dialect", dialect, f"auto, {', '.join(DIALECTS)}")
        super().__init__(
            base_url,
            model,
            api_key_env=api_key_env,
            concurrency=concurrency,
            timeout=timeout,
            retries=retries,
            max_requests=max_requests,
            max_prompt_tokens=max_prompt_tokens,
        )
        self.chat = chat
        self._gives: bool | None = None
        self._options = dict(options or {})
        self._lock = threading.RLock()
        self._dialect: ServerDialect | None = None if dialect == "auto" else self._speaking(dialect)
        self._known = _Known("")
        self._texts: dict[bytes, Generated] = {}

    def allow(self, *, max_requests: int | None = None, max_prompt_tokens: int | None = None) -> None:
        """Set other limits, counted from the beginning; None: no limit."""
        fresh = RequestLimits(max_requests, max_prompt_tokens)
        self._limits.max_requests, self._limits.max_prompt_tokens = fresh.max_requests, fresh.max_prompt_tokens

    def generate(self, prompt: str, *, max_new_tokens: int = 96) -> Generated:
        """The continuation of `prompt` at temperature 0. Raises: ServerError."""
        sent = {"messages": [{"role": "user", "content": prompt}]} if self.chat else {"prompt": prompt}
        body = {"model": self.name, "max_tokens": max_new_tokens, "temperature": 0, **sent, **self._options}
        body = {name: value for name, value in body.items() if value is not None}
        found = self._client.post("/chat/completions" if self.chat else "/completions", body, characters=len(prompt))
        return _generated(found)

    def generate_many(self, prompts: Sequence[str], *, max_new_tokens: int = 96) -> list[Generated]:
        """The continuation of each prompt, several at a time. Raises: as `generate`."""
        keys = {_key(f"{max_new_tokens} {prompt}"): prompt for prompt in prompts}
        held = dict(self._texts)
        missing = [key for key in keys if key not in held]
        failure = at_once(
            lambda key: self.generate(keys[key], max_new_tokens=max_new_tokens),
            missing,
            self._texts,
            self._concurrency,
        )
        if failure is not None:
            raise failure
        texts = {prompt: held[key] if key in held else self._texts[key] for key, prompt in keys.items()}
        self._texts.clear()
        return [texts[prompt] for prompt in prompts]

    def gives_log_probabilities(self) -> bool:
        """Whether the server gives those of a given text; it is asked once. Raises: ServerError."""
        if self._gives is None:
            try:
                self._spoken()
                self._gives = True
            except ServerError:
                raise
            except ModelError:
                self._gives = False
        return self._gives

    def score(self, prompts: Sequence[str], answer: str) -> NDArray[np.float64]:
        """Log-probabilities of each token of `answer` behind each prompt, teacher-forced: (prompts, answer tokens).

        The tokens are the server's; `answer_places` tells where they stand. Where prompts make it cut the answer in
        different ways, what they share are the columns, and log-probabilities are added.

        Raises: ScoringStopped when the server or a limit ended it, ModelError when it gives no log-probabilities of a
            prompt, or its tokens do not say the answer.
        """
        import numpy as np

        known, failure = self._read(prompts, answer)
        rows = [known.rows.get(_key(prompt)) for prompt in prompts]
        places, sums = united(answer, [row for row in rows if row is not None], known.places)
        known.places = places or None
        scores = np.full((len(prompts), len(places)), np.nan)
        scores[[at for at, row in enumerate(rows) if row is not None]] = np.reshape(sums, (len(sums), len(places)))
        if isinstance(failure, ServerError):
            count = sum(row is not None for row in rows)
            raise ScoringStopped(f"{count} of {len(prompts)} prompts were scored: {failure}", scores) from failure
        if failure is not None:
            raise failure
        return scores

    def answer_places(self, prompt: str, answer: str) -> list[tuple[int, int]]:
        """Where each token that `score` gives stands in `answer`: (start, end) offsets; scored first if need be."""
        if self._known.answer != answer or self._known.places is None:
            self.score([prompt], answer)
        return list(self._known.places or ())

    def _read(self, prompts: Sequence[str], answer: str) -> tuple[_Known, Exception | None]:
        """What is known of the answer behind the prompts, once the server was asked for what is missing."""
        if not answer.strip():
            raise ModelError("the answer is empty, so that no token of it can be scored")
        with self._lock:
            if self._known.answer != answer:
                self._known = _Known(answer)
            known = self._known
        keys = {_key(prompt): prompt for prompt in prompts}
        missing = [key for key in keys if key not in known.rows]
        if not missing:
            return known, None
        try:
            dialect = self._spoken()
        except ServerError as error:
            return known, error
        return known, at_once(lambda key: dialect.tokens(keys[key], answer), missing, known.rows, self._concurrency)

    def _spoken(self) -> ServerDialect:
        with self._lock:
            if self._dialect is None:
                self._dialect = self._speaking(detect(self._client, self.name, self.chat, self._options))
            return self._dialect

    def _speaking(self, dialect: str) -> ServerDialect:
        return DIALECTS[dialect](self._client, self.name, self.chat, self._options)


def at_once(
    work: Callable[[bytes], T], keys: Sequence[bytes], into: dict[bytes, T], concurrency: int
) -> Exception | None:
    """Puts in what comes of each piece of work; the first failure, behind which nothing more was begun."""
    failures: list[Exception] = []
    ended = threading.Event()

    def one(key: bytes) -> None:
        if ended.is_set():
            return
        try:
            into[key] = work(key)
        except BaseException as error:  # the caller gets it, beside what was done
            ended.set()
            if not isinstance(error, Exception):
                raise
            failures.append(error)

    with ThreadPoolExecutor(min(concurrency, len(keys)) or 1, thread_name_prefix="ragtrace-http") as pool:
        try:
            list(pool.map(one, keys))
        finally:
            ended.set()  # also where the caller is interrupted: what is under way ends, the rest is not begun
    return failures[0] if failures else None


class _Known:
    """What the server said of one answer: its tokens by prompt, and the places of the columns once they are given."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.rows: dict[bytes, list[ScoredToken]] = {}
        self.places: list[tuple[int, int]] | None = None


def _key(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _generated(found: Mapping[str, Any]) -> Generated:
    """The text of a completion or of a chat's message. Raises: ServerError without one."""
    choices = found.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    message = choice.get("message")
    text = message.get("content") or "" if isinstance(message, dict) else choice.get("text")
    if not isinstance(text, str):
        raise ServerError("the server's answer holds no text; give the base_url of an OpenAI API")
    usage = found.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    return Generated(
        text.strip(),
        _count(counts.get("prompt_tokens")),
        _count(counts.get("completion_tokens")),
        str(choice.get("finish_reason") or "stop"),
    )


def _count(tokens: Any) -> int:
    """What a server says of tokens; 0 where it says nothing that is a number of them."""
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens > 0 else 0


BATCH: Final = 64
"""Texts of one request."""


class EmbeddingServer(ServedModel):
    """Vectors by `POST /embeddings`, several requests at a time; a text that comes twice in a call is sent once.

    Args:
        base_url: of the API, such as `http://localhost:8000/v1`.
        model: its name there.
        api_key_env: name of the environment variable with the key; None: no key is sent.
        batch: texts of one request. concurrency: requests at a time.
        timeout: seconds until an answer must have come. retries: of a request that failed for a passing reason.
        max_requests, max_prompt_tokens: limits over the life of the object, retries included; `usage` counts.

    Raises: ConfigurationError for arguments, MissingExtraError without the http extra.
    """

    kind: Final = "embedding_server"

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key_env: str | None = None,
        batch: int = BATCH,
        concurrency: int = 4,
        timeout: float = 60.0,
        retries: int = 5,
        max_requests: int | None = None,
        max_prompt_tokens: int | None = None,
    ) -> None:
        check_least("batch", batch, 1)
        super().__init__(
            base_url,
            model,
            api_key_env=api_key_env,
            concurrency=concurrency,
            timeout=timeout,
            retries=retries,
            max_requests=max_requests,
            max_prompt_tokens=max_prompt_tokens,
        )
        self._batch = batch

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """`(n, dimension)`; zeros for a text of white space, which servers refuse.

        Raises: ServerError when the server does not answer, or not with a vector for each text.
        """
        import numpy as np

        distinct = [text for text in dict.fromkeys(texts) if text.strip()]
        batches = {str(at).encode(): distinct[at : at + self._batch] for at in range(0, len(distinct), self._batch)}
        found: dict[bytes, list[list[float]]] = {}
        failure = at_once(lambda key: self._vectors(batches[key]), list(batches), found, self._concurrency)
        if failure is not None:
            raise failure
        rows = [row for key in batches for row in found[key]]
        width = len(rows[0]) if rows else 0
        if any(len(row) != width for row in rows):
            raise ServerError(f"the server's vectors of {self.name!r} have different lengths; give another model")
        vectors = dict(zip(distinct, rows, strict=True))
        return np.array([vectors.get(text, [0.0] * width) for text in texts], dtype=np.float32).reshape(
            len(texts), width
        )

    def _vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """Those of one request, in the order of its texts."""
        body = {"model": self.name, "input": list(texts), "encoding_format": "float"}
        answer = self._client.post("/embeddings", body, characters=sum(map(len, texts)))
        return _ordered(answer, len(texts))


def _ordered(answer: Mapping[str, Any], count: int) -> list[list[float]]:
    """The vectors by their index. Raises: ServerError where one is missing or is none."""
    data = answer.get("data")
    rows = {
        row.get("index", at): row.get("embedding")
        for at, row in enumerate(data if isinstance(data, list) else ())
        if isinstance(row, dict)
    }
    vectors = [rows.get(at) for at in range(count)]
    if not all(isinstance(vector, list) and vector and all(map(_is_number, vector)) for vector in vectors):
        raise ServerError(
            f"the server did not answer with {count} vectors; give the base_url of an OpenAI API and a model of "
            "embeddings"
        )
    return [[float(number) for number in vector or ()] for vector in vectors]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
