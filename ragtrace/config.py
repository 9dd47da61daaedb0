"""Every setting of ragtrace, each declared once with its environment variable, its default and its meaning.

An argument wins over the environment, the environment over the default.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from math import isfinite
from typing import Any, Final, TypeAlias
from urllib.parse import SplitResult, urlsplit

from ragtrace import privacy
from ragtrace.bounds import LEAST_PROBABILITY, MOST_SKEW
from ragtrace.errors import ConfigurationError
from ragtrace.safe_text import masked

__all__ = ["SWITCH", "Config", "http_address", "load", "read_probe", "shown_address"]

_Parse: TypeAlias = Callable[[str, Any], Any]

_STORES: Final = ("sqlite", "sqlite+pysqlite", "postgres", "postgresql", "postgresql+psycopg")
SWITCH: Final = {  # how a switch is written in a text
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


_refuse = ConfigurationError.of


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _refuse(name, value, "a text that is not empty")
    return value.strip()


def _path(name: str, value: Any) -> str:
    return _text(name, os.fspath(value) if isinstance(value, os.PathLike) else value)


def _store(name: str, value: Any) -> str:
    url = _text(name, value)
    scheme, found, rest = url.partition("://")
    if not found or scheme not in _STORES:
        shown = scheme if found else url  # what follows the scheme may hold a password
        raise _refuse(name, shown, "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE")
    if scheme.startswith("sqlite") and rest.partition("?")[0].strip("/") in ("", ":memory:"):
        raise _refuse(name, url, "sqlite:///FILE: no worker would find a database in memory")
    return url


def _share(name: str, value: Any) -> float:
    try:
        share = float(value)
    except (TypeError, ValueError):
        raise _refuse(name, value, "a number from 0 to 1") from None
    if isinstance(value, bool) or not 0.0 <= share <= 1.0:
        raise _refuse(name, value, "a number from 0 to 1")
    return share


def _rate(name: str, value: Any) -> float:
    rate = _share(name, value)
    if rate and rate < LEAST_PROBABILITY:
        raise _refuse(
            name, value, f"0, or a number from {LEAST_PROBABILITY} to 1: a smaller one gives no usable weight"
        )
    return rate


def _skew(name: str, value: Any) -> float:
    seconds = _seconds(name, value)
    if seconds > MOST_SKEW:
        raise _refuse(name, value, f"a number of seconds from 0 to {MOST_SKEW:.0f}, which is a day")
    return seconds


def _bytes(name: str, value: Any) -> int:
    try:
        size = int(value)
    except (TypeError, ValueError):
        raise _refuse(name, value, "a whole number of bytes above 0") from None
    if isinstance(value, bool) or size <= 0 or size != float(value):
        raise _refuse(name, value, "a whole number of bytes above 0")
    return size


def _count(name: str, value: Any) -> int:
    number = _whole(name, value)
    if number < 1:
        raise _refuse(name, value, "a whole number above 0")
    return number


def _whole(name: str, value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise _refuse(name, value, "a whole number from 0 on") from None
    if isinstance(value, bool) or number < 0 or number != float(value):
        raise _refuse(name, value, "a whole number from 0 on")
    return number


def _seconds(name: str, value: Any) -> float:
    seconds = _number(name, value)
    if seconds < 0.0:
        raise _refuse(name, value, "a number of seconds from 0 on")
    return seconds


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise _refuse(name, value, "a finite number") from None
    if isinstance(value, bool) or not isfinite(number):
        raise _refuse(name, value, "a finite number")
    return number


def _switch(name: str, value: Any) -> bool:
    known = value if isinstance(value, bool) else SWITCH.get(str(value).strip().lower())
    if known is None:
        raise _refuse(name, value, "true or false (1/0, yes/no, on/off)")
    return known


def _versions(name: str, value: Any) -> dict[str, str]:
    if isinstance(value, str):
        pairs = [pair.partition("=") for pair in value.split(",") if pair.strip()]
        value = {key.strip(): version.strip() for key, _, version in pairs}
    if not isinstance(value, Mapping) or not all(str(key) and str(version) for key, version in value.items()):
        raise _refuse(name, value, "component and version pairs: {'model': 'v2'}, or model=v2,index=v7")
    return {str(key): str(version) for key, version in value.items() if version is not None}


def read_probe(name: str, value: Any) -> Any:
    """An object that can be asked about the index (`ragtrace.probe.Probe`), or where one is: `module:attribute`."""
    if isinstance(value, str):
        return _text(name, value)
    if isinstance(value, type) or not all(callable(getattr(value, method, None)) for method in ("probe", "has")):
        raise _refuse(
            name,
            value,
            "an object with the methods probe(query, depth, exact) and has(id or text), or module:attribute",
        )
    return value


def _about(parse: _Parse, doc: str, *env: str) -> dict[str, Any]:
    return {"parse": parse, "doc": doc, "env": env}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings, once for the whole process. Made by `load`; each field's metadata has `env` and `doc`."""

    service: str = field(
        default="default",
        metadata=_about(
            _text, "Name of the application; a label of every metric.", "RAGTRACE_SERVICE", "OTEL_SERVICE_NAME"
        ),
    )
    store: str = field(
        default="sqlite:///ragtrace.db",
        repr=False,  # it may hold a password
        metadata=_about(_store, "URL of the database: sqlite:///FILE or postgresql://…", "RAGTRACE_STORE"),
    )
    sample_rate: float = field(
        default=1.0,
        metadata=_about(
            _rate,
            "Share of requests kept at random: 0, or from 1e-9 to 1; flagged ones are always kept.",
            "RAGTRACE_SAMPLE_RATE",
        ),
    )
    sample_floor: int = field(
        default=10,
        metadata=_about(
            _whole,
            "Requests of each segment, process and hour that are sampled whatever the rate; 0 for none.",
            "RAGTRACE_SAMPLE_FLOOR",
        ),
    )
    screen: float = field(
        default=0.0,
        metadata=_about(
            _share,
            "Share of a processor core that analyzes requests outside the sample for reasons to keep them, 0 to 1; "
            "above 0, the analyzer is loaded into the application (ragtrace[analyze]).",
            "RAGTRACE_SCREEN",
        ),
    )
    low_score: float | None = field(
        default=None,
        metadata=_about(
            _number,
            "Flags requests whose best retrieval score is below it; by default none, since scores have no scale.",
            "RAGTRACE_LOW_SCORE",
        ),
    )
    recent_bytes: int = field(
        default=16 * 2**20,
        metadata=_about(
            _whole,
            "Memory for requests outside the sample that ended lately, for late flags; 0 for none.",
            "RAGTRACE_RECENT_BYTES",
        ),
    )
    recent_seconds: float = field(
        default=600.0,
        metadata=_about(_seconds, "How long a late flag finds such a request.", "RAGTRACE_RECENT_SECONDS"),
    )
    request_ttl: float = field(
        default=3600.0,
        metadata=_about(
            _seconds, "Seconds after which a request that has not ended is closed; 0 for never.", "RAGTRACE_REQUEST_TTL"
        ),
    )
    clock_skew: float = field(
        default=300.0,
        metadata=_about(
            _skew,
            "Seconds by which the clock of a sender may be ahead, up to a day; a request that is said to begin later "
            "has the time of its arrival.",
            "RAGTRACE_CLOCK_SKEW",
        ),
    )
    capture_content: privacy.Capture = field(
        default=privacy.Capture(),
        metadata=_about(
            privacy.read_capture,
            "What is kept of content: full, redacted, hash or off; for all, or by field (prompt=off,chunks=redacted).",
            "RAGTRACE_CAPTURE_CONTENT",
        ),
    )
    redact: tuple[str, ...] = field(
        default=privacy.DETECTORS,
        metadata=_about(
            privacy.read_detectors, "What is redacted: key, email, iban, card, ip, phone.", "RAGTRACE_REDACT"
        ),
    )
    redact_patterns: dict[str, re.Pattern[str]] = field(
        default_factory=dict,
        metadata=_about(
            privacy.read_patterns,
            "Regular expressions of your own to redact, by name; a JSON object in the environment.",
            "RAGTRACE_REDACT_PATTERNS",
        ),
    )
    redactor: Callable[[str], str] | None = field(
        default=None,
        metadata=_about(privacy.read_redactor, "A function of your own that redacts a text; an argument only."),
    )
    span_vocabularies: tuple[str, ...] = field(
        default=("gen_ai",),
        metadata=_about(
            privacy.read_vocabularies,
            "Conventions of span attributes beside ragtrace's own: gen_ai, openinference.",
            "RAGTRACE_SPAN_VOCABULARIES",
        ),
    )
    span_content: bool = field(
        default=False,
        metadata=_about(
            privacy.read_span_content,
            "Whether spans carry what is kept of queries, chunks, prompts and answers.",
            "RAGTRACE_SPAN_CONTENT",
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
        ),
    )
    baggage: tuple[str, ...] = field(
        default=(),
        metadata=_about(
            privacy.read_baggage,
            "What travels in OpenTelemetry baggage, and so to every service called: session_id, tenant_id.",
            "RAGTRACE_BAGGAGE",
        ),
    )
    versions: dict[str, str] = field(
        default_factory=dict,
        metadata=_about(_versions, "Versions of the components, written on every record.", "RAGTRACE_VERSIONS"),
    )
    cites: bool | None = field(
        default=None,
        metadata=_about(
            _switch,
            "Whether answers are meant to cite their sources; if not, citation is no stage of a request. By default "
            "that is learned from what the answers do.",
            "RAGTRACE_CITES",
        ),
    )
    probe: Any = field(
        default=None,
        metadata=_about(
            read_probe,
            "Asks the index once more where evidence may be missing: an object with probe(query, depth, exact) and "
            "has(id or text), or module:attribute. Used by analyses in this process; ragtrace analyze has --probe.",
            "RAGTRACE_PROBE",
        ),
    )
    spool: str | None = field(
        default=None,
        metadata=_about(
            _path, "Folder for what is not in the store yet; by default beside the SQLite file.", "RAGTRACE_SPOOL"
        ),
    )
    queue_bytes: int = field(
        default=64 * 2**20,
        metadata=_about(
            _bytes, "Memory for requests on their way; random samples beyond it drop.", "RAGTRACE_QUEUE_BYTES"
        ),
    )
    spool_bytes: int = field(
        default=2**30,
        metadata=_about(
            _bytes, "Disk for what waits for the store; random samples beyond it drop.", "RAGTRACE_SPOOL_BYTES"
        ),
    )
    read_items: int = field(
        default=10_000,
        metadata=_about(
            _count,
            "Items of one result that are read in the application's thread; what is beyond is counted.",
            "RAGTRACE_READ_ITEMS",
        ),
    )
    read_seconds: float = field(
        default=0.5,
        metadata=_about(
            _seconds,
            "Seconds for which one result is read in the application's thread; what is not read then is counted.",
            "RAGTRACE_READ_SECONDS",
        ),
    )
    follow_threads: bool = field(
        default=True,
        metadata=_about(
            _switch,
            "Work that a request hands to a ThreadPoolExecutor stays in that request.",
            "RAGTRACE_FOLLOW_THREADS",
        ),
    )
    raise_errors: bool = field(
        default=False,
        metadata=_about(
            _switch, "Raise ragtrace's own faults instead of counting them; for tests.", "RAGTRACE_RAISE_ERRORS"
        ),
    )
    enabled: bool = field(
        default=True, metadata=_about(_switch, "False makes every decorator a plain pass-through.", "RAGTRACE_ENABLED")
    )


def load(**arguments: Any) -> Config:
    """The settings from `arguments`, then the environment, then the defaults; None means "not given".

    Raises: TypeError for an argument that is no setting, ConfigurationError for a value that cannot be used.
    """
    settings = {setting.name: setting for setting in fields(Config)}
    for name in arguments.keys() - settings.keys():
        raise TypeError(f"{name!r} is no setting; the settings are {', '.join(settings)}")
    values = {name: _value(setting, arguments.get(name)) for name, setting in settings.items()}
    return Config(**{name: value for name, value in values.items() if value is not None})


def _value(setting: Field[Any], argument: Any) -> Any:
    parse: _Parse = setting.metadata["parse"]
    if argument is not None:
        return parse(setting.name, argument)
    for variable in setting.metadata["env"]:
        if text := os.environ.get(variable, "").strip():
            return parse(variable, text)
    return None


def http_address(name: str, url: str, allowed: str) -> SplitResult:
    """The parts of an http or https URL.

    Raises: ConfigurationError naming `name`, what is allowed, and the value without a password.
    """
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ConfigurationError.of(name, url, allowed)
    return parts


def shown_address(parts: SplitResult) -> str:
    """The URL without user, password and query."""
    return masked(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl())
