"""`ragtrace exposure`: whose documents reach prompts, and whose are used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, print_table, progress
from ragtrace.cli.triage import ServiceOption, SinceOption, UntilOption
from ragtrace.errors import ConfigurationError
from ragtrace.formats import TIMES, shown_time

if TYPE_CHECKING:
    from ragtrace.analyze.exposure_experiment import ExperimentReport
    from ragtrace.analyze.exposure_report import ExposureReport, Interval
    from ragtrace.exposure import Measure

__all__ = ["app"]

_KINDS = {
    "oracle": "gold",
    "proxy": "the proxy reference",
    "log_probability": "the likelihood of the answer from each document alone",
    "rouge-l": "the likeness of an answer from each document alone to the reference answer",
}
_SOURCES = {
    "claims": "claims of the answer that they support",
    "citations": "citations",
    "shapley": "Shapley values of explained requests",
}

app = typer.Typer(
    help="Whose documents (by author, seller, source) reach prompts and are used: is that fair?", no_args_is_help=True
)


@app.callback()
def _group() -> None:
    """Whose documents (by author, seller, source) reach prompts and are used: is that fair?"""


@app.command("report")
def report(
    service: ServiceOption,
    since: SinceOption,
    until: UntilOption = "now",
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="KEY",
            help="What names the provider of a document: source, doc_id, modality, or a key of its metadata.",
        ),
    ] = "source",
    segment: Annotated[str | None, typer.Option("--segment", help="Only this segment.", show_default=False)] = None,
    used_by: Annotated[
        str,
        typer.Option(
            "--used-by",
            metavar="claims|citations|shapley",
            help="What says that the answer used a document: claims that it supports, citations, or its Shapley value "
            "where a request was explained.",
        ),
    ] = "claims",
    useful_by: Annotated[
        str,
        typer.Option(
            "--useful-by",
            metavar="reference|utility",
            help="What says that a document is useful: gold evidence, else the proxy; or that an answer from it alone "
            "is worth more than from none, where a worker asked (analyze --explain-utility-rate).",
        ),
    ] = "reference",
    before: Annotated[
        str | None,
        typer.Option(
            "--before",
            metavar="TIME",
            help=f"Also compare with the time from here to --since: {TIMES}.",
            show_default=False,
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            "--alpha",
            metavar="ALPHA",
            help="Also what this alpha would have put in prompts, where the service draws its rankings at random.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many requests are read at most, about.")] = 2_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the intervals.")] = 0,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Each provider's share of the places in prompts, beside what its useful documents deserve, and what was used."""
    from ragtrace.analyze.exposure_report import exposure_report
    from ragtrace.cli.terminal import existing
    from ragtrace.cli.triage import window_of
    from ragtrace.store import Store
    from ragtrace.types import to_builtins

    window = window_of(since, until)
    earlier = window_of(before, since) if before is not None else None
    with Store.open(existing(store)) as opened, progress() as bar:
        task = bar.add_task("reading", total=None)
        found = exposure_report(
            opened,
            service,
            since=window.since,
            until=window.until,
            by=by,
            segment=segment,
            useful_by=useful_by,
            used_by=used_by,
            before=(earlier.since, earlier.until) if earlier is not None else None,
            alpha=alpha,
            limit=limit,
            seed=seed,
            on_progress=lambda done, of: bar.update(task, completed=done, total=of),
        )
    if as_json:
        print_json(to_builtins(found))
    else:
        _print(found)


