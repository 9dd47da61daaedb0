"""`ragtrace triage|postmortem`: the walk to what broke first in a request, an alert or a segment, and a draft of it."""

from __future__ import annotations

import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from ragtrace.cli.monitoring import HostOption
from ragtrace.cli.terminal import JsonOption, StoreOption, console, option, print_json, print_table
from ragtrace.formats import TIMES, shown_time

if TYPE_CHECKING:
    from ragtrace.store import Judgment, PageJudgment, Store
    from ragtrace.triage import Alert, Report, Window
    from ragtrace.types import Reference

__all__ = [
    "DEFAULT_PORT",
    "ServiceOption",
    "SinceOption",
    "UntilOption",
    "app",
    "first_alert",
    "postmortem",
    "window_of",
]

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
    from ragtrace.cli.terminal import existing, find_record
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
        typer.Option(
            "--reference",
            metavar="KIND",
            help="oracle: requests with gold evidence; proxy: those without.  [default: the more frequent]",
            show_default=False,
        ),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Walk the evidence of a segment, compared with as long a time before it."""
    from ragtrace.cli.terminal import existing, known_place
    from ragtrace.store import Store
    from ragtrace.triage import triage_segment

    window = window_of(since, until)
    kind = _reference(reference)
    with Store.open(existing(store)) as opened:
        known_place(opened, service, name, "NAME")
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
    from ragtrace.cli.terminal import existing
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
    authorization: Annotated[str | None, option("forward_authorization", metavar="HEADER", show_envvar=True)] = None,
    lookback: LookbackOption = None,
    store: StoreOption = None,
) -> None:
    """Receive Alertmanager's webhook, and answer each alert once with a report as Markdown and JSON."""
    from ragtrace.cli.terminal import existing
    from ragtrace.triage.service import Receiver

    url = existing(store)
    before = None if lookback is None else int(lookback * _MINUTE)
    with Receiver(
        url, out, host=host, port=port, forward=forward, authorization=authorization, lookback=before
    ) as receiver:
        earlier = signal.signal(signal.SIGTERM, _end)
        try:
            console(stderr=True).print(
                f"receiving alerts at http://{host}:{receiver.port}/alerts, reports go to {out}; Ctrl-C ends it"
            )
            threading.Event().wait()
        finally:
            signal.signal(signal.SIGTERM, earlier)


