"""`ragtrace explain`: why one request's documents were retrieved and what its answer used; how faithful methods are."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, option, print_json, print_table, progress
from ragtrace.config import SETTINGS
from ragtrace.errors import ConfigurationError

if TYPE_CHECKING:
    from ragtrace.analyze.alignment_report import WeightedMean
    from ragtrace.analyze.attribution import OnProgress, Part
    from ragtrace.analyze.faithfulness import Faithfulness
    from ragtrace.attribution import Method
    from ragtrace.engines.causal_lm import CausalLM
    from ragtrace.engines.http import HttpLM
    from ragtrace.explanations import Explanation, GeneratorAttribution
    from ragtrace.store import JobRow
    from ragtrace.types import Claim, RequestRecord

__all__ = ["explain"]

_ATTENTION: Final = "attention"
_FAITHFULNESS_NOTES: Final = (
    "AIPC: the area between both curves, 1 at most; 0 is what a random order has; higher is more faithful",
    "MoRF, LeRF: the mean height of the curve when what counts most, or least, is removed first (1 highest, 0 lowest)",
    "in brackets: 95 % bootstrap intervals over requests",
)


def explain(
    request_id: Annotated[
        str | None, typer.Argument(help="A request id, or as much of its beginning as is unique.", show_default=False)
    ] = None,
    store: StoreOption = None,
    generator: Annotated[str | None, option("generator", metavar="MODEL")] = None,
    retriever: Annotated[str | None, option("retriever", metavar="MODEL")] = None,
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
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            metavar="METHOD",
            help="Which estimator gives the shares: auto, exact, gp, pmcshap, kernelshap, mcshap or permutation, with "
            "settings as in pmcshap:n_fits=100+released=true. Where the stored explanation is by another one, "
            "--generator computes what is missing.",
        ),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            metavar="METHOD,...",
            help="Also what these methods make of the same subsets of documents, at no further cost; attention "
            "(with --generator, of a model that is loaded here): attention × gradient of each document.",
        ),
    ] = None,
    similarity: Annotated[
        str,
        typer.Option(
            "--similarity",
            metavar="NAME",
            help="How answers are compared of a model that tells nothing else: levenshtein, jaro-winkler, "
            "ngram-jaccard, or cosine of the vectors of --retriever.",
        ),
    ] = SETTINGS["explain_similarity"].default,
    sentences: Annotated[
        bool,
        typer.Option(
            "--sentences",
            help="Of such a model also: which sentences of instruction, question and documents the answer needs, by "
            "one more answer for each.",
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before servers are asked for answers or vectors.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", dir_okay=False, help="Also write one HTML page, which needs no other file."
        ),
    ] = None,
    faithful: Annotated[
        bool,
        typer.Option(
            "--faithfulness",
            help="Instead: how faithful methods are (AIPC). With --generator the estimators of --compare, leaving one "
            "document out and attention; with --retriever Integrated Gradients, its gradients and leaving one token "
            "out.",
        ),
    ] = False,
    limit: Annotated[
        int,
        typer.Option("--limit", min=1, help="With --faithfulness and without an id: the most requests, newest first."),
    ] = 20,
    seed: Annotated[int, typer.Option("--seed", min=0, help="With --faithfulness: of its intervals.")] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute it now, whatever the store holds.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the stored explanation of a request; what it lacks is computed with the models that are given, and shown."""
    from ragtrace.analyze.alignment import resting_on
    from ragtrace.analyze.attribution import compare_methods
    from ragtrace.attribution import Method
    from ragtrace.attribution.perturbation import SIMILARITIES
    from ragtrace.cli.terminal import existing, find_record
    from ragtrace.store import ATTRIBUTION, Store
    from ragtrace.types import replace, to_builtins

    if faithful:
        _faithful(request_id, store, generator, retriever, compare, budget, limit, seed, as_json=as_json)
        return
    if request_id is None:
        raise ConfigurationError("no request is named; give its id (ragtrace show lists them), or --faithfulness")
    _check(html)
    if similarity not in SIMILARITIES:
        raise ConfigurationError.of("--similarity", similarity, ", ".join(SIMILARITIES))
    chosen = None if method is None else Method.parse(method)
    attention, methods = _as_compared(compare, generator)
    with Store.open(existing(store)) as opened:
        record = find_record(opened, request_id)
        analysis = None if fresh else opened.get_analysis(record.request_id, ATTRIBUTION)
        judged = opened.get_analysis(record.request_id)
        jobs = opened.jobs(kind=ATTRIBUTION, request_id=record.request_id, limit=1) if analysis is None else []
    known = analysis.explanation if analysis is not None else None
    parts = _missing(known, generator, retriever, query, budget, chosen, methods)
    if sentences and generator and "generator" not in parts and _is_without_parts(known):
        parts = ["generator", *parts]
    if parts or attention:
        closed = {"similarity": similarity, "sentences": sentences}
        how = {"method": chosen or Method(), "compared": methods, "budget": budget, **closed}
        found = _computed(record, known, generator, retriever, parts, attention, how, asks=not (yes or as_json))
    else:
        found = None
    shown = _explained(record, _united(known, found), jobs[0] if jobs else None)
    if methods and shown.generator is not None and not shown.generator.compared:
        shown = replace(shown, generator=compare_methods(shown.generator, methods))
    if html is not None:
        claims = resting_on(judged.claims, shown.generator) if judged is not None else ()
        _write(html, record, shown, claims)
    if as_json:
        print_json(to_builtins(shown))
    else:
        from ragtrace.export import explanation_text

        console().print(explanation_text.render(record, shown))


