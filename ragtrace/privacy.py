"""Settings of privacy: what may be kept of a request's content, and what may leave beside the record.

Each `read_…` takes a setting's name and value, from an argument or an environment variable, and raises
ConfigurationError for one that cannot be used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from ragtrace.errors import ConfigurationError

__all__ = [
    "BAGGAGE",
    "DETECTORS",
    "VOCABULARIES",
    "Capture",
    "CaptureContent",
    "CaptureMode",
    "Vocabulary",
    "read_baggage",
    "read_capture",
    "read_detectors",
    "read_patterns",
    "read_redactor",
    "read_span_content",
    "read_vocabularies",
]

CaptureMode: TypeAlias = Literal["off", "hash", "redacted", "full"]
CaptureContent: TypeAlias = CaptureMode | Mapping[str, CaptureMode]
Vocabulary: TypeAlias = Literal["gen_ai", "openinference"]

DETECTORS: Final = ("key", "email", "iban", "card", "ip", "phone")
VOCABULARIES: Final = get_args(Vocabulary)
BAGGAGE: Final = ("session_id", "tenant_id")

_MODES: Final = get_args(CaptureMode)
_DEFAULT: Final = "default"
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_CONTENT: Final = {  # and the values of OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT
    **dict.fromkeys(("1", "true", "yes", "on", "span_only", "span_and_event"), True),
    **dict.fromkeys(("0", "false", "no", "off", "event_only", "no_content"), False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """How much is kept of each kind of content: nothing, its hash, the redacted text, or the text.

    Only chunks and answers have a hash; of the others, `hash` keeps nothing.
    """

    query: CaptureMode = "full"  # the question, its rewrites, and its facets
    chunks: CaptureMode = "full"  # texts of candidates and packed chunks
    metadata: CaptureMode = "full"  # of candidates
    prompt: CaptureMode = "full"  # the template around the chunks
    answer: CaptureMode = "full"  # the answer, and the markers of its citations
    error: CaptureMode = "full"  # messages of exceptions
    attributes: CaptureMode = "full"  # the host's own, on the request
    feedback: CaptureMode = "full"  # comments

    @property
    def redacts(self) -> bool:
        """Whether any field is redacted."""
        return any(getattr(self, setting.name) == "redacted" for setting in fields(self))


def read_capture(name: str, value: Any) -> Capture:
    """One mode for all content, or modes by field: a mapping, or `prompt=off,chunks=redacted,default=full`."""
    if isinstance(value, Capture):
        return value
    if isinstance(value, str) and "=" in value:
        value = {field.strip(): mode.strip() for field, _, mode in (part.partition("=") for part in _parts(value))}
    modes = dict(value) if isinstance(value, Mapping) else {_DEFAULT: value}
    known = [setting.name for setting in fields(Capture)]
    for field, mode in modes.items():
        if mode not in _MODES:
            raise ConfigurationError.of(name, value, "'full', 'redacted', 'hash' or 'off', or one of them by field")
        if field not in (*known, _DEFAULT):
            raise ConfigurationError.of(name, value, f"modes for fields among {', '.join(known)} and {_DEFAULT}")
    default = modes.pop(_DEFAULT, "full")
    return Capture(**{field: cast(CaptureMode, modes.get(field, default)) for field in known})


def read_detectors(name: str, value: Any) -> tuple[str, ...]:
    """Names of detectors."""
    return _some_of(name, value, DETECTORS)


def read_vocabularies(name: str, value: Any) -> tuple[str, ...]:
    """Names of span vocabularies."""
    return _some_of(name, value, VOCABULARIES)


def read_baggage(name: str, value: Any) -> tuple[str, ...]:
    """Names of what may travel in OpenTelemetry baggage."""
    return _some_of(name, value, BAGGAGE)


def read_patterns(name: str, value: Any) -> dict[str, re.Pattern[str]]:
    """The host's regular expressions by name; from the environment, as a JSON object."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ConfigurationError.of(name, value, """a JSON object: {"customer": "C-[0-9]{6}"}""") from None
    if not isinstance(value, Mapping):
        raise ConfigurationError.of(name, value, "regular expressions by name: {'customer': r'C-[0-9]{6}'}")
    return {str(key): _pattern(f"{name}[{key!r}]", str(key), pattern) for key, pattern in value.items()}


def _pattern(name: str, key: str, value: Any) -> re.Pattern[str]:
    if not _NAME.fullmatch(key) or key.lower() in DETECTORS:
        raise ConfigurationError.of(
            name, value, f"it a name of letters, digits, _ and - that is none of {', '.join(DETECTORS)}"
        )
    try:
        pattern: re.Pattern[str] = re.compile(value)
        is_empty = pattern.search("") is not None
    except (re.error, TypeError) as error:
        raise ConfigurationError.of(name, value, f"a regular expression of Python's re ({error})") from error
    if is_empty:
        raise ConfigurationError.of(name, value, "a regular expression that does not match the empty text")
    return pattern


def read_redactor(name: str, value: Any) -> Callable[[str], str]:
    """A function from text to text."""
    if not callable(value):
        raise ConfigurationError.of(name, value, "a function that takes a text and returns a text")
    return cast("Callable[[str], str]", value)


def read_span_content(name: str, value: Any) -> bool:
    """Whether spans carry content. Words of OpenTelemetry's own variable that are not known mean no."""
    known = value if isinstance(value, bool) else _CONTENT.get(str(value).strip().lower())
    if known is None and name.startswith("OTEL_"):
        return False
    if known is None:
        raise ConfigurationError.of(name, value, "true or false (1/0, yes/no, on/off)")
    return known


def _some_of(name: str, value: Any, known: Iterable[str]) -> tuple[str, ...]:
    names = _parts(value) if isinstance(value, str) else value
    chosen = list(names) if isinstance(names, Iterable) else [names]
    if any(option not in known for option in chosen):
        raise ConfigurationError.of(name, value, f"names among {', '.join(known)}")
    return tuple(option for option in known if option in chosen)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
