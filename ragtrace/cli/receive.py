"""`ragtrace serve|import|gold|build`: requests that others recorded, over OTLP, in files or handed over by
applications, and what questions need.
"""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ragtrace.cli.terminal import (
    CertificateOption,
    Ending,
    JsonOption,
    KeyOption,
    StoreOption,
    console,
    existing,
    option,
    print_json,
    print_table,
    shown,
)
from ragtrace.config import variable
from ragtrace.errors import ConfigurationError, RecordError

if TYPE_CHECKING:
    from ragtrace.receive.imports import Imported
    from ragtrace.types import Gold

__all__ = ["build", "gold", "import_files", "serve"]


def serve(
    host: Annotated[str, typer.Option("--host", help="The address to serve on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65_535, help="The port of OTLP over HTTP.")] = 4318,
    grpc_port: Annotated[
        int, typer.Option("--grpc-port", min=0, max=65_535, help="The port of OTLP over gRPC; 0: none.")
    ] = 4317,
    tokens: Annotated[
        Path | None,
        typer.Option(
            "--tokens", metavar="FILE", help="A file with a tenant and its token on each line.  [default: no tokens]"
        ),
    ] = None,
    metrics_tokens: Annotated[
        Path | None,
        typer.Option(
            "--metrics-tokens",
            metavar="FILE",
            help="A file with a name and its token on each line, for reading /metrics.",
        ),
    ] = None,
    certificate: CertificateOption = None,
    key: KeyOption = None,
    grace: Annotated[
        float, typer.Option("--grace", help="Seconds to wait for late spans after a trace's root span.")
    ] = 5.0,
    ttl: Annotated[
        float, typer.Option("--ttl", help="Seconds after which a trace without a root span is assembled.")
    ] = 60.0,
    keep: Annotated[
        float, typer.Option("--keep", help="Seconds for which spans are kept, to unite late ones with their request.")
    ] = 3600.0,
    assemblers: Annotated[
        int,
        typer.Option("--assemblers", min=0, max=64, help="Extra processes that assemble traces to requests; 0: none."),
    ] = 2,
    web: Annotated[bool, typer.Option("--web", help="Serve the pages over the store as well (ragtrace web).")] = False,
    web_port: Annotated[int, typer.Option("--web-port", min=1, max=65_535, help="The port of the pages.")] = 8460,
    web_tokens: Annotated[
        Path | None,
        typer.Option("--web-tokens", metavar="FILE", help="Who may see the pages, as `ragtrace web --tokens` has it."),
    ] = None,
    store: StoreOption = None,
) -> None:
    """Take spans and evaluations over OTLP, and make requests of them for `ragtrace analyze`.

    A request is answered when its spans are committed. Stop it with Ctrl-C or SIGTERM.
    """
    from ragtrace import config
    from ragtrace.cli.terminal import shown
    from ragtrace.receive.server import ReceiverSettings, address, run

    settings = ReceiverSettings(
        host=host,
        port=port,
        grpc_port=grpc_port or None,
        tokens=tokens,
        metrics_tokens=metrics_tokens,
        certificate=certificate,
        key=key,
        grace=grace,
        ttl=ttl,
        keep=keep,
        assemblers=assemblers,
    )
    loaded = config.load(store=store)
    scheme = "http" if certificate is None else "https"
    also = f" and on {address(host, grpc_port)} over gRPC" if grpc_port else ""
    told = f"taking spans on {scheme}://{address(host, port)}/v1/traces{also}, into {shown(loaded.store)}"
    with ExitStack() as beside:
        if web:
            from ragtrace.web import WebSettings, serving

            pages = WebSettings(host=host, port=web_port, tokens=web_tokens, certificate=certificate, key=key)
            told += f"; pages on {beside.enter_context(serving(loaded.store, pages))}"
        run(loaded.store, loaded, settings, lambda: typer.echo(told, err=True))


_MOST: Final = 5  # reasons of one file that are printed

_GOLD: Final = "Gold sets: the chunks that answer known questions, and the facets that evidence must meet."

gold = typer.Typer(help=_GOLD, no_args_is_help=True)

FilesArgument = Annotated[list[Path], typer.Argument(metavar="FILE...", help="The files to read.", show_default=False)]
ServiceOption = Annotated[
    str | None,
    typer.Option(
        "--service", help=f"The application, in place of what the file names.  [default: {variable('service')}]"
    ),
]
ColumnOption = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="WHAT=NAME",
        help="The file's own name of a column, e.g. answer=reply; of numbered columns: 'contexts=Passage *'.",
    ),
]


