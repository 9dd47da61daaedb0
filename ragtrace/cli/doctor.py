"""`ragtrace doctor`: what is reachable, what can be judged, what is installed, and the command that mends it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from difflib import get_close_matches
from importlib import metadata
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, print_json, print_table, spooled
from ragtrace.config import SETTINGS, set_variables, unknown_variables
from ragtrace.installation import EXTRA, find_missing

if TYPE_CHECKING:
    from ragtrace.analyze.services import Judgeability, StageStates
    from ragtrace.store import Store

__all__ = ["Extra", "Tool", "doctor", "extras", "tools", "torch_device", "version"]

UNKNOWN_VERSION: Final = "unknown (a checkout that is not installed; pip install -e .)"
_TOOLS: Final = (
    ("promtool", "prometheus"),
    ("amtool", "prometheus-alertmanager"),
)
_REQUIREMENT: Final = re.compile(r"^([A-Za-z0-9._-]+)[^;]*;.*\bextra\s*==\s*['\"]([^'\"]+)['\"]")
_TORCH_REMEDY: Final = "pip install torch==2.13.0"
_STATES: Final = ("sound", "broken", "suspected", "not_known")
_LITTLE: Final = 0.05  # share of requests that are not judged, below which nothing has to change


class _Line(NamedTuple):
    name: str
    state: str
    remedy: str = ""


def doctor(
    store: StoreOption = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also each extra with its packages, and the empty tables.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Report what is reachable, what can be judged of each service, and what is installed.

    Exit code 2 when the store that was asked for cannot be read.
    """
    report = _report(store)
    if as_json:
        print_json(report)
    else:
        print_table(_Line._fields, _lines(report, verbose))
    if not report["ok"]:
        raise typer.Exit(2)