@app.command("experiment")
def experiment(
    questions: Annotated[
        Path,
        typer.Option("--questions", metavar="FILE", help="Questions with their reference answers: .jsonl, .csv, .tsv."),
    ],
    pipeline: Annotated[
        str,
        typer.Option(
            "--pipeline",
            metavar="MODULE:FUNCTION",
            help="Answers a question: called with it and a list of candidates, which may be empty.",
        ),
    ],
    retriever: Annotated[
        str,
        typer.Option("--retriever", metavar="MODULE:FUNCTION", help="Gives a question's candidates with their scores."),
    ],
    alpha: Annotated[
        str, typer.Option("--alpha", metavar="NUMBERS", help="The alphas of the draws, with spaces or commas between.")
    ] = "0 1 2 4 8",
    samples: Annotated[int, typer.Option("--samples", min=1, help="Rankings of a question at each alpha.")] = 100,
    k: Annotated[int, typer.Option("--k", min=1, help="How many documents the pipeline reads.")] = 5,
    candidates: Annotated[int, typer.Option("--candidates", min=2, help="How many of the best are ranked.")] = 10,
    by: Annotated[
        str,
        typer.Option("--by", metavar="KEY", help="What is made even: item, source, doc_id, or a key of the metadata."),
    ] = "item",
    utility: Annotated[
        str,
        typer.Option("--utility", metavar="rouge-l|token-f1|exact-match", help="What an answer is worth."),
    ] = "rouge-l",
    useful: Annotated[
        str,
        typer.Option(
            "--useful",
            metavar="gold|utility",
            help="Useful documents: gold where a question has it, or always those whose answer alone is worth more.",
        ),
    ] = "gold",
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Only so many questions, drawn by --seed.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of draws and intervals.")] = 0,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write the report as a page.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Your own pipeline under rankings that are drawn at random: what even exposure costs its answers."""
    import random

    from ragtrace.analyze.exposure_experiment import ExperimentQuestion, ExperimentSettings, run_experiment
    from ragtrace.export.exposure_experiment import experiment_page
    from ragtrace.gate.replay_inputs import read_questions
    from ragtrace.types import to_builtins

    asked = [each for each in read_questions(questions) if each.answer]
    if not asked:
        raise ConfigurationError(f'{questions} has no reference answer; give each question one in the field "answer"')
    if limit is not None and limit < len(asked):
        asked = random.Random(seed).sample(asked, limit)
    settings = ExperimentSettings(
        alphas=_numbers(alpha),
        samples=samples,
        k=k,
        candidates=candidates,
        by=by,
        utility=utility,
        useful=useful,  # type: ignore[arg-type]  # checked there
        seed=seed,
    )
    with progress() as bar:
        task = bar.add_task("asking", total=len(asked))
        found = run_experiment(
            [ExperimentQuestion(each.id, each.text, each.answer, each.gold) for each in asked],
            _function(retriever, "retriever"),
            _function(pipeline, "pipeline"),
            settings,
            on_progress=lambda done, of: bar.update(task, completed=done, total=of),
        )
    if html is not None:
        html.write_text(experiment_page(found), encoding="utf-8")
    if as_json:
        print_json(to_builtins(found))
    else:
        _print_experiment(found)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.replace(",", " ").split())
    except ValueError:
        raise ConfigurationError.of("alpha", text, "numbers with spaces or commas between, as in 0 1 2 4 8") from None


def _function(name: str, what: str) -> Any:
    from ragtrace.object_loading import load_object

    allowed = "module:function, as in app.rag:answer_from"
    found = load_object(name, what, allowed)
    if not callable(found):
        raise ConfigurationError.of(what, name, allowed)
    return found


def _print_experiment(report: ExperimentReport) -> None:
    from ragtrace.export.exposure_experiment import HELD, NAMES, alpha_text, difference_text, mean_text

    out = console()
    out.print(
        f"{report.questions:,} questions by {report.by}, {report.samples:,} rankings at each alpha, the first "
        f"{report.k} read; {report.answered:,} answers",
        highlight=False,
    )
    for reason, count in report.left_out.items():
        out.print(f"  {count:,} questions are left out: {reason}", highlight=False)
    if not report.questions:
        return
    kinds = " and ".join(f"{kind} in {count:,}" for kind, count in report.useful_by.items())
    out.print(f"  useful by {kinds}; worth by {report.utility}; used by claims\n", highlight=False)
    print_table(
        ("alpha", *NAMES.values()),
        ((alpha_text(each.alpha), *(mean_text(each.means[name]) for name in NAMES)) for each in report.alphas),
    )
    out.print("\nWorth less that under the order of the scores, by unevenness of exposure:")
    print_table(
        ("EE-D", "questions", "difference", "p, adjusted"),
        (
            (
                f"{each.low:.1f} to {each.high:.1f}",
                f"{each.requests:,}",
                difference_text(each),
                "–" if each.adjusted is None else f"{each.adjusted:.4f}",
            )
            for each in report.intervals
        ),
    )
    out.print()
    for each in report.findings:
        out.print(f"{HELD[each.holds]}: {each.claim} ({each.figure})", highlight=False)