@gold.callback()
def _group() -> None:
    """Gold sets: the chunks that answer known questions, and the facets that evidence must meet."""


def import_files(
    files: FilesArgument,
    kind: Annotated[
        str | None,
        typer.Option("--kind", metavar="KIND", help="records, spans or evaluations  [default: told by the content]."),
    ] = None,
    service: ServiceOption = None,
    column: ColumnOption = None,
    cites: Annotated[
        bool | None,
        typer.Option(
            "--cites/--no-cites",
            help=f"Whether the answers are meant to cite their sources.  [default: {variable('cites')}]",
        ),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Take records, exported spans or evaluation sets into the store, where `ragtrace analyze` finds them.

    Records: JSON lines by docs/reference/record.schema.json. Spans: OTLP (JSON or protobuf), OpenTelemetry JS, TruLens
    events. Evaluation sets: RAGAS, RAGChecker, or any JSON, JSONL or CSV with questions, contexts and answers.
    """
    from ragtrace import config
    from ragtrace.receive.columns import collapsed
    from ragtrace.receive.imports import import_file, read_kind
    from ragtrace.store import Store

    settings, columns, wanted = config.load(store=store, cites=cites), _columns(column), read_kind(kind)
    results: dict[str, Imported] = {}
    with Store.open(settings.store) as opened:
        for path in files:
            with _reading(path):
                results[str(path)] = import_file(opened, path, settings, kind=wanted, service=service, columns=columns)
    if json:
        print_json({name: asdict(result) for name, result in results.items()})
        return
    for name, result in results.items():
        more = f" and {_count(result.golds, 'gold set')}" if result.golds else ""
        typer.echo(f"{name}: {_count(result.requests, 'request')}{more}, read as {result.kind}")
        if result.read:
            typer.echo(f"  read: {', '.join(_read_from(*column) for column in result.read.items())}")
        if result.left_out:
            typer.echo(f"  columns left out: {', '.join(collapsed(result.left_out))}")
        for warning in result.warnings:
            typer.echo(f"  warning: {warning}", err=True)
        for reason in result.rejected[:_MOST]:
            typer.echo(f"  left out: {reason}", err=True)
        if len(result.rejected) > _MOST:
            typer.echo(f"  and {len(result.rejected) - _MOST:,} more", err=True)


@gold.command("import")
def import_golds(
    files: FilesArgument,
    service: ServiceOption = None,
    column: ColumnOption = None,
    store: StoreOption = None,
) -> None:
    """Store gold sets, replacing those of the same service and question.

    JSON, JSONL or CSV rows with a question, its evidence's chunk ids, and the facets that evidence must meet.
    """
    from ragtrace import config
    from ragtrace.receive.evaluations import read_golds
    from ragtrace.store import Store

    settings, columns = config.load(store=store), _columns(column)
    whose = service or settings.service
    unasked: list[str] = []
    unknown: list[str] = []
    with Store.open(settings.store) as opened:
        known = opened.services()
        for path in files:
            with _reading(path):
                golds = list(read_golds(path, whose, columns))
                count = opened.put_gold(golds)
            typer.echo(f"{path}: {_count(count, 'gold set')} of service {whose}")
            if whose in known:
                questions, chunk_ids = opened.unmatched_golds(golds)
                unasked, unknown = unasked + questions, unknown + chunk_ids
    if whose in known:
        _unmatched(unasked, unknown)
        typer.echo(f"ragtrace analyze --again --service {shlex.quote(whose)} judges the stored requests by them.")
    elif known:
        from ragtrace.formats import named_services

        typer.echo(
            f"warning: no request of service {whose!r} is stored; the store has {named_services(known)}: "
            "name it by --service, or these gold sets judge nothing",
            err=True,
        )


@gold.command("list")
def list_golds(
    service: ServiceOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The most gold sets to show.")] = 50,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what is stored of questions: the chunks that answer, and the facets that evidence must meet."""
    from ragtrace.store import Store
    from ragtrace.types import to_builtins

    with Store.open(existing(store)) as opened:
        found = opened.golds(service, limit=limit + 1)
    if as_json:
        print_json({"golds": to_builtins(found[:limit])})
    elif found:
        rows = [(one.service, one.question, _needs(one)) for one in found[:limit]]
        print_table(("service", "question", "needs"), rows)
        if len(found) > limit:
            typer.echo(f"and more; --limit {2 * limit} shows them", err=True)
    else:
        of = "" if service is None else f" of service {service!r}"
        typer.echo(f"no gold set{of} is stored: ragtrace gold import FILE")


@gold.command("forget")
def forget_gold(
    question: Annotated[str, typer.Argument(help="The question; case and white space make no difference.")],
    service: Annotated[str, typer.Option("--service", metavar="S", help="The service whose question it is.")],
    store: StoreOption = None,
) -> None:
    """Delete what is stored of a question; what was judged by it stays so until it is analyzed again."""
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        if not opened.forget_gold(service, question):
            raise ConfigurationError.of(
                "question", question, f"one that `ragtrace gold list --service {shlex.quote(service)}` shows"
            )
    typer.echo(f"what {service} knew of that question is forgotten")
    typer.echo(f"ragtrace analyze --again --service {shlex.quote(service)} judges the stored requests without it.")


def _needs(gold_set: Gold) -> str:
    facets = [f"{facet.kind}={facet.value}" for facet in gold_set.facets]
    chunks = ["no chunk answers"] if gold_set.is_unanswerable else list(gold_set.chunk_ids)
    return ", ".join([*chunks, *facets])


def _unmatched(unasked: Sequence[str], unknown: Sequence[str]) -> None:
    """Warns of what may be a slip: an id that is spelled wrong would count as evidence that retrieval lost."""
    from ragtrace.safe_text import harmless

    if unasked:
        more = f" and {len(unasked) - 1:,} more" if len(unasked) > 1 else ""
        typer.echo(f"warning: no stored request asked {harmless(repr(unasked[0]))}{more}", err=True)
    if unknown:
        more = f" and {len(unknown) - _MOST:,} more" if len(unknown) > _MOST else ""
        typer.echo(
            f"warning: no request of it got {harmless(', '.join(unknown[:_MOST]))}{more}; where an id is spelled "
            "wrong, retrieval is called broken: mend the file and import it again",
            err=True,
        )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _read_from(what: str, columns: Sequence[str]) -> str:
    """`answer`, `answer from response`, `contexts from Context_1 … Context_9`."""
    from ragtrace.receive.columns import collapsed

    return what if list(columns) == [what] else f"{what} from {', '.join(collapsed(columns))}"


def _columns(options: list[str] | None) -> dict[str, str]:
    """`WHAT=NAME` options as a mapping."""
    names: dict[str, str] = {}
    for given in options or ():
        what, sign, name = given.partition("=")
        if not sign or not what or not name:
            raise ConfigurationError(f"--column is {given!r}; give WHAT=NAME, such as answer=reply")
        if what in names:
            raise ConfigurationError(
                f"--column {what} is given twice, as {names[what]!r} and {name!r}; give one, for contexts in numbered "
                "columns with a star, such as 'contexts=Passage *'"
            )
        names[what] = name
    return names


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Says which file cannot be read."""
    try:
        yield
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}; give a file") from None


_PAUSE: Final = 0.5  # seconds between two looks
_RETRY: Final = (1.0, 60.0)  # seconds until the store is tried again, longer each time


def build(
    store: StoreOption = None,
    spool: Annotated[str | None, option("spool", metavar="FOLDER")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more until Ctrl-C or SIGTERM.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Build and store the requests that applications on this machine have handed over (`build="worker"`).

    It runs as the user that the applications run as. Killed at any moment, it can be run again.
    """
    from ragtrace import config
    from ragtrace.collect import Builder, default_folder, fallback_folder
    from ragtrace.store import Store

    settings = config.load(store=store, spool=spool)
    url = settings.store
    folders = list(dict.fromkeys((default_folder(url, settings.spool), fallback_folder(url))))
    if not any(folder.is_dir() for folder in folders):
        console(stderr=True).print(
            f"nothing has been handed over yet: {folders[0]} is not there; give the URL of the store and the spool "
            "exactly as the application has them",
            soft_wrap=True,
        )
    builder = Builder(lambda: Store.open(url), folders, _RETRY)
    with Ending() as ending:
        try:
            while ending.signal is None:
                if not builder.step():
                    if not follow:
                        break
                    time.sleep(_PAUSE)
        finally:
            waiting = builder.waiting
            builder.close()
    if as_json:
        print_json({"stored": builder.stored, "waiting_bytes": waiting})
    else:
        left = f"; {waiting:,} bytes wait in {folders[0]}: the store takes nothing (see above)" if waiting else ""
        console().print(f"{builder.stored:,} stored in {shown(url)}{left}", soft_wrap=True)
    if ending.signal == signal.SIGINT:
        raise typer.Exit(130)
    if waiting:
        raise typer.Exit(1)
