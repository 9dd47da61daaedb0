"""Models as they are named on a command line: a folder, a Hugging Face name, or the address of a server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, get_args

from ragtrace.engines.tokens import Baseline
from ragtrace.errors import ConfigurationError

if TYPE_CHECKING:
    from ragtrace.engines.causal_lm import CausalLM
    from ragtrace.engines.cross_encoder import CrossEncoder
    from ragtrace.engines.encoder import Encoder
    from ragtrace.engines.http import HttpLM

__all__ = ["API_KEY", "as_baseline", "is_silent", "load_generator", "load_retriever"]

API_KEY: Final = "RAGTRACE_GENERATOR_KEY"
"""The environment variable that holds the key of a generator's server."""
_CHAT: Final = "chat:"
_SERVER: Final = ("http://", "https://")


def load_generator(model: str) -> CausalLM | HttpLM:
    """A causal language model from a folder or by its Hugging Face name, or `URL#NAME` of an OpenAI-compatible server.

    `chat:URL#NAME` is a server's chat, whether or not it gives log-probabilities. The key, where the server wants one,
    stands in the environment variable `API_KEY` names.

    Raises: ModelError when it cannot be loaded, ConfigurationError for a URL without a name, MissingExtraError.
    """
    address = model.removeprefix(_CHAT)
    if not address.startswith(_SERVER):
        _refuse_url("generator", model)
        from ragtrace.engines.causal_lm import CausalLM

        return CausalLM.load(model)
    from ragtrace.engines.http import HttpLM

    url, _, name = address.partition("#")
    if not name:
        raise ConfigurationError.of("generator", model, "the model's name behind #: http://localhost:8000/v1#NAME")
    return HttpLM(url, name, chat=address != model, api_key_env=API_KEY if API_KEY in os.environ else None)


def _refuse_url(name: str, model: str) -> None:
    """Raises: ConfigurationError for an address that is of no server, which would be looked for by that name."""
    if "://" in model:
        raise ConfigurationError.of(
            name, model, "a folder, a Hugging Face name, or for a generator http://HOST/v1#NAME"
        )


def is_silent(model: object) -> bool:
    """Whether it is a server's chat that gives no log-probabilities; the server is asked once. Raises: ServerError."""
    from ragtrace.engines.http import HttpLM

    return isinstance(model, HttpLM) and model.chat and not model.gives_log_probabilities()


def as_baseline(name: str) -> Baseline:
    """A baseline of the retriever's tokens by its name. Raises: ConfigurationError for another one."""
    known: tuple[Baseline, ...] = get_args(Baseline)
    for each in known:
        if each == name:
            return each
    raise ConfigurationError.of("baseline", name, ", ".join(known))


def load_retriever(model: str) -> Encoder | CrossEncoder:
    """A sentence-transformers encoder from a folder or by its Hugging Face name; `cross:MODEL` is a cross-encoder.

    Raises: ModelError when it cannot be loaded, MissingExtraError.
    """
    _refuse_url("retriever", model)
    kind, found, name = model.partition(":")
    if kind == "cross" and found:
        from ragtrace.engines.cross_encoder import CrossEncoder

        return CrossEncoder.load(name)
    from ragtrace.engines.encoder import Encoder

    return Encoder.load(model)
