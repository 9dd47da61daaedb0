"""`ragtrace doctor`: what is installed, what is reachable, what is missing, and the command that mends it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import typer

from ragtrace.cli.installed import Extra, extras, tools, torch_device, version
from ragtrace.cli.terminal import JsonOption, StoreOption, print_json, print_table

__all__ = ["doctor"]

_TORCH_REMEDY = "pip install torch==2.13.0"


class _Line(NamedTuple):
    name: str
    state: str
    remedy: str = ""


def doctor(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Report what is installed and reachable. Exit code 2 when the store that was asked for cannot be read."""
    report = _report(store)
    if as_json:
        print_json(report)
    else:
        print_table(_Line._fields, _lines(report))
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
        "extras": [_extra(extra) for extra in extras()],
        "store": state,
        "tools": [tool._asdict() for tool in tools()],
    }


def _extra(extra: Extra) -> dict[str, Any]:
    remedy = None if extra.installed else extra.remedy
    return {"name": extra.name, "installed": extra.installed, "packages": extra.packages, "remedy": remedy}


def _store(asked: str | None) -> dict[str, Any]:
    """The store's state. One that is not there is an error only when somebody named it."""
    from ragtrace import config
    from ragtrace.cli.stores import existing, shown
    from ragtrace.errors import RagtraceError
    from ragtrace.store import check

    state: dict[str, Any] = {"url": None, "revision": None, "head": None, "spool": None, "error": None}
    try:
        settings = config.load(store=asked)
        url = settings.store
        state["url"] = shown(url)
        state["spool"] = _spool(url, settings.spool)
        schema = check(url)
        state |= {"revision": schema.current, "head": schema.head}
        if schema.current is not None or asked is not None or "RAGTRACE_STORE" in os.environ:
            state |= _contents(existing(url))
    except RagtraceError as error:
        state["error"] = str(error)
    return state


def _spool(url: str, given: str | None) -> dict[str, Any]:
    """What waits on this disk for the store, and what could not be read and was set aside."""
    from ragtrace.collect import default_folder, fallback_folder
    from ragtrace.collect.entries import read

    folders = list(dict.fromkeys((default_folder(url, given), fallback_folder(url))))
    waiting = dict.fromkeys(folders, 0)
    for folder in folders:
        for segment in folder.glob("*.seg"):
            with suppress(FileNotFoundError):  # a recording process has just stored and deleted it
                waiting[folder] += sum(1 for _ in read(segment.read_bytes()))
    damaged = sum(len(list(folder.glob("damaged/*"))) for folder in folders)
    fullest = max(folders, key=lambda folder: waiting[folder])
    return {"folder": str(fullest), "entries": sum(waiting.values()), "damaged": damaged}


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
        }


def _lines(report: dict[str, Any]) -> Iterator[_Line]:
    yield _Line("ragtrace", report["ragtrace"])
    yield _Line("python", f"{report['python']} ({report['executable']})")
    yield _Line("torch device", report["torch_device"] or "no torch", "" if report["torch_device"] else _TORCH_REMEDY)
    for extra in report["extras"]:
        there = ", ".join(f"{package} {found}" for package, found in extra["packages"].items() if found)
        lacking = ", ".join(package for package, found in extra["packages"].items() if not found)
        state = there if extra["installed"] else f"missing: {lacking}"
        yield _Line(f"extra {extra['name']}", state, extra["remedy"] or "")
    for tool in report["tools"]:
        yield _Line(tool["name"], tool["path"] or "not found (optional)", "" if tool["path"] else tool["remedy"])
    yield from _store_lines(report["store"])


def _store_lines(state: dict[str, Any]) -> Iterator[_Line]:
    if state["spool"] and state["spool"]["entries"]:
        yield _Line(
            "spool",
            f"{state['spool']['entries']} entries wait in {state['spool']['folder']}",
            "they are written when the application that records runs again",
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
    yield _Line("rows", _pairs(state["rows"]))
    backlog = state["queue"].get("pending", 0)
    yield _Line("queue", _pairs(state["queue"]), "ragtrace analyze" if backlog else "")
    if any(state["explanations"].values()):
        waiting = state["explanations"]["pending"]
        remedy = "ragtrace analyze --generator MODEL --retriever MODEL" if waiting else ""
        spent = "".join(f", {each} seconds today {took:.1f}" for each, took in state["spent_today"].items())
        yield _Line("explanations", _pairs(state["explanations"]) + spent, remedy)
    for fault in state["faults"]:
        yield _Line(f"fault {fault['where']}", f"{fault['kind']} {fault.get('count', 1)}x {fault.get('message', '')}")


def _pairs(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