def _faithful(
    request_id: str | None,
    store: str | None,
    generator: str | None,
    retriever: str | None,
    compare: str | None,
    budget: int | None,
    limit: int,
    seed: int,
    *,
    as_json: bool,
) -> None:
    from ragtrace.analyze.alignment_report import sampled_records
    from ragtrace.analyze.faithfulness import METHODS, faithfulness
    from ragtrace.cli.terminal import existing, find_record
    from ragtrace.engines.model_names import is_silent, load_generator, load_retriever
    from ragtrace.engines.models import available_cores
    from ragtrace.store import Store
    from ragtrace.types import to_builtins

    if not (generator or retriever):
        raise ConfigurationError(
            "--faithfulness asks a model what removing changes; give --generator, --retriever or both"
        )
    _, methods = _as_compared(compare, generator)
    with Store.open(existing(store)) as opened:
        records = [find_record(opened, request_id)] if request_id else sampled_records(opened, limit)
    with progress() as bar:
        task = bar.add_task("loading models", total=None)
        reader = load_generator(generator, workers=available_cores()) if generator else None
        if reader is not None and is_silent(reader):
            raise ConfigurationError.of(
                "--generator", generator, "a model that gives log-probabilities of stored answers"
            )
        finder = load_retriever(retriever) if retriever else None
        found = faithfulness(
            records,
            generator=reader,
            retriever=finder,
            methods=methods or METHODS,
            budget=budget,
            seed=seed,
            on_progress=lambda done, of: bar.update(task, description="requests", completed=done, total=of),
        )
    if as_json:
        print_json(to_builtins(found))
    else:
        _print_faithfulness(found)


def _print_faithfulness(found: Faithfulness) -> None:
    from itertools import groupby

    for removed, rows in groupby(found.methods, key=lambda row: row.removed):
        lines = list(rows)
        model = found.generator if removed == "documents" else found.retriever
        console().print(f"{removed} removed, by {model}", style="bold")
        cells = [
            (row.method, _mean(row.aipc), f"{fmean(row.morf):.3f}", f"{fmean(row.lerf):.3f}", _mean(row.difference))
            for row in lines
        ]
        columns = ("method", "AIPC", "MoRF", "LeRF", f"AIPC less that of {lines[0].method}", "requests")
        print_table(columns, [(*row, str(line.aipc.requests)) for row, line in zip(cells, lines, strict=True)])
        console().print()
    for note in _FAITHFULNESS_NOTES if found.methods else ("nothing could be judged",):
        console().print(note, style="dim")
    for side, reasons in found.skipped.items():
        for reason, count in reasons.items():
            console().print(f"{count} without ({side}): {reason}", style="yellow")


