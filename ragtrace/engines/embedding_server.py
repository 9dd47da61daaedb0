"""A text encoder behind an OpenAI-compatible server: vectors of texts, and nothing that is inside of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ragtrace.engines._model_server import ServedModel, check_least
from ragtrace.engines.http import at_once
from ragtrace.errors import ServerError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["BATCH", "EmbeddingServer"]

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
