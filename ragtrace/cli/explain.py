"""`ragtrace explain`: what one request's answer used, and why its documents were retrieved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, progress

if TYPE_CHECKING:
    from ragtrace.analyze.attribution import OnProgress, Part
    from ragtrace.explanations import Explanation, GeneratorAttribution
    from ragtrace.store import JobRow
    from ragtrace.types import Claim, RequestRecord

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
        int | None,
        typer.Option(
            "--budget",
            min=2,
            help="The most prompts that the generator scores for each part. With more than a stored explanation rests "
            "on, the model that made it goes on from there.",
        ),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            metavar="attention",
            help="With --generator: also attention × gradient of each document, to compare with its share; of a model "
            "that is loaded here.",
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", dir_okay=False, help="Also write a page that stands alone.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute it now, whatever the store holds.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the stored explanation of a request; what it lacks is computed with the models that are given, and shown."""
    from ragtrace.analyze.generator import resting_on
    from ragtrace.cli.stores import existing, find_record
    from ragtrace.store import ATTRIBUTION, Store
    from ragtrace.types import to_builtins

    _check(html)
    _check_compared(compare, generator)
    with Store.open(existing(store)) as opened:
        record = find_record(opened, request_id)
        analysis = None if fresh else opened.get_analysis(record.request_id, ATTRIBUTION)
        judged = opened.get_analysis(record.request_id)
        jobs = opened.jobs(kind=ATTRIBUTION, request_id=record.request_id, limit=1) if analysis is None else []
    known = analysis.explanation if analysis is not None else None
    parts = _missing(known, generator, retriever, query, budget)
    found = _computed(record, known, generator, retriever, budget, parts, compare) if parts or compare else None
    shown = _explained(record, _united(known, found), jobs[0] if jobs else None)
    if html is not None:
        claims = resting_on(judged.claims, shown.generator) if judged is not None else ()
        _write(html, record, shown, claims)
    if as_json:
        print_json(to_builtins(shown))
    else:
        from ragtrace.export import explanation_text

        console().print(explanation_text.render(record, shown))


def _missing(
    known: Explanation | None, generator: str | None, retriever: str | None, query: bool, budget: int | None
) -> list[Part]:
    """The parts that are asked for and can be computed, or go on. Raises: ConfigurationError for want of a model."""
    from ragtrace.errors import ConfigurationError

    stored = known.generator if known is not None else None
    words = known.query if known is not None else None
    if query and words is None and not generator:
        raise ConfigurationError("--query needs the model that reads the question; give --generator MODEL")
    if stored is not None and _goes_on(stored, budget) and not generator:
        raise ConfigurationError(
            f"--budget {budget} goes on with the stored explanation, which needs its model; give --generator with "
            f"{stored.model!r}"
        )
    parts: list[Part] = []
    if generator and (stored is None or _goes_on(stored, budget)):
        parts.append("generator")
    if generator and ((query and words is None) or _goes_on(words, budget)):
        parts.append("query")
    if retriever and (known is None or not known.retriever):
        parts.append("retriever")
    return parts


def _goes_on(stored: GeneratorAttribution | None, budget: int | None) -> bool:
    """Whether the budget is more than what was stored rests on, and would tell more."""
    if stored is None or budget is None or stored.exact or stored.unit != "log_probability":
        return False
    return budget > stored.evaluations


def _computed(
    record: RequestRecord,
    known: Explanation | None,
    generator: str | None,
    retriever: str | None,
    budget: int | None,
    parts: list[Part],
    compare: str | None,
) -> Explanation:
    from ragtrace.analyze.attribution import explain_record
    from ragtrace.engines.choosing import load_generator, load_retriever

    with progress() as bar:
        task = bar.add_task("loading models", total=None)
        reader = load_generator(generator) if generator and (compare or {"generator", "query"} & set(parts)) else None
        finder = load_retriever(retriever) if retriever and "retriever" in parts else None

        def tell(part: Part, done: int) -> None:
            bar.update(task, description=_DOING[part].format(done))

        on_progress: OnProgress = tell
        found = explain_record(
            record, generator=reader, retriever=finder, budget=budget, parts=parts, known=known, on_progress=on_progress
        )
        if compare:
            bar.update(task, description="attention")
            found = _compared(record, known, found, reader)
    return found


