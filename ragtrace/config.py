"""Every setting of ragtrace, each declared once with its environment variable, its default and its meaning.

An argument or an option wins over the environment, the environment over the default. `Config` holds what an application
is configured by, `SETTINGS` all settings, those of commands included.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from math import isfinite
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import SplitResult, urlsplit

from ragtrace import privacy
from ragtrace.errors import ConfigurationError
from ragtrace.plausible_values import LEAST_PROBABILITY, MOST_SKEW
from ragtrace.safe_text import masked

__all__ = [
    "BUILDERS",
    "PREFIX",
    "PRICED",
    "SETTINGS",
    "SWITCH",
    "Config",
    "Setting",
    "http_address",
    "load",
    "read_prices",
    "read_probe",
    "set_variables",
    "shown_address",
    "unknown_variables",
    "variable",
]

_Parse: TypeAlias = Callable[[str, Any], Any]
N = TypeVar("N", int, float)

PREFIX: Final = "RAGTRACE_"
"""How the names of the environment variables begin."""

_STORES: Final = ("sqlite", "sqlite+pysqlite", "postgres", "postgresql", "postgresql+psycopg")
BUILDERS: Final = ("host", "worker")
"""Who may build the records: the application, or `ragtrace build` beside it."""

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


def _measured(name: str, value: Any, kind: Callable[[Any], N], allowed: str, holds: Callable[[N], bool]) -> N:
    """A number of a kind for which `holds` is true; no truth value, and none that the kind would round."""
    try:
        number = kind(value)
        is_exact = number == float(value) and not isinstance(value, bool)
    except (TypeError, ValueError, OverflowError):
        raise _refuse(name, value, allowed) from None
    if not is_exact or not holds(number):
        raise _refuse(name, value, allowed)
    return number


def _share(name: str, value: Any) -> float:
    return _measured(name, value, float, "a number from 0 to 1", lambda share: 0.0 <= share <= 1.0)


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
    return _measured(name, value, int, "a whole number of bytes above 0", lambda size: size > 0)


def _count(name: str, value: Any) -> int:
    number = _whole(name, value)
    if number < 1:
        raise _refuse(name, value, "a whole number above 0")
    return number


def _whole(name: str, value: Any) -> int:
    return _measured(name, value, int, "a whole number from 0 on", lambda number: number >= 0)


def _seconds(name: str, value: Any) -> float:
    seconds = _number(name, value)
    if seconds < 0.0:
        raise _refuse(name, value, "a number of seconds from 0 on")
    return seconds


def _number(name: str, value: Any) -> float:
    return _measured(name, value, float, "a finite number", isfinite)


def _switch(name: str, value: Any) -> bool:
    known = value if isinstance(value, bool) else SWITCH.get(str(value).strip().lower())
    if known is None:
        raise _refuse(name, value, "true or false (1/0, yes/no, on/off)")
    return known


def _builder(name: str, value: Any) -> str:
    if value not in BUILDERS:
        raise _refuse(name, value, " or ".join(f"{each!r}" for each in BUILDERS))
    return str(value)


def _versions(name: str, value: Any) -> dict[str, str]:
    if isinstance(value, str):
        pairs = [pair.partition("=") for pair in value.split(",") if pair.strip()]
        value = {key.strip(): version.strip() for key, _, version in pairs}
    if not isinstance(value, Mapping) or not all(str(key) and str(version) for key, version in value.items()):
        raise _refuse(name, value, "component and version pairs: {'model': 'v2'}, or model=v2,index=v7")
    return {str(key): str(version) for key, version in value.items() if version is not None}


PRICED: Final = ("input", "output", "call")
"""What a model may have a price for: a million tokens that it reads or writes, and a call."""


def read_prices(name: str, value: Any) -> dict[str, dict[str, float]]:
    """Prices by model, from a mapping or its JSON. Raises: ConfigurationError."""
    allowed = "prices by model, such as {'gpt-4o': {'input': 2.5, 'output': 10}}: a million tokens in, out, and a call"
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise _refuse(name, value, allowed) from None
    if not isinstance(value, Mapping) or not all(isinstance(price, Mapping) for price in value.values()):
        raise _refuse(name, value, allowed)
    for model, price in value.items():
        for part, amount in price.items():
            if part not in PRICED or _number(f"{name}[{model!r}][{part!r}]", amount) < 0:
                raise _refuse(name, {model: dict(price)}, allowed)
    return {str(model): {part: float(amount) for part, amount in price.items()} for model, price in value.items()}


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
    span_unsampled: bool = field(
        default=False,
        metadata=_about(
            _switch,
            "Whether spans of requests outside the sample carry as much as those in it (ids, ranks and scores of "
            "chunks, content where it is asked for), which the application's processor pays for.",
            "RAGTRACE_SPAN_UNSAMPLED",
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
            "Asks the index again, deeper and exactly, where evidence may be missing: probe(query, depth, exact) and "
            "has(id or text), or module:attribute, or module:function() that makes it.",
            "RAGTRACE_PROBE",
        ),
    )
    prices: dict[str, dict[str, float]] | None = field(
        default=None,
        metadata=_about(
            read_prices,
            "Prices by model, of a million tokens read (input) and written (output), and of a call; ragtrace has none. "
            "A JSON object in the environment.",
            "RAGTRACE_PRICES",
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
    build: str = field(
        default="host",
        metadata=_about(
            _builder,
            "Who builds and stores the records: host, or worker, which is `ragtrace build` on the same machine.",
            "RAGTRACE_BUILD",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting.

    kind: what it is, in words. default: None where there is none. variables: of the environment; the first one that is
    set counts. given: where it is given besides, as `configure(service=)` or the option of a command. secret: it may
    hold a password, and is shown nowhere.
    """

    name: str
    kind: str
    default: Any
    doc: str
    variables: tuple[str, ...] = ()
    given: str = ""
    secret: bool = False