def _mean(value: WeightedMean | None) -> str:
    """A mean with its interval, where there is one."""
    if value is None:
        return ""
    interval = "" if value.low is None or value.high is None else f" ({value.low:+.3f} to {value.high:+.3f})"
    return f"{value.mean:+.3f}{interval}"


def _missing(
    known: Explanation | None,
    generator: str | None,
    retriever: str | None,
    query: bool,
    budget: int | None,
    method: Method | None,
    compared: Sequence[Method],
) -> list[Part]:
    """The parts that are asked for and can be computed, or go on. Raises: ConfigurationError for want of a model."""
    stored = known.generator if known is not None else None
    words = known.query if known is not None else None
    if query and words is None and not generator:
        raise ConfigurationError("--query needs the model that reads the question; give --generator MODEL")
    if stored is not None and _goes_on(stored, budget) and not generator:
        raise ConfigurationError(
            f"--budget {budget} goes on with the stored explanation, which needs its model; give --generator with "
            f"{stored.model!r}"
        )
    why = None if stored is None else _other_subsets(stored, budget, method, compared)
    if stored is not None and why and not generator:
        raise ConfigurationError(f"{why}, which needs the model; give --generator with {stored.model!r}")
    parts: list[Part] = []
    if generator and (stored is None or why or _goes_on(stored, budget)):
        parts.append("generator")
    if generator and ((query and words is None) or _goes_on(words, budget)):
        parts.append("query")
    if retriever and (known is None or not known.retriever):
        parts.append("retriever")
    return parts


def _other_subsets(
    stored: GeneratorAttribution, budget: int | None, method: Method | None, compared: Sequence[Method]
) -> str | None:
    """Why documents are computed again: by another method, or since a comparison needs subsets that are not stored."""
    if stored.unit != "log_probability":
        return None
    is_smaller = stored.exact and budget is not None and budget < stored.evaluations
    is_other = method is not None and method.name != "auto" and not stored.exact and not _is_by(stored, method)
    if method is not None and (is_other or (is_smaller and method.name != "exact")):
        return f"--method {method} scores subsets of its own"
    if compared and stored.log is None:
        return "--compare reads subsets that are not stored with exact values"
    return None


def _is_by(stored: GeneratorAttribution, method: Method) -> bool:
    settings = {**stored.settings, **method.options}
    return stored.method.partition(" ")[0] == method.name and settings == stored.settings


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
    parts: list[Part],
    attention: bool,
    how: dict[str, Any],
    *,
    asks: bool,
) -> Explanation:
    """how: what `explain_record` is told of the estimate: its method, its budget, what it is compared with. asks:
    whether somebody at a terminal is asked before servers are."""
    from ragtrace.analyze.attribution import explain_record
    from ragtrace.engines.model_names import load_generator, load_retriever
    from ragtrace.engines.models import available_cores

    with progress() as bar:
        task = bar.add_task("loading models", total=None)
        reads = generator and (attention or {"generator", "query"} & set(parts))
        reader = load_generator(generator, workers=available_cores()) if generator and reads else None
        compares = how["similarity"] == "cosine" and "generator" in parts
        finder = load_retriever(retriever) if retriever and (compares or "retriever" in parts) else None
    _announce(record, reader, finder, parts, how, asks=asks)
    with progress() as bar:
        task = bar.add_task("explaining", total=None)

        def tell(part: Part, done: int) -> None:
            bar.update(task, description=_DOING[part].format(done))

        on_progress: OnProgress = tell
        found = explain_record(
            record, generator=reader, retriever=finder, parts=parts, known=known, on_progress=on_progress, **how
        )
        if attention:
            bar.update(task, description="attention")
            found = _compared(record, known, found, reader)
    return found