def _report(store: str | None) -> dict[str, Any]:
    state = _store(store)
    return {
        "ok": state["error"] is None,
        "ragtrace": version(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "torch_device": torch_device(),
        "settings": _settings(),
        "extras": [_extra(extra) for extra in extras()],
        "store": state,
        "tools": [tool._asdict() for tool in tools()],
    }


def _settings() -> dict[str, Any]:
    """The settings that the environment gives, and its variables that are none; a secret's value is None."""
    given = [
        {"name": name, "variable": variable, "value": None if SETTINGS[name].secret else os.environ[variable]}
        for name, variable in set_variables().items()
    ]
    return {"given": given, "unknown": unknown_variables()}


def _extra(extra: Extra) -> dict[str, Any]:
    remedy = None if extra.installed else extra.remedy
    return {"name": extra.name, "installed": extra.installed, "packages": extra.packages, "remedy": remedy}


def _store(asked: str | None) -> dict[str, Any]:
    """The store's state. One that is not there is an error only when somebody named it."""
    from ragtrace import config
    from ragtrace.cli.terminal import existing, shown
    from ragtrace.errors import RagtraceError
    from ragtrace.store import check

    state: dict[str, Any] = {"url": None, "revision": None, "head": None, "spool": None, "error": None}
    try:
        settings = config.load(store=asked)
        url = settings.store
        state["url"] = shown(url)
        state["spool"] = spooled(url, settings.spool)
        schema = check(url)
        state |= {"revision": schema.current, "head": schema.head}
        if schema.current is not None or asked is not None or config.variable("store") in os.environ:
            state |= _contents(existing(url))
    except RagtraceError as error:
        state["error"] = str(error)
    return state


def _contents(url: str) -> dict[str, Any]:
    from ragtrace.store import ATTRIBUTION, Store
    from ragtrace.types import to_builtins

    with Store.open(url) as store:
        return {
            "rows": store.counts(),
            "queue": store.queue_depth(),
            "explanations": store.queue_depth(ATTRIBUTION),
            "spent_today": store.spent(),
            "faults": [to_builtins(fault) for fault in store.faults()],
            **(_judged(store) if find_missing() is None else {"pages": None, "services": []}),
        }


def _judged(store: Store) -> dict[str, Any]:
    """What on-call said of pages, and what can be judged of each service: the analyzer knows."""
    from ragtrace.analyze.services import judgeability
    from ragtrace.triage import page_answers
    from ragtrace.types import to_builtins

    pages = page_answers(store)
    return {
        "pages": None if pages is None else to_builtins(pages),
        "services": [_service(judgeability(store, service)) | _quality(store, service) for service in store.services()],
    }


def _quality(store: Store, service: str) -> dict[str, Any]:
    """What the service's calibrations promise, those in shadow too, and its rates as corrected by labels."""
    from ragtrace.triage import calibration_words, corrected_shares
    from ragtrace.types import to_builtins

    calibrations = [each for each in store.calibrations([service]) if each.state != "retired"]
    return {
        "calibrations": [
            {
                "id": each.calibration_id,
                "models": each.models,
                "state": each.state,
                "created_at": each.created_at,
                "is_current": each.is_current,
                "promise": calibration_words(each),
            }
            for each in calibrations
        ],
        "corrected": [to_builtins(each) for each in corrected_shares(store, service, time.time_ns())],
    }


def _service(found: Judgeability) -> dict[str, Any]:
    """What can be judged of a service, and what would tell more."""
    return {
        "service": found.service,
        "requests": found.requests,
        "outdated": found.outdated,
        "stages": {stage.stage: _stage(stage, is_verified=found.is_verified) for stage in found.stages},
        "citing": {
            "judged": found.judges_citations,
            "answers": found.citing.answers,
            "cited": found.citing.cited,
            "since": found.citing.since,
        },
    }


def _stage(found: StageStates, *, is_verified: bool) -> dict[str, Any]:
    from ragtrace.analyze.services import remedy

    reason = found.reason
    return {
        "requests": found.requests,
        **{state: found.share(state) for state in _STATES},
        "reason": reason,
        "remedy": None if reason is None else remedy(found.stage, reason, is_verified=is_verified),
    }


def _lines(report: dict[str, Any], verbose: bool) -> Iterator[_Line]:
    """What may need something done, then what is installed."""
    yield _Line("ragtrace", report["ragtrace"])
    yield _Line("python", f"{report['python']} ({report['executable']})")
    for setting in report["settings"]["given"]:
        value = "given" if setting["value"] is None else setting["value"]
        yield _Line(f"setting {setting['name']}", f"{value} ({setting['variable']})")
    for name in report["settings"]["unknown"]:
        yield _Line(name, "is no setting", _similar(name))
    yield from _store_lines(report["store"], verbose)
    yield _Line("torch device", report["torch_device"] or "no torch", "" if report["torch_device"] else _TORCH_REMEDY)
    yield from _extra_lines(report["extras"]) if verbose else _extras_in_brief(report["extras"])
    for tool in report["tools"]:
        yield _Line(tool["name"], tool["path"] or "not found (optional)", "" if tool["path"] else tool["remedy"])


def _extras_in_brief(extras: list[dict[str, Any]]) -> Iterator[_Line]:
    there, lacking = ([one["name"] for one in extras if one["installed"] is is_there] for is_there in (True, False))
    yield _Line("extras", ", ".join(there) or "none", "" if lacking else "ragtrace doctor --verbose: their packages")
    if lacking:
        remedy = "if needed: pip install 'ragtrace[NAME]'; ragtrace doctor --verbose: what each lacks"
        yield _Line("extras missing", ", ".join(lacking), remedy)


def _extra_lines(extras: list[dict[str, Any]]) -> Iterator[_Line]:
    for extra in extras:
        there = ", ".join(f"{package} {found}" for package, found in extra["packages"].items() if found)
        lacking = ", ".join(package for package, found in extra["packages"].items() if not found)
        state = there if extra["installed"] else f"missing: {lacking}"
        yield _Line(f"extra {extra['name']}", state, extra["remedy"] or "")


def _similar(name: str) -> str:
    """What a misspelled variable was meant to be, if that can be guessed."""
    known = [variable for setting in SETTINGS.values() for variable in setting.variables]
    return "".join(f"did you mean {other}?" for other in get_close_matches(name, known, n=1, cutoff=0.8))


def _store_lines(state: dict[str, Any], verbose: bool) -> Iterator[_Line]:
    if state["spool"] and state["spool"]["entries"]:
        built = state["spool"]["handed"] > 0
        yield _Line(
            "spool",
            f"{state['spool']['entries']} entries wait in {state['spool']['folder']}",
            "ragtrace build --follow" if built else "they are written when the application that records runs again",
        )
    if state["spool"] and state["spool"]["damaged"]:
        yield _Line("spool", f"{state['spool']['damaged']} damaged files in {state['spool']['folder']}/damaged")
    if state["error"] is not None:
        yield _Line("store", f"cannot be read: {state['error']}")
        return
    if state["revision"] is None:
        yield _Line("store", f"{state['url']} does not exist yet", "ragtrace demo, or record a request")
        return
    yield _Line("store", f"{state['url']}, schema {state['revision']}")
    yield _Line("rows", _pairs({name: rows for name, rows in state["rows"].items() if rows or verbose}))
    backlog = state["queue"].get("pending", 0)
    yield _Line("queue", _pairs(state["queue"]), "ragtrace analyze" if backlog else "")
    if any(state["explanations"].values()):
        waiting = state["explanations"]["pending"]
        remedy = "ragtrace analyze --generator MODEL --retriever MODEL" if waiting else ""
        spent = "".join(f", {each} seconds today {took:.1f}" for each, took in state["spent_today"].items())
        why = " (flagged requests and a sample, for a worker that has models)" if waiting else ""
        yield _Line("explanations", _pairs(state["explanations"]) + spent + why, remedy)
    if state["pages"]:
        yield _Line("pages", _pages(state["pages"]), "ragtrace triage judge lists the answers")
    for service in state["services"]:
        yield from _service_lines(service)
    for fault in state["faults"]:
        yield _Line(f"fault {fault['where']}", f"{fault['kind']} {fault.get('count', 1)}x {fault.get('message', '')}")


def _service_lines(found: dict[str, Any]) -> Iterator[_Line]:
    """What can be judged of a service: one line for each stage, and one that says whether citations are judged."""
    from ragtrace.registry.wording import reason_words

    name = found["service"]
    if found["outdated"]:
        yield _Line(name, f"{found['outdated']} requests were judged by an earlier version", "ragtrace analyze --redo")
    for stage, states in found["stages"].items():
        shares = ", ".join(f"{state.replace('_', ' ')} {states[state]:.0%}" for state in _STATES if states[state])
        why = f" (mostly {reason_words(states['reason'], stage)})" if states["reason"] else ""
        is_enough = states["suspected"] + states["not_known"] < _LITTLE
        remedy = "" if is_enough else states["remedy"] or ""
        yield _Line(f"{name} {stage}", f"{shares}{why} of {states['requests']} requests", remedy)
    if found["requests"] or found["citing"]["answers"]:
        yield _Line(f"{name} citations", *_citing(name, found["citing"]))
    yield from _calibration_lines(name, found["calibrations"])
    if found["requests"] and not found["calibrations"]:
        yield _Line(f"{name} calibration", "none: judged by the lines that all services have", _calibrate(name))
    if found["corrected"]:
        from ragtrace.triage import CorrectedShare, corrected_text

        told = "; ".join(corrected_text(CorrectedShare(**each)) for each in found["corrected"])
        yield _Line(f"{name} by labels", f"broke first: {told}")


def _calibration_lines(service: str, calibrations: list[dict[str, Any]]) -> Iterator[_Line]:
    """What each calibration promises; one of earlier rules promises nothing, since it judges no more."""
    for each in calibrations:
        state, remedy = "", ""
        if not each["is_current"]:
            yield _Line(f"{service} calibration", f"{each['id']} is of an earlier version's rules", _calibrate(service))
            continue
        if each["state"] == "shadow":
            state, remedy = "in shadow, changes nothing yet: ", f"ragtrace calibrate --accept {each['id']}, after a day"
        yield _Line(f"{service} by {each['models'] or 'words'}", f"{state}{each['promise']}", remedy)


def _calibrate(service: str) -> str:
    return f"ragtrace calibrate --service {quote(service)}"


def _pages(answers: dict[str, Any]) -> str:
    """What on-call said of the pages of all services."""
    from ragtrace.triage import PageAnswers, pages_text

    return pages_text(PageAnswers(**answers))


def _citing(service: str, citing: dict[str, Any]) -> tuple[str, str]:
    """Whether the citations of a service are judged, why, and what changes it."""
    counted = f"{citing['cited']} of its last {citing['answers']} answers cite"
    if citing["since"] is not None:
        since = datetime.fromtimestamp(citing["since"] / 1e9, UTC)
        state = f"{service} counts as citing since {since:%Y-%m-%d %H:%M} UTC ({counted})"
        if not citing["judged"]:
            state += "; its last requests are not judged by citations: they came before, or say cites=False"
        return state, "ragtrace.configure(cites=False) ends that"
    if citing["judged"]:
        return "judged, as the application says that its answers cite", ""
    never = "never cited" if not citing["cited"] else f"hardly cited ({counted})"
    return f"answers of {service} {never}, so citations are not judged", "ragtrace.configure(cites=True) judges them"


def _pairs(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


class Extra(NamedTuple):
    """One extra of ragtrace: the versions of its packages (None where one is missing) and what installs it."""

    name: str
    packages: dict[str, str | None]

    @property
    def installed(self) -> bool:
        """Whether all of its packages are there."""
        return None not in self.packages.values()

    @property
    def remedy(self) -> str:
        """The command that installs it, and where that is no matter of course."""
        where = "on a CUDA machine, where models is not installed: " if self.name == "gpu" else ""
        return f"{where}pip install 'ragtrace[{self.name}]'"


class Tool(NamedTuple):
    """A program that checks what ragtrace exports; optional."""

    name: str
    path: str | None
    remedy: str


def version() -> str:
    """The installed version of ragtrace."""
    return _version("ragtrace") or UNKNOWN_VERSION


def extras() -> list[Extra]:
    """Every extra that a user may want: `all` (a sum of others) and `dev` are left out."""
    try:
        requirements = metadata.requires("ragtrace") or []
    except metadata.PackageNotFoundError:
        return []
    return [Extra(name, {package: _version(package) for package in packages}) for name, packages in _by(requirements)]


def tools() -> list[Tool]:
    """The external programs, found on PATH or not."""
    return [Tool(name, shutil.which(name), f"apt-get install {package}") for name, package in _TOOLS]


def torch_device() -> str | None:
    """The device that models run on, or None when torch is not installed or cannot be loaded."""
    from ragtrace.engines.models import load_package
    from ragtrace.errors import MissingExtraError

    try:
        torch = load_package("torch")
    except (MissingExtraError, ImportError, OSError):
        return None
    if torch.cuda.is_available():
        return f"cuda ({torch.cuda.get_device_name()})"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _by(requirements: Iterable[str]) -> list[tuple[str, list[str]]]:
    grouped: dict[str, list[str]] = {}
    for requirement in requirements:
        found = _REQUIREMENT.match(requirement)
        if found is not None and found[2] not in ("all", "dev"):
            grouped.setdefault(found[2], []).append(found[1])
    analyzer = grouped.get(EXTRA, [])  # many extras bring it; its packages are listed once
    apart: dict[str, list[str]] = {"cli": [], EXTRA: grouped.get("cli", [])}
    return [
        (name, [it for it in packages if it not in apart.get(name, analyzer)]) for name, packages in grouped.items()
    ]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