_KINDS: Final[Mapping[_Parse, str]] = {
    _text: "text",
    _path: "path",
    _store: "URL",
    _share: "number from 0 to 1",
    _rate: "number from 0 to 1",
    _skew: "seconds",
    _seconds: "seconds",
    _number: "number",
    _bytes: "bytes",
    _whole: "whole number",
    _count: "whole number",
    _switch: "on or off",
    _builder: " or ".join(BUILDERS),
    _versions: "name=version, ...",
    read_prices: "JSON object",
    read_probe: "module:attribute",
    privacy.read_capture: "full, redacted, hash or off",
    privacy.read_patterns: "JSON object",
    privacy.read_redactor: "function",
    privacy.read_span_content: "on or off",
}
_OPTIONS: Final = {"store": "`--store`", "spool": "`build --spool`", "service": "`import --service`",
                   "cites": "`import --cites`", "probe": "`analyze --probe`, `probe --probe`",
                   "prices": "`analyze --prices`"}  # fmt: skip


def _of_configure(declared: Field[Any]) -> Setting:
    default = declared.default if declared.default_factory is MISSING else declared.default_factory()
    option = _OPTIONS.get(declared.name)
    return Setting(
        name=declared.name,
        kind=_KINDS.get(declared.metadata["parse"], "names, with commas"),
        default=default,
        doc=declared.metadata["doc"],
        variables=declared.metadata["env"],
        given=f"`configure({declared.name}=)`" + (f", {option}" if option else ""),
        secret=not declared.repr,
    )


def _of(commands: str, name: str, kind: str, default: Any, doc: str, *further: str, secret: bool = False) -> Setting:
    """A setting of commands; without one it is given by the environment alone."""
    option = ", ".join(f"`{command} --{name.replace('_', '-')}`" for command in commands.split(", ") if command)
    variables = (PREFIX + name.upper(), *further)
    return Setting(name=name, kind=kind, default=default, doc=doc, variables=variables, given=option, secret=secret)