@app.command("judge")
def judge(
    judgment: Annotated[
        str | None,
        typer.Argument(
            metavar="[right|wrong-stage|false]",
            help="Whether the alert was right: right, wrong-stage or false.  [default: list all answers]",
        ),
    ] = None,
    service: Annotated[str | None, typer.Option("--service", help="The alert's service.")] = None,
    segment: Annotated[str, typer.Option("--segment", help="The alert's segment, if it has one.")] = "",
    stage: Annotated[str | None, typer.Option("--stage", help="The stage that the alert names.")] = None,
    severity: Annotated[str, typer.Option("--severity", help="page or ticket.")] = "page",
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help=f"When it began to fire: {TIMES}.  [default: the latest of these]"),
    ] = None,
    alert_id: Annotated[
        str | None,
        typer.Option(
            "--alert", metavar="ID", help="An alert, by its id in the list, instead of service, segment and stage."
        ),
    ] = None,
    comment: Annotated[str | None, typer.Option("--comment", help="A note for those who read the answers.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say whether an alert was right, named the wrong stage, or was false; without an answer, list those there are.

    Another answer for the same alert replaces the one before.

    An answer to an alert that never fired counts, too: the store does not know which alerts did.
    """
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        if judgment is None:
            _judgments(opened, service, as_json)
            return
        said = _judgment(judgment)
        if alert_id is None:
            judged, former = _judged(opened, said, service, segment, stage, severity, at, comment)
        else:
            judged, former = _judged_again(opened, said, alert_id, comment)
    if as_json:
        print_json({"judgment": asdict(judged), "former": asdict(former) if former else None})
        return
    before = f", in place of {_in_words(former.judgment)}" if former else ""
    where = ", ".join(filter(None, (judged.service, judged.segment, judged.stage, judged.severity)))
    console().print(f"{where}: {_in_words(judged.judgment)}{before} (alert {judged.alert_id})")
    if former is None:
        console().print("the store does not know which alerts fired; this answer counts as one to an alert that did")


def _judged(
    store: Store,
    said: Judgment,
    service: str | None,
    segment: str,
    stage: str | None,
    severity: str,
    at: str | None,
    comment: str | None,
) -> tuple[PageJudgment, PageJudgment | None]:
    from ragtrace.cli.terminal import known_place
    from ragtrace.errors import ConfigurationError
    from ragtrace.formats import parse_time
    from ragtrace.triage import judge_alert

    if service is None or stage is None:
        raise ConfigurationError("which alert? give its --service and --stage (and --segment), or --alert ID")
    known_place(store, service, segment or None, "--segment")
    began = None if at is None else parse_time("--at", at)
    return judge_alert(
        store, said, service=service, segment=segment, stage=stage, severity=severity, at=began, comment=comment
    )


def _judged_again(
    store: Store, said: Judgment, alert_id: str, comment: str | None
) -> tuple[PageJudgment, PageJudgment | None]:
    import time
    from dataclasses import replace

    from ragtrace.errors import ConfigurationError

    former = store.page_judgment(alert_id)
    if former is None:
        raise ConfigurationError.of("--alert", alert_id, "the id of an answer (ragtrace triage judge lists them)")
    given = replace(former, judgment=said, judged_at=time.time_ns(), comment=comment or former.comment)
    return given, store.judge_page(given)


def _judgment(text: str) -> Judgment:
    from ragtrace.errors import ConfigurationError

    word = text.replace("-", "_").replace(" ", "_").lower()
    if word not in ("right", "wrong_stage", "false"):
        raise ConfigurationError.of("answer", text, "right, wrong-stage or false")
    return word  # type: ignore[return-value]  # one of its three words


def _in_words(judgment: str) -> str:
    return judgment.replace("_", " ")


def _judgments(store: Store, service: str | None, as_json: bool) -> None:
    """The newest answers, and how many pages were right."""
    from ragtrace.triage import page_answers, pages_text
    from ragtrace.types import to_builtins

    rows, pages = store.page_judgments(service), page_answers(store, service)
    if as_json:
        print_json({"judgments": [asdict(row) for row in rows], "pages": to_builtins(pages) if pages else None})
        return
    if not rows:
        console().print("no alert is judged yet: ragtrace triage judge right --service S --segment NAME --stage STAGE")
        return
    columns = ("alert", "judged", "service", "segment", "stage", "severity", "answer", "comment")
    print_table(columns, map(_judgment_row, rows))
    if pages:
        console().print(pages_text(pages))


def _judgment_row(row: PageJudgment) -> tuple[str, ...]:
    where = (row.service, row.segment, row.stage, row.severity)
    return row.alert_id, shown_time(row.judged_at), *where, _in_words(row.judgment), row.comment or ""


def window_of(since: str, until: str) -> Window:
    """The window between two times of the command line. Raises: ConfigurationError."""
    import time

    from ragtrace.errors import ConfigurationError
    from ragtrace.formats import parse_time
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
    from ragtrace.cli.terminal import shown
    from ragtrace.triage import render
    from ragtrace.types import to_builtins

    if as_json:
        print_json(to_builtins(report))
    else:
        console().print(render(report, store=shown(store) if store else None))


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def postmortem(
    service: ServiceOption,
    since: SinceOption,
    until: UntilOption = "now",
    segment: Annotated[str | None, typer.Option("--segment", help="A segment.  [default: all of the service]")] = None,
    alert: Annotated[
        str | None, typer.Option("--alert", metavar="FILE", help="The webhook JSON of the alert, for the timeline.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The file to write, instead of printing.")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Write a postmortem's draft: failure chain, timeline, blast radius, proof of recovery, prevention."""
    from ragtrace.cli.terminal import existing, known_place
    from ragtrace.errors import ConfigurationError
    from ragtrace.store import Store
    from ragtrace.triage.postmortem import postmortem as drafted

    window = window_of(since, until)
    given = first_alert(alert) if alert else None
    with Store.open(existing(store)) as opened:
        known_place(opened, service, segment, "--segment")
        text = drafted(opened, service, segment, window, alert=given)
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot write {str(out)!r}: {error.strerror}; give another --out") from error
    typer.echo(f"wrote {out}")