def _print(report: ExposureReport) -> None:
    from ragtrace.analyze.exposure_report import FEWEST_REQUESTS, UNNAMED

    out = console()
    times = f"{shown_time(report.since)} to {shown_time(report.until)}"
    out.print(f"{report.service}, by {report.by}: {report.requests:,} requests, {times}", highlight=False)
    for reason, count in report.left_out.items():
        out.print(f"  {count:,} requests are left out: {reason}", highlight=False)
    if not report.requests:
        out.print("No request of this window can be counted. `ragtrace doctor` says what is recorded.")
        return
    if all(each.provider == UNNAMED for each in report.providers):
        out.print(
            f"No candidate names its {report.by!r}, so there are no providers to compare. Name another key by --by "
            "(source, doc_id, modality, or a key of the chunks' metadata), or record one with the chunks.",
            highlight=False,
        )
        return
    kinds = [f"{_KINDS[kind]} in {count:,} requests" for kind, count in report.useful_by.items()]
    out.print(f"  useful by {' and '.join(kinds) or 'nothing: no request says so'}", highlight=False)
    out.print(f"  used by {_SOURCES[report.used_by]}, in {report.used_requests:,} requests\n", highlight=False)
    has_worth = any(each.worth.value is not None for each in report.providers)
    columns = (
        "provider",
        "in prompts",
        "deserved",
        "difference",
        "",
        "useful",
        *(["worth alone"] if has_worth else []),
        "used",
        "contradicted",
        "used and contradicted",
        "of all used",
    )
    print_table(
        columns,
        (
            (
                each.provider,
                _share(each.exposed),
                _percent(each.deserved.value),
                _points(each.excess),
                each.standing or "",
                _percent(each.useful.value),
                *([_number(each.worth)] if has_worth else []),
                _percent(each.used.value),
                _percent(each.contradicted.value),
                _percent(each.misused.value),
                _percent(each.attributed.value),
            )
            for each in report.providers
        ),
    )
    out.print()
    _print_measure("unevenness of exposure (EE-D)", report.disparity)
    _print_measure("exposure where it is deserved (EE-R)", report.relevance)
    _print_measure("unevenness of what was used (EAE-D)", report.attributed_disparity)
    if report.requests < FEWEST_REQUESTS:
        out.print(f"No provider is called above or below: that takes {FEWEST_REQUESTS} requests.")
    _print_changes(report)
    _print_other_alpha(report)


def _print_other_alpha(report: ExposureReport) -> None:
    other, out = report.other_alpha, console()
    if other is None:
        return
    out.print(f"\nUnder alpha {other.alpha:g}, from {other.requests:,} rankings drawn at random:", highlight=False)
    if other.reason is not None:
        out.print(f"  not known: {other.reason}", highlight=False)
        return
    print_table(
        ("provider", "in prompts", "under it"),
        (
            (each.provider, _share(each.exposed), _share(other.exposed[each.provider]))
            for each in report.providers
            if each.provider in other.exposed
        ),
    )


def _print_measure(name: str, measure: Measure | None) -> None:
    if measure is None:
        shown = "not known"
    elif measure.normalized is None:
        shown = f"not defined: {measure.reason}"
    else:
        shown = f"{measure.normalized:.2f} of 0 (least) to 1 (most)"
    console().print(f"{name}: {shown}", highlight=False)


def _print_changes(report: ExposureReport) -> None:
    if report.before_requests is None:
        return
    out = console()
    if not report.before_requests:
        out.print("\nNo request of the time before can be counted.")
        return
    out.print(f"\nSince the {report.before_requests:,} requests before, in points:", highlight=False)
    print_table(
        ("provider", "in prompts", "deserved", "difference", "of all used", ""),
        (
            (
                each.provider,
                _points(each.exposed),
                _points(each.deserved),
                _points(each.excess),
                _points(each.attributed),
                "starved" if each.starved else "",
            )
            for each in report.changes
        ),
    )
    if starved := [each.provider for each in report.changes if each.starved]:
        since = f"; released since then: {', '.join(report.releases)}" if report.releases else ""
        out.print(f"\n{', '.join(starved)}: lost places in prompts that the documents deserve{since}", highlight=False)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}%"


def _share(interval: Interval) -> str:
    if interval.value is None or interval.low is None or interval.high is None:
        return "–"
    return f"{100 * interval.value:.1f}% [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def _number(interval: Interval) -> str:
    if interval.value is None or interval.low is None or interval.high is None:
        return "–"
    return f"{interval.value:+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]"


def _points(interval: Interval) -> str:
    if interval.value is None or interval.low is None or interval.high is None:
        return "–"
    return f"{100 * interval.value:+.1f} [{100 * interval.low:+.1f}, {100 * interval.high:+.1f}]"