_COMMANDS: Final = (
    _of("analyze", "events", "on or off", False,
        "Also send each score as an OpenTelemetry event over OTLP (OTEL_EXPORTER_OTLP_ENDPOINT)."),
    _of("analyze, explain", "generator", "model", None,
        "Explain what answers used: by a causal language model's folder or name, or URL#NAME of a server's.",
        secret=True),
    _of("", "generator_key", "text", None, "The key that the generator's server asks for.", secret=True),
    _of("", "retriever_key", "text", None, "The key that the retriever's server asks for.", secret=True),
    _of("", "judge_key", "text", None, "The key that the server of a judge asks for.", secret=True),
    _of("analyze, calibrate, grade request, grade report, grade entities", "judge", "role=model, ...", None,
        "Who judges in a role (entails, relevant, answers): a classifier's folder or name, chat:URL#NAME of a "
        "server's, or, for relevant alone, builtin; more than one by several options, or with commas.", secret=True),
    _of("analyze, calibrate", "judge_calibration", "role=file, ...", None,
        "Calibrations of these judges by role, as `ragtrace verifier calibrate` writes them; a classifier's folder may "
        "have its own."),
    _of("analyze, calibrate", "judge_tokens", "whole number", None,
        "The most tokens that judges behind servers may read and write in an hour, by all workers of this command."),
    _of("analyze", "grade_upper", "number from -1 to 1", None,
        "What was retrieved is CORRECT where a candidate has this grade or more. Grades go from -1 (surely not "
        "relevant) to 1 (surely relevant): 2p - 1 of a judge's probability of relevance. By default what `grade report "
        "--keep` keeps for the service and the judge, else 0.59."),
    _of("analyze", "grade_lower", "number from -1 to 1", None,
        "What was retrieved is INCORRECT where no candidate has this grade or more, from -1 (surely not relevant) to "
        "1 (surely relevant). By default as the upper one, else -0.99."),
    _of("analyze", "question_types", "module:function", None,
        "Your function that takes a question and returns its type, or None; where it says none, and without it, the "
        "relation that the question asks for counts. The query class of a request comes before it."),
    _of("label ask, web", "labeler", "text", None, "Who labels; by default the user's name."),
    _of("analyze, explain", "retriever", "model", None,
        "Explain why documents were retrieved: by a sentence encoder's folder or name, builtin (the models extra's), "
        "cross:MODEL, or embed:URL#NAME of a server of embeddings.", secret=True),
    _of("analyze, calibrate", "verifier", "model", None,
        "Judge the claims of answers by a sequence classifier's folder or name (see `ragtrace verifier`)."),
    _of("analyze, calibrate", "embeddings", "model", None,
        "Judge the claims of answers by a sentence encoder's folder or name as well, before any verifier."),
    _of("analyze, calibrate", "entities", "spaCy pipeline", None,
        "Read the names in questions by this spaCy pipeline, where the application names no facets (ragtrace[spacy]); "
        "a pipeline runs its own code."),
    _of("analyze", "provider", "text", "source",
        "What names the provider of a document in the series of exposure: source, doc_id, modality, a key of its "
        "metadata, or none for no such series."),
    _of("analyze", "probe_share", "number from 0 to 1", 1.0,
        "Share of the requests with a suspected retrieval that are asked about."),
    _of("analyze", "probe_sound", "number from 0 to 1", 0.05, "The same of the requests in which nothing is in doubt."),
    _of("analyze", "probe_rate", "number", 30.0,
        "The most requests of one service that are asked about in a minute, by all workers of this command."),
    _of("analyze", "probe_seconds", "seconds", 10.0,
        "Judge a request without the probe when it has not answered after so long."),
    _of("analyze", "explain", "flag=part+part, ...", None,
        "Which flags buy an explanation by a worker with models, and of what: generator, query, retriever, utility, "
        "joined by +, as in low_coverage=generator+query,host=retriever; host stands for all flags of the application, "
        "none for no flag at all."),
    _of("analyze", "explain_rate", "number from 0 to 1", 0.01,
        "Share of the sampled requests that are explained whatever their flags."),
    _of("analyze", "explain_utility_rate", "number from 0 to 1", 0.0,
        "Share of the sampled requests of which the generator says what each candidate is worth alone: a prompt for "
        "each."),
    _of("analyze", "explain_budget", "whole number", None,
        "The most prompts that the generator scores for one part of an explanation."),
    _of("analyze", "explain_method", "method", "auto",
        "Which estimator gives the shares: auto, exact, gp, pmcshap, kernelshap, mcshap or permutation, with settings "
        "as in pmcshap:n_fits=100+released=true."),
    _of("analyze", "explain_similarity", "similarity", "ngram-jaccard",
        "How answers are compared of a model that tells nothing else: levenshtein, jaro-winkler, ngram-jaccard, or "
        "cosine of the retriever's vectors."),
    _of("analyze", "explain_sentences", "on or off", False,
        "Have such a model answer again without each sentence of its prompt as well: one more answer for each."),
    _of("analyze", "explain_settle", "number from 0 to 1", 0.9,
        "Ends an estimate before its budget once, with this confidence, the most used document and the flags will stay "
        "as they are; 0: never."),
    _of("analyze", "explain_error", "nats", None,
        "Ends an estimate before its budget once no document's share has a larger standard error."),
    _of("analyze", "explain_documents", "whole number", 10,
        "How many documents' retrieval is explained: the prompt's by rank, then other candidates."),
    _of("analyze", "explain_baseline", "unk, mask, pad or zero", "unk",
        "What the retriever's tokens are compared with: unk, mask, pad or zero."),
    _of("analyze", "explain_gpu_seconds", "seconds", 3600.0, "What all workers together may spend on a GPU in a day."),
    _of("analyze", "explain_cpu_seconds", "seconds", 3600.0, "The same for explanations without a GPU."),
    _of("analyze", "executor", "thread, processes or ray", "thread", "Where workers run (ragtrace[ray] for ray)."),
    _of("analyze", "workers", "whole number", 1, "How many; each loads its own models."),
    _of("analyze", "gpus_per_worker", "number", None, "GPUs of each process or actor, also a part of one (0.5)."),
    _of("analyze", "ray_address", "address", "local",
        "A Ray that runs: auto, HOST:PORT or ray://HOST:PORT; local starts one on this machine.", "RAY_ADDRESS"),
    _of("export", "max_series", "whole number", 100_000,
        "How many series a scrape shows; of more the least important ones are left out."),
    _of("", "remote_write_headers", "name=value, ...", None,
        "Headers of remote write, written as OTEL_EXPORTER_OTLP_HEADERS has them.", secret=True),
    _of("triage serve", "forward_authorization", "text", None,
        'The header Authorization of reports that are posted on, such as "Bearer TOKEN".', secret=True),
    _of("", "debug", "1", None, "Shows the traceback of an error that is one line otherwise."),
)  # fmt: skip

SETTINGS: Final[Mapping[str, Setting]] = {
    setting.name: setting for setting in (*map(_of_configure, fields(Config)), *_COMMANDS)
}
"""All settings by name."""


def variable(name: str) -> str:
    """The environment variable of a setting, for reading it and for messages."""
    return SETTINGS[name].variables[0]


def set_variables() -> dict[str, str]:
    """The settings that the environment gives, each with the variable that counts; an empty one gives nothing."""
    given = {
        setting.name: next((name for name in setting.variables if os.environ.get(name, "").strip()), None)
        for setting in SETTINGS.values()
    }
    return {setting: name for setting, name in given.items() if name is not None}


def unknown_variables() -> list[str]:
    """Variables of the environment that look like settings and are none, such as misspelled ones."""
    known = {name for setting in SETTINGS.values() for name in setting.variables}
    return sorted(name for name in os.environ if name.startswith(PREFIX) and name not in known)


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
