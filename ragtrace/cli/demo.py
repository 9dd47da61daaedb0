"""`ragtrace demo`: the demo pipeline with injected faults, recorded, diagnosed and compared with the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragtrace.cli.monitoring import DEFAULT_PORT, WEB_PORT, HostOption, serve_pages
from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, print_table

__all__ = ["demo"]


def demo(
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            "--scenario",
            metavar="NAME",
            help="healthy, recall, selection or grounding; may be repeated.  [default: all]",
            show_default=False,
        ),
    ] = None,
    store: StoreOption = None,
    generator: Annotated[
        str | None,
        typer.Option(
            "--generator",
            metavar="NAME",
            help="A Hugging Face causal language model, by name or folder, in place of the extractive answerer.",
        ),
    ] = None,
    questions: Annotated[
        Path | None,
        typer.Option(
            "--questions", metavar="FILE", help="Write the demo's questions for `ragtrace replay` (.jsonl), and end."
        ),
    ] = None,
    corrective: Annotated[
        bool,
        typer.Option(
            "--corrective",
            help="Run the example of corrective retrieval instead: with and without correction, and the gate between.",
        ),
    ] = False,
    keep_serving: Annotated[
        bool, typer.Option("--serve", help="Serve the pages, and /metrics beside them, when the run is over.")
    ] = False,
    host: HostOption = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="With --serve: the port of /metrics.")
    ] = DEFAULT_PORT,
    web_port: Annotated[
        int,
        typer.Option("--web-port", min=1, max=65535, help="With --serve: the port of the pages, to open in a browser."),
    ] = WEB_PORT,
    as_json: JsonOption = False,
) -> None:
    """Run a real RAG pipeline with known faults and see whether ragtrace names the stage that broke."""
    if questions is not None:
        _write(questions)
        return
    if corrective:
        _correct(store, as_json)
        return
    from ragtrace import config
    from ragtrace.demo.report import report
    from ragtrace.demo.runner import run

    url = config.load(store=store).store
    if keep_serving:
        from ragtrace.web import require

        require()  # not after minutes
    result = run(scenario or (), url, generator, tells=not as_json)
    if as_json:
        print_json(result.to_json())
    else:
        console().print(report(result))
    if keep_serving:
        _serve(url, host, port, web_port)


def _correct(store: str | None, as_json: bool) -> None:
    """Ask both pipelines of the example the same questions, and let the gate compare them."""
    from ragtrace import config
    from ragtrace.demo.corrective import compare
    from ragtrace.gate.reports import terminal

    url = config.load(store=store).store
    found = compare(url)
    if as_json:
        print_json(found.to_json())
        return
    rows = (
        (each.where, str(each.questions), str(each.right["vanilla"]), str(each.right["corrective"]), *map(
            str, (each.actions.get(action, 0) for action in ("CORRECT", "AMBIGUOUS", "INCORRECT"))),
         ", ".join(f"{stage} {count}" for stage, count in each.blamed.items()) or "nobody")
        for each in found.cells
    )  # fmt: skip
    print_table(
        ("evidence", "questions", "right", "corrected", "CORRECT", "AMBIGUOUS", "INCORRECT", "blamed when corrected"),
        rows,
    )
    console().print()
    console().print(terminal.render_report(found.gate, every=False, store=store))


def _serve(url: str, host: str, port: int, web_port: int) -> None:
    """The metrics from threads, and the pages until the end."""
    from ragtrace import export as exporter
    from ragtrace.web import WebSettings

    settings = WebSettings(host=host, port=web_port, may_judge=True)
    metrics = exporter.serve(url, host, port)
    try:
        console(stderr=True).print(f"serving http://{host}:{metrics.port}/metrics")
        serve_pages(url, settings)
    finally:
        metrics.close()


def _write(file: Path) -> None:
    from ragtrace.demo.pipelines import write_questions
    from ragtrace.errors import ConfigurationError

    try:
        number = write_questions(file)
    except OSError as error:
        raise ConfigurationError(
            f"{str(file)!r} cannot be written: {error.strerror or error}; give another --questions"
        ) from None
    console().print(f"{number} questions are in {file}")