def _announce(
    record: RequestRecord,
    reader: CausalLM | HttpLM | None,
    finder: object,
    parts: Sequence[Part],
    how: dict[str, Any],
    *,
    asks: bool,
) -> None:
    """Say what servers will be asked for before they are, and ask at a terminal whether they may be.

    Raises: typer.Abort where they may not.
    """
    from ragtrace.analyze.explainer import server_cost

    options = {name: how[name] for name in ("sentences", "similarity", "budget")}
    cost = server_cost(record, reader, finder, parts=parts, **options)
    if cost is None:
        return
    console(stderr=True).print(f"this asks for at most {cost}", soft_wrap=True)
    if asks and sys.stdin.isatty() and sys.stderr.isatty():
        typer.confirm("go on?", default=True, abort=True, err=True)


def _is_without_parts(known: Explanation | None) -> bool:
    """Whether a closed model's answer was explained by its documents alone."""
    found = known.generator if known is not None else None
    return found is not None and found.unit == "similarity" and not found.parts


def _compared(record: RequestRecord, known: Explanation | None, found: Explanation, reader: object) -> Explanation:
    """With attention beside the shares, where there are any. Raises: ConfigurationError for a server's model."""
    from ragtrace.analyze.attribution import compare_attention
    from ragtrace.engines.causal_lm import CausalLM
    from ragtrace.types import replace

    if not isinstance(reader, CausalLM):
        raise ConfigurationError("--compare attention needs a model that is loaded here; a server's shows no attention")
    shares = found.generator or (known.generator if known is not None else None)
    return found if shares is None else replace(found, generator=compare_attention(record, shares, reader))


_DOING: dict[Part, str] = {
    "generator": "documents: {} prompts scored",
    "query": "words of the question: {} prompts scored",
    "retriever": "retrieval: {} of 2 sides",
    "utility": "each document alone: {} prompts",
}


def _united(stored: Explanation | None, computed: Explanation | None) -> Explanation | None:
    """What is stored, with the parts that were computed now in place of those that were missing or went on."""
    if stored is None or computed is None:
        return stored or computed
    from ragtrace.types import replace

    unknown = {part: why for part, why in stored.skipped.items() if part not in _parts(computed)}
    return replace(
        stored,
        generator=computed.generator or stored.generator,
        query=computed.query or stored.query,
        retriever=computed.retriever or stored.retriever,
        alignment=None if "alignment" in computed.skipped else computed.alignment or stored.alignment,
        skipped=unknown | computed.skipped,
        device=computed.device if computed.device != "cpu" else stored.device,
        seconds=stored.seconds + computed.seconds,
        gpu_seconds=stored.gpu_seconds + computed.gpu_seconds,
    )


def _parts(found: Explanation) -> set[str]:
    names = ("generator", "query", "retriever", "alignment")
    return {name for name in names if getattr(found, name)}


def _explained(record: RequestRecord, found: Explanation | None, job: JobRow | None) -> Explanation:
    """What explains anything. Raises: RecordError, which says what is missing, and what became of a worker's job."""
    from ragtrace.errors import RecordError

    if found is not None and _parts(found):
        return found
    if found is None or found.is_utility_alone:
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


def _as_compared(compare: str | None, generator: str | None) -> tuple[bool, list[Method]]:
    """Whether attention is compared with, and the methods. Raises: ConfigurationError for what cannot be."""
    from ragtrace.attribution import Method

    names = [each.strip() for each in (compare or "").split(",") if each.strip()]
    attention = _ATTENTION in names
    if attention and not generator:
        raise ConfigurationError("--compare attention needs the model that read the prompt; give --generator MODEL")
    try:
        return attention, [Method.parse(each) for each in names if each != _ATTENTION]
    except ConfigurationError as error:
        raise ConfigurationError(f"--compare: {error}; or attention") from None


def _check(html: Path | None) -> None:
    """Say before anything is computed that a file cannot be written. Raises: ConfigurationError."""
    if html is not None and not html.absolute().parent.is_dir():
        raise ConfigurationError.of("--html", str(html), "a file in a folder that exists")


def _write(html: Path, record: RequestRecord, found: Explanation, claims: Sequence[Claim]) -> None:
    from ragtrace.export import explanation_html

    try:
        html.write_text(explanation_html.page(record, found, claims), encoding="utf-8")
    except OSError as error:
        raise ConfigurationError.of("--html", str(html), f"a file that can be written ({error.strerror})") from error
    console(stderr=True).print(f"written to {html}", soft_wrap=True)