def _compared(record: RequestRecord, known: Explanation | None, found: Explanation, reader: object) -> Explanation:
    """With attention beside the shares, where there are any. Raises: ConfigurationError for a server's model."""
    from ragtrace.analyze.attribution import compare_attention
    from ragtrace.engines.causal_lm import CausalLM
    from ragtrace.errors import ConfigurationError
    from ragtrace.types import replace

    if not isinstance(reader, CausalLM):
        raise ConfigurationError("--compare attention needs a model that is loaded here; a server's shows no attention")
    shares = found.generator or (known.generator if known is not None else None)
    return found if shares is None else replace(found, generator=compare_attention(record, shares, reader))


_DOING: dict[Part, str] = {
    "generator": "documents: {} prompts scored",
    "query": "words of the question: {} prompts scored",
    "retriever": "retrieval: {} of 2 sides",
}


def _united(known: Explanation | None, found: Explanation | None) -> Explanation | None:
    """What is stored, with the parts that were computed now in place of those that were missing or went on."""
    if known is None or found is None:
        return known or found
    from ragtrace.types import replace

    unknown = {part: why for part, why in known.skipped.items() if part not in _parts(found)}
    return replace(
        known,
        generator=found.generator or known.generator,
        query=found.query or known.query,
        retriever=found.retriever or known.retriever,
        alignment=None if "alignment" in found.skipped else found.alignment or known.alignment,
        skipped=unknown | found.skipped,
        device=found.device if found.device != "cpu" else known.device,
        seconds=known.seconds + found.seconds,
        gpu_seconds=known.gpu_seconds + found.gpu_seconds,
    )


def _parts(found: Explanation) -> set[str]:
    names = ("generator", "query", "retriever", "alignment")
    return {name for name in names if getattr(found, name)}


def _explained(record: RequestRecord, found: Explanation | None, job: JobRow | None) -> Explanation:
    """What explains anything. Raises: RecordError, which says what is missing, and what became of a worker's job."""
    from ragtrace.errors import RecordError

    if found is not None and _parts(found):
        return found
    if found is None:
        raise RecordError(
            f"request {record.request_id} has no stored explanation{_became(job)}; give --generator MODEL (what the "
            "answer used), --retriever MODEL (why documents were retrieved), or both"
        )
    parts: dict[str, list[str]] = {}
    for part, why in found.skipped.items():
        parts.setdefault(why, []).append(part)
    reasons = "; ".join(f"{' and '.join(names)}: {why}" for why, names in parts.items())
    raise RecordError(
        f"request {record.request_id} cannot be explained: {reasons or 'the stored explanation is empty'}"
    )


def _became(job: JobRow | None) -> str:
    """What became of the job of a request that is not explained."""
    if job is None:
        return ""
    if job.state == "dead":
        return f": its job failed ({job.error or 'reason unknown'}; ragtrace jobs retry {job.id} runs it again)"
    before = f", after {job.error}" if job.error else ""
    return f" yet: its job {'is being done' if job.state == 'leased' else 'waits for a worker with models'}{before}"


def _check_compared(compare: str | None, generator: str | None) -> None:
    """Raises: ConfigurationError for what cannot be compared with."""
    from ragtrace.errors import ConfigurationError

    if compare is not None and compare != "attention":
        raise ConfigurationError.of("--compare", compare, "attention")
    if compare is not None and not generator:
        raise ConfigurationError("--compare attention needs the model that read the prompt; give --generator MODEL")


def _check(html: Path | None) -> None:
    """Say before anything is computed that a file cannot be written. Raises: ConfigurationError."""
    if html is not None and not html.absolute().parent.is_dir():
        from ragtrace.errors import ConfigurationError

        raise ConfigurationError.of("--html", str(html), "a file in a folder that exists")


def _write(html: Path, record: RequestRecord, found: Explanation, claims: Sequence[Claim]) -> None:
    from ragtrace.errors import ConfigurationError
    from ragtrace.export import explanation_html

    try:
        html.write_text(explanation_html.page(record, found, claims), encoding="utf-8")
    except OSError as error:
        raise ConfigurationError.of("--html", str(html), f"a file that can be written ({error.strerror})") from error
    console(stderr=True).print(f"written to {html}", soft_wrap=True)
