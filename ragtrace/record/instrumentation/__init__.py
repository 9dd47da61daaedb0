"""Records frameworks without a decorator: `ragtrace.instrument("langchain")` and its sisters, one module per framework.

A framework's own hook is used where it has one; what has none is wrapped. The frameworks themselves are loaded by the
host, never by this package: each waits for the import of its framework.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Final, NamedTuple

from ragtrace.errors import ConfigurationError, MissingExtraError

if TYPE_CHECKING:
    from ragtrace.record.instrumentation.base import Instrumentor

__all__ = ["FRAMEWORKS", "INTEGRATIONS", "Framework", "instrument", "uninstrument"]


class Framework(NamedTuple):
    """A framework that can be instrumented: its distribution, the extra that installs it, the class that does it.

    integrations: how modules begin whose calls of models are part of what the framework's own hook records.
    """

    distribution: str
    extra: str
    instrumentor: str
    integrations: tuple[str, ...] = ()


FRAMEWORKS: Final = {
    "langchain": Framework("langchain-core", "langchain", "LangChainInstrumentor", ("langchain",)),
    "llama_index": Framework("llama-index-core", "llama-index", "LlamaIndexInstrumentor", ("llama_index.",)),
    "haystack": Framework("haystack-ai", "haystack", "HaystackInstrumentor", ("haystack.", "haystack_integrations.")),
    "sentence_transformers": Framework("sentence-transformers", "models", "SentenceTransformersInstrumentor"),
    "openai": Framework("openai", "openai", "OpenAIInstrumentor"),
}
INTEGRATIONS: Final = tuple(prefix for framework in FRAMEWORKS.values() for prefix in framework.integrations)
"""How modules begin whose calls of models no wrapper of a model counts a second time."""


def instrument(framework: str) -> None:
    """Record what `framework` does from now on, with no decorator in the host's code.

        ragtrace.configure(service="assistant")
        ragtrace.instrument("langchain")

    framework: a name of `FRAMEWORKS`. Call it before the host imports functions out of the framework (`from
    sentence_transformers.util import semantic_search`). A second call changes nothing.

    Raises: ConfigurationError for another name or a version that is not supported; MissingExtraError when the
        framework or `opentelemetry-instrumentation` is not installed.
    """
    instrumentor = _instrumentor(framework)
    if instrumentor.is_instrumented_by_opentelemetry:
        return
    conflict = instrumentor.conflict()
    if conflict is not None:
        raise ConfigurationError(f"{framework!r} cannot be instrumented: {conflict}")
    instrumentor.instrument(skip_dep_check=True, configure=False)


def uninstrument(framework: str) -> None:
    """Stop what `instrument(framework)` began; requests that run are recorded to their end.

    Raises: as `instrument`.
    """
    instrumentor = _instrumentor(framework)
    if instrumentor.is_instrumented_by_opentelemetry:
        instrumentor.uninstrument()


def _instrumentor(framework: str) -> Instrumentor:
    known = FRAMEWORKS.get(framework)
    if known is None:
        raise ConfigurationError(f"{framework!r} cannot be instrumented; give one of {', '.join(FRAMEWORKS)}")
    for distribution, extra in ((known.distribution, known.extra), ("opentelemetry-instrumentation", "otel")):
        try:
            metadata.version(distribution)
        except metadata.PackageNotFoundError:
            raise MissingExtraError(distribution, extra) from None
    module = import_module(f"{__name__}.{framework}")
    instrumentor: Instrumentor = getattr(module, known.instrumentor)()
    return instrumentor
