"""`ragtrace explain`: what one request's answer used, and why its documents were retrieved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, progress

if TYPE_CHECKING:
    from ragtrace.analyze.attribution import OnProgress, Part
    from ragtrace.explanations import Explanation
    from ragtrace.types import RequestRecord

__all__ = ["explain"]


def explain(
    request_id: Annotated[str, typer.Argument(help="A request id, or as much of its beginning as is unique.")],
    store: StoreOption = None,
    generator: Annotated[
        str | None,
        typer.Option(
            "--generator",
            metavar="MODEL",
            envvar="RAGTRACE_GENERATOR",
            help="Which documents the answer used: by a causal language model's folder or name, or URL#NAME of a "
            "server's.",
        ),
    ] = None,
    retriever: Annotated[
        str | None,
        typer.Option(
            "--retriever",
            metavar="MODEL",
            envvar="RAGTRACE_RETRIEVER",
            help="Why documents were retrieved: by a sentence encoder's folder or name, or cross:MODEL.",
        ),
    ] = None,
    query: Annotated[
        bool, typer.Option("--query", help="Also which words of the question the answer needs; doubles the cost.")
    ] = False,
    budget: Annotated[
        int | None, typer.Option("--budget", min=2, help="The most prompts that the generator scores for each part.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", dir_okay=False, help="Also write a page that stands alone.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute it now, whatever the store holds.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the stored explanation of a request; what it lacks is computed with the models that are given, and shown."""
    from ragtrace.cli.stores import existing, find_record
    from ragtrace.store import ATTRIBUTION, Store
    from ragtrace.types import to_builtins

    _check(html)
    with Store.open(existing(store)) as opened:
        record = find_record(opened, request_id)
        analysis = None if fresh else opened.get_analysis(record.request_id, ATTRIBUTION)
    known = analysis.explanation if analysis is not None else None
    parts = _missing(known, generator, retriever, query)
    found = _computed(record, generator, retriever, budget, parts) if parts else None
    shown = _explained(record, _united(known, found))
    if html is not None:
        _write(html, record, shown)
    if as_json:
        print_json(to_builtins(shown))
    else:
        from ragtrace.export import explanation_text

        console().print(explanation_text.render(record, shown))


def _missing(known: Explanation | None, generator: str | None, retriever: str | None, query: bool) -> list[Part]:
    """The parts that are asked for, not known, and can be computed. Raises: ConfigurationError for `--query` alone."""
    has_words = known is not None and known.query is not None
    if query and not has_words and not generator:
        from ragtrace.errors import ConfigurationError

        raise ConfigurationError("--query needs the model that reads the question; give --generator MODEL")
    parts: list[Part] = []
    if generator and (known is None or known.generator is None):
        parts.append("generator")
    if generator and query and not has_words:
        parts.append("query")
    if retriever and (known is None or not known.retriever):
        parts.append("retriever")
    return parts


def _computed(
    record: RequestRecord, generator: str | None, retriever: str | None, budget: int | None, parts: list[Part]
) -> Explanation:
    from ragtrace.analyze.attribution import explain_record
    from ragtrace.engines.choosing import load_generator, load_retriever

    with progress() as bar:
        task = bar.add_task("loading models", total=None)
        reader = load_generator(generator) if generator and {"generator", "query"} & set(parts) else None
        finder = load_retriever(retriever) if retriever and "retriever" in parts else None

        def tell(part: Part, done: int) -> None:
            bar.update(task, description=_DOING[part].format(done))

        on_progress: OnProgress = tell
        return explain_record(
            record, generator=reader, retriever=finder, budget=budget, parts=parts, on_progress=on_progress
        )


_DOING: dict[Part, str] = {
    "generator": "documents: {} prompts scored",
    "query": "words of the question: {} prompts scored",
    "retriever": "retrieval: {} of 2 sides",
}


def _united(known: Explanation | None, found: Explanation | None) -> Explanation | None:
    """What is stored, with the parts that were computed now in place of the missing ones."""
    if known is None or found is None:
        return known or found
    from ragtrace.types import replace

    unknown = {part: why for part, why in known.skipped.items() if part not in _parts(found)}
    return replace(
        known,
        generator=known.generator or found.generator,
        query=known.query or found.query,
        retriever=known.retriever or found.retriever,
        alignment=known.alignment or found.alignment,
        skipped=unknown | found.skipped,
        device=found.device if found.device != "cpu" else known.device,
        seconds=known.seconds + found.seconds,
        gpu_seconds=known.gpu_seconds + found.gpu_seconds,
    )


def _parts(found: Explanation) -> set[str]:
    names = ("generator", "query", "retriever", "alignment")
    return {name for name in names if getattr(found, name)}


def _explained(record: RequestRecord, found: Explanation | None) -> Explanation:
    """What explains anything. Raises: RecordError, which says what is missing."""
    from ragtrace.errors import RecordError

    if found is not None and _parts(found):
        return found
    if found is None:
        raise RecordError(
            f"request {record.request_id} has no stored explanation; give --generator MODEL (what the answer used), "
            "--retriever MODEL (why documents were retrieved), or both"
        )
    reasons = "; ".join(f"{part}: {why}" for part, why in found.skipped.items()) or "the stored explanation is empty"
    raise RecordError(f"request {record.request_id} cannot be explained: {reasons}")


def _check(html: Path | None) -> None:
    """Say before anything is computed that a file cannot be written. Raises: ConfigurationError."""
    if html is not None and not html.absolute().parent.is_dir():
        from ragtrace.errors import ConfigurationError

        raise ConfigurationError.of("--html", str(html), "a file in a folder that exists")


def _write(html: Path, record: RequestRecord, found: Explanation) -> None:
    from ragtrace.errors import ConfigurationError
    from ragtrace.export import explanation_html

    try:
        html.write_text(explanation_html.page(record, found), encoding="utf-8")
    except OSError as error:
        raise ConfigurationError.of("--html", str(html), f"a file that can be written ({error.strerror})") from error
    console(stderr=True).print(f"written to {html}", soft_wrap=True)
