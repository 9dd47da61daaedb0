"""`ragtrace align`: how well retrievers and generators agree, over a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, print_table, progress

if TYPE_CHECKING:
    from ragtrace.analyze.alignment_report import AlignmentReport
    from ragtrace.analyze.attribution import GeneratorEngine
    from ragtrace.export.alignment import ReportTable

__all__ = ["app"]

app = typer.Typer(
    help="Do answers use the documents that the retriever ranks first? A report over explained requests.",
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Do answers use the documents that the retriever ranks first? A report over explained requests."""


@app.command("report")
def report(
    store: StoreOption = None,
    service: Annotated[str | None, typer.Option("--service", help="Only this service.")] = None,
    stratum: Annotated[
        str,
        typer.Option(
            "--stratum",
            metavar="random|flagged",
            help="Which stored explanations to use: those of requests drawn at random, or those that a flag asked for.",
        ),
    ] = "random",
    generator: Annotated[
        str | None,
        typer.Option(
            "--generator",
            metavar="MODEL",
            help="Score sampled answers now, in place of what is stored: a causal language model's folder or name, or "
            "URL#NAME of a server's.",
        ),
    ] = None,
    retriever: Annotated[
        str | None,
        typer.Option(
            "--retriever",
            metavar="MODEL",
            help="Explain the retrieval of sampled requests now: a sentence encoder's folder or name, or cross:MODEL.",
        ),
    ] = None,
    conditions: Annotated[
        str,
        typer.Option(
            "--conditions",
            metavar="NAME,...",
            help="With --generator: original, deduplicated, shuffled, shuffled-deduplicated, or several of them.",
        ),
    ] = "original",
    limit: Annotated[int, typer.Option("--limit", min=1, help="The most requests that models score.")] = 50,
    budget: Annotated[
        int | None,
        typer.Option("--budget", min=2, help="The most prompts that the generator scores for each estimate."),
    ] = None,
    stability: Annotated[
        int | None,
        typer.Option(
            "--stability",
            metavar="N",
            min=8,
            help="With --generator: also how estimates settle as budgets grow to N prompts for each request.",
        ),
    ] = None,
    pos: Annotated[
        str | None,
        typer.Option(
            "--pos",
            metavar="PIPELINE",
            help="Parts of speech, too, by this spaCy pipeline (ragtrace[spacy]); a pipeline runs its own code.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of shuffled orders and of intervals.")] = 0,
    plots: Annotated[
        Path | None, typer.Option("--plots", metavar="FOLDER", file_okay=False, help="Also write SVG plots.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """How far answers follow the retriever's ranking, by model, segment and condition.

    Failure rates and WARG (the weighted attribution-relevance gap), each beside chance; how estimates settle; the words
    that retrieval goes by.
    """
    from ragtrace.analyze.alignment_report import alignment_report
    from ragtrace.cli.terminal import existing
    from ragtrace.engines.model_names import load_retriever
    from ragtrace.engines.spacy_pipelines import Tagger
    from ragtrace.errors import ConfigurationError
    from ragtrace.store import Store
    from ragtrace.types import to_builtins

    url = existing(store)
    if plots is not None:
        _make(plots)
    tagging = Tagger.load(pos) if pos else None
    with Store.open(url) as opened, progress() as bar:
        if service is not None and not opened.find_requests(service=service, limit=1):
            raise ConfigurationError.of("--service", service, "a service that the store has requests of")
        task = bar.add_task("reading", total=None)
        found = alignment_report(
            opened,
            service=service,
            stratum=stratum,
            generator=_generator(generator) if generator else None,
            retriever=load_retriever(retriever) if retriever else None,
            tagging=tagging,
            conditions=tuple(each.strip() for each in conditions.split(",") if each.strip()),
            limit=limit,
            budget=budget,
            stability=stability,
            seed=seed,
            on_progress=lambda name, done, of: bar.update(task, description=name, completed=done, total=of),
        )
    if as_json:
        print_json(to_builtins(found))
    else:
        _print(found)
    if plots is not None:
        _write_plots(plots, found)


def _generator(model: str) -> GeneratorEngine:
    """The model that scores answers. Raises: ConfigurationError for one that gives no log-probabilities."""
    from ragtrace.engines.model_names import is_silent, load_generator
    from ragtrace.errors import ConfigurationError

    loaded = load_generator(model)
    if is_silent(loaded):
        raise ConfigurationError.of("--generator", model, "a model that gives log-probabilities of stored answers")
    return loaded


def _print(found: AlignmentReport) -> None:
    from ragtrace.export.alignment import sections

    for place, section in enumerate(sections(found)):
        if place:
            console().print()
        _print_section(section)


def _print_section(section: ReportTable) -> None:
    console().print(section.title, style="bold")
    if section.rows:
        print_table(section.columns, section.rows)
    for note in section.notes:
        console().print(note, style="dim")


def _make(folder: Path) -> None:
    """The folder of the plots, before anything is computed. Raises: ConfigurationError."""
    from ragtrace.errors import ConfigurationError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError.of("--plots", str(folder), f"a folder that can be made ({error.strerror})") from error


def _write_plots(folder: Path, found: AlignmentReport) -> None:
    from ragtrace.export.alignment import plots

    drawn = plots(found)
    for name, svg in drawn.items():
        (folder / name).write_text(svg, encoding="utf-8")
    console(stderr=True).print(f"{len(drawn)} plots written to {folder}", soft_wrap=True)
