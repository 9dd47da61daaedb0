"""`ragtrace triage`: walk the evidence of a request, an alert or a segment, and stop at the first confirmed break."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from ragtrace.cli.export import HostOption
from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json
from ragtrace.times import TIMES

if TYPE_CHECKING:
    from ragtrace.triage import Alert, Report, Window
    from ragtrace.types import Reference

__all__ = ["DEFAULT_PORT", "ServiceOption", "SinceOption", "UntilOption", "app", "first_alert", "window_of"]

DEFAULT_PORT: Final = 9465
_MINUTE: Final = 60_000_000_000
_LARGEST: Final = 8_388_608  # bytes of an alert file

app = typer.Typer(
    help="Walk the evidence in order, stop at the first confirmed break, and name owner, release and requests.",
    no_args_is_help=True,
)

ServiceOption: TypeAlias = Annotated[str, typer.Option("--service", help="The service, as it was recorded.")]
SinceOption: TypeAlias = Annotated[str, typer.Option("--since", metavar="TIME", help=f"From when on: {TIMES}.")]
UntilOption: TypeAlias = Annotated[
    str, typer.Option("--until", metavar="TIME", help=f"Until when: {TIMES}.", show_default=True)
]
LookbackOption: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--lookback",
        min=1,
        max=5_256_000,
        metavar="MINUTES",
        help="How long before an alert's start to look.  [default: 180, for a ticket 1440]",
        show_default=False,
    ),
]


@app.command("request")
def request(
    request_id: Annotated[str, typer.Argument(help="A request id, or as much of its beginning as is unique.")],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Walk the evidence of one request, each value beside its objective and what its segment had before."""
    from ragtrace.cli.stores import existing, find_record
    from ragtrace.store import Store
    from ragtrace.triage import triage_request

    with Store.open(existing(store)) as opened:
        record = find_record(opened, request_id)
        report = triage_request(opened, record, opened.get_analysis(record.request_id))
    _print(report, store, as_json)


@app.command("segment")
def segment(
    service: ServiceOption,
    since: SinceOption,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A segment.  [default: all]")] = None,
    until: UntilOption = "now",
    reference: Annotated[
        str | None,
        typer.Option("--reference", metavar="KIND", help="oracle, proxy or none.  [default: the most frequent one]",
                     show_default=False),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Walk the evidence of a segment, compared with as long a time before it."""
    from ragtrace.cli.stores import existing
    from ragtrace.store import Store
    from ragtrace.triage import triage_segment

    window = window_of(since, until)
    kind = _reference(reference)
    with Store.open(existing(store)) as opened:
        report = triage_segment(opened, service, name, window, reference=kind)
    _print(report, store, as_json)


@app.command("alert")
def alert(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Alertmanager's webhook JSON; - for standard input.")],
    lookback: LookbackOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Walk the evidence behind each alert of Alertmanager's webhook JSON."""
    from ragtrace.cli.stores import existing
    from ragtrace.store import Store
    from ragtrace.triage import read_payload, triage_alert
    from ragtrace.types import to_builtins

    payload = read_payload(_body(file))
    before = None if lookback is None else int(lookback * _MINUTE)
    with Store.open(existing(store)) as opened:
        reports = [triage_alert(opened, each, lookback=before) for each in payload.alerts]
    if as_json:
        print_json({"reports": to_builtins(reports)})
        return
    for number, report in enumerate(reports):
        if number:
            console().rule()
        _print(report, store, False)
    if not reports:
        console().print("the payload holds no alert")


@app.command("serve")
def serve(
    host: HostOption = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port to listen on.")] = DEFAULT_PORT,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where alerts are kept and reports are written.")
    ] = Path("triage"),
    forward: Annotated[
        str | None,
        typer.Option("--forward", metavar="URL", help="Post each report there, too, as JSON with its Markdown."),
    ] = None,
    lookback: LookbackOption = None,
    store: StoreOption = None,
) -> None:
    """Receive Alertmanager's webhook, and answer each alert once with a report as Markdown and JSON."""
    from ragtrace.cli.stores import existing
    from ragtrace.triage.receiver import Receiver

    url = existing(store)
    before = None if lookback is None else int(lookback * _MINUTE)
    with Receiver(url, out, host=host, port=port, forward=forward, lookback=before) as receiver:
        earlier = signal.signal(signal.SIGTERM, _end)
        try:
            console(stderr=True).print(
                f"receiving alerts at http://{host}:{receiver.port}/alerts, reports go to {out}; Ctrl-C ends it"
            )
            threading.Event().wait()
        finally:
            signal.signal(signal.SIGTERM, earlier)


def window_of(since: str, until: str) -> Window:
    """The window between two times of the command line. Raises: ConfigurationError."""
    import time

    from ragtrace.errors import ConfigurationError
    from ragtrace.times import parse_time
    from ragtrace.triage import Window

    now = time.time_ns()
    start, end = parse_time("--since", since, now), parse_time("--until", until, now)
    if start >= end:
        raise ConfigurationError.of("--since", since, f"a time before --until ({until})")
    return Window.of(max(0, start), max(1, end))


def first_alert(file: str) -> Alert:
    """The first alert of a payload. Raises: ConfigurationError, also for a payload without any."""
    from ragtrace.errors import ConfigurationError
    from ragtrace.triage import read_payload

    alerts = read_payload(_body(file)).alerts
    if not alerts:
        raise ConfigurationError(f"the payload {file!r} holds no alert")
    return alerts[0]


def _reference(kind: str | None) -> Reference | None:
    from ragtrace.errors import ConfigurationError

    if kind is None or kind in ("oracle", "proxy", "none"):
        return kind  # type: ignore[return-value]  # one of its three words
    raise ConfigurationError.of("--reference", kind, "oracle, proxy or none")


def _body(file: str) -> bytes:
    from ragtrace.errors import ConfigurationError

    try:
        if file == "-":
            body = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            with Path(file).open("rb") as opened:
                body = opened.read(_LARGEST + 1)
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {file!r}: {error.strerror}; give a file, or - for standard input"
        ) from error
    if len(body) > _LARGEST:
        raise ConfigurationError(f"{file!r} is longer than {_LARGEST} bytes; that is no payload of Alertmanager")
    return body


def _print(report: Report, store: str | None, as_json: bool) -> None:
    from ragtrace.cli.stores import shown
    from ragtrace.triage import render
    from ragtrace.types import to_builtins

    if as_json:
        print_json(to_builtins(report))
    else:
        console().print(render(report, store=shown(store) if store else None))


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)
