"""`ragtrace analyze|jobs`: the worker that analyzes requests, and the queue of its jobs for the hand."""

from __future__ import annotations

import signal
import time
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, get_args

import typer

from ragtrace.cli.terminal import Ending, JsonOption, StoreOption, console, option, print_json, print_table, progress
from ragtrace.config import SETTINGS
from ragtrace.errors import ConfigurationError
from ragtrace.formats import TIMES, parse_time, shown_span

if TYPE_CHECKING:
    from ragtrace.store import JobRow, JobState

__all__ = ["analyze", "jobs"]


class ExecutorName(StrEnum):
    """Where workers run."""

    thread = "thread"
    processes = "processes"
    ray = "ray"


_EXECUTOR: Final = ExecutorName(SETTINGS["executor"].default)


def analyze(
    store: StoreOption = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for new jobs until Ctrl-C or SIGTERM.")] = False,
    redo: Annotated[
        bool, typer.Option("--redo", help="Analyze again what another version of ragtrace has analyzed.")
    ] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Analyze again all that was analyzed before, with the gold sets and models of now."
        ),
    ] = False,
    service: Annotated[
        str | None, typer.Option("--service", help="With --redo or --again: only requests of this application.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help=f"With --redo or --again: only requests that began since then: {TIMES}."
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="End after so many requests.")] = None,
    events: Annotated[bool, option("events")] = SETTINGS["events"].default,
    generator: Annotated[str | None, option("generator", metavar="MODEL")] = None,
    retriever: Annotated[str | None, option("retriever", metavar="MODEL")] = None,
    verifier: Annotated[str | None, option("verifier", metavar="MODEL")] = None,
    embeddings: Annotated[str | None, option("embeddings", metavar="MODEL")] = None,
    judge: Annotated[list[str] | None, option("judge", metavar="ROLE=MODEL")] = None,
    judge_calibration: Annotated[list[str] | None, option("judge_calibration", metavar="ROLE=FILE")] = None,
    judge_tokens: Annotated[int | None, option("judge_tokens", min=0)] = None,
    grade_upper: Annotated[float | None, option("grade_upper", min=-1.0, max=1.0)] = None,
    grade_lower: Annotated[float | None, option("grade_lower", min=-1.0, max=1.0)] = None,
    question_types: Annotated[str | None, option("question_types", metavar="MODULE:FUNCTION")] = None,
    entities: Annotated[str | None, option("entities", metavar="PIPELINE")] = None,
    provider: Annotated[str, option("provider", metavar="KEY")] = SETTINGS["provider"].default,
    prices: Annotated[str | None, option("prices", metavar="JSON")] = None,
    probe: Annotated[str | None, option("probe", metavar="MODULE:NAME")] = None,
    probe_share: Annotated[float, option("probe_share", min=0.0, max=1.0)] = SETTINGS["probe_share"].default,
    probe_sound: Annotated[float, option("probe_sound", min=0.0, max=1.0)] = SETTINGS["probe_sound"].default,
    probe_rate: Annotated[float, option("probe_rate", min=0.0, metavar="A_MINUTE")] = SETTINGS["probe_rate"].default,
    probe_seconds: Annotated[float, option("probe_seconds", min=0.01)] = SETTINGS["probe_seconds"].default,
    explain: Annotated[str | None, option("explain", metavar="FLAG=PARTS,...")] = None,
    explain_rate: Annotated[float, option("explain_rate", min=0.0, max=1.0)] = SETTINGS["explain_rate"].default,
    explain_utility_rate: Annotated[float, option("explain_utility_rate", min=0.0, max=1.0)] = SETTINGS[
        "explain_utility_rate"
    ].default,
    explain_budget: Annotated[int | None, option("explain_budget", min=2)] = None,
    explain_method: Annotated[str, option("explain_method", metavar="METHOD")] = SETTINGS["explain_method"].default,
    explain_similarity: Annotated[str, option("explain_similarity", metavar="NAME")] = SETTINGS[
        "explain_similarity"
    ].default,
    explain_sentences: Annotated[bool, option("explain_sentences")] = SETTINGS["explain_sentences"].default,
    explain_settle: Annotated[float, option("explain_settle", min=0.0, max=1.0)] = SETTINGS["explain_settle"].default,
    explain_error: Annotated[float | None, option("explain_error", metavar="NATS")] = None,
    explain_documents: Annotated[int, option("explain_documents", min=1)] = SETTINGS["explain_documents"].default,
    explain_baseline: Annotated[str, option("explain_baseline")] = SETTINGS["explain_baseline"].default,
    explain_gpu_seconds: Annotated[float, option("explain_gpu_seconds", min=0.0)] = SETTINGS[
        "explain_gpu_seconds"
    ].default,
    explain_cpu_seconds: Annotated[float, option("explain_cpu_seconds", min=0.0)] = SETTINGS[
        "explain_cpu_seconds"
    ].default,
    executor: Annotated[ExecutorName, option("executor")] = _EXECUTOR,
    workers: Annotated[int, option("workers", min=1)] = SETTINGS["workers"].default,
    gpus_per_worker: Annotated[
        float | None,
        option("gpus_per_worker", min=0.0, metavar="GPUS", more="[default: shared evenly]", show_default=False),
    ] = None,
    ray_address: Annotated[str, option("ray_address", metavar="ADDRESS")] = SETTINGS["ray_address"].default,
    as_json: JsonOption = False,
) -> None:
    """Score the recorded requests that wait in the queue. Killed at any moment, it can be run again."""
    from ragtrace.analyze.executors import Work, executor_of
    from ragtrace.analyze.explainer import Depths
    from ragtrace.analyze.probe_schedule import ProbeBudget
    from ragtrace.analyze.worker import LEASE_SECONDS, WorkerSettings, rare_collections
    from ragtrace.attribution import Method
    from ragtrace.cli.terminal import existing
    from ragtrace.config import load
    from ragtrace.engines.model_names import as_baseline, as_calibrations, as_judges
    from ragtrace.export.push import sending_events
    from ragtrace.grading import given_thresholds
    from ragtrace.store import ATTRIBUTION, COVERAGE, Store

    if (service is not None or since is not None) and not (redo or again):
        raise ConfigurationError("--service and --since choose what --redo and --again enqueue; give one of these too")
    judges = as_judges(judge or ())
    if verifier == "builtin":
        known = "a folder or a Hugging Face name; no verifier is built in: words judge claims without one"
        raise ConfigurationError.of("--verifier", verifier, known)
    if verifier and "entails" in judges:
        raise ConfigurationError("--verifier and --judge entails=MODEL both judge claims; give one of them")
    began = None if since is None else parse_time("--since", since)
    chosen = executor_of(executor.value, workers=workers, gpus_for_each=gpus_per_worker, ray_address=ray_address)
    work = Work(
        store=existing(store),
        settings=WorkerSettings(
            follow=follow,
            limit=limit,
            low_score=load().low_score,
            provider=provider,
            prices=load(prices=prices).prices,
            thresholds=given_thresholds(grade_upper, grade_lower),
            depths=Depths.parse(explain, explain_rate, explain_utility_rate)
            if explain
            else Depths.parse(rate=explain_rate, utility_rate=explain_utility_rate),
            probe_budget=ProbeBudget(
                suspected=probe_share, others=probe_sound, a_minute=probe_rate / workers, seconds=probe_seconds
            ),
        ),
        generator=generator,
        retriever=retriever,
        verifier=verifier,
        embeddings=embeddings,
        judges=judges,
        judge_calibrations=as_calibrations(judge_calibration or ()),
        judge_tokens=None if judge_tokens is None else judge_tokens / workers,
        entities=entities,
        probe=probe,
        question_types=question_types,
        explaining={
            "method": Method.parse(explain_method),
            "similarity": explain_similarity,
            "sentences": explain_sentences,
            "budget": explain_budget,
            "settle": explain_settle or None,
            "target_standard_error": explain_error,
            "documents": explain_documents,
            "baseline": as_baseline(explain_baseline),
            "daily_seconds": {"gpu": explain_gpu_seconds, "cpu": explain_cpu_seconds},
        },
        results=sending_events if events else None,
    )
    with Store.open(work.store) as opened:
        if redo or again:
            opened.redo(service=service, since=began, again=again)
        kinds = (COVERAGE, ATTRIBUTION) if generator or retriever else (COVERAGE,)
        waiting = sum(opened.queue_depth(kind)["pending"] for kind in kinds)
    with Ending() as ending, progress() as bar, rare_collections():
        task = bar.add_task("analyzing", total=None if follow else min(waiting, limit or waiting))
        summary = chosen.run(
            work,
            on_progress=lambda so_far: bar.update(task, completed=so_far.done + so_far.failed),
            stop=lambda: ending.signal is not None,
        )
    with Store.open(work.store) as opened:
        held = sum(of_kind.leased for kind, of_kind in opened.backlog().items() if kind in kinds)
    counts = {"done": summary.done, "failed": summary.failed, "lost": summary.lost}
    if as_json:
        print_json({**counts, "held": held})
    else:
        console().print(_summary_text(**counts, explains=len(kinds) > 1), soft_wrap=True)
        if held:
            console().print(
                f"{held} more are held by other workers; those of a worker that was killed are free again after at "
                f"most {LEASE_SECONDS:.0f} seconds: run this again then",
                soft_wrap=True,
            )
    if ending.signal == signal.SIGINT:
        raise typer.Exit(130)


def _summary_text(done: int, failed: int, lost: int, *, explains: bool) -> str:
    """What became of the requests; one that was analyzed and explained counts twice."""
    text = f"{done:,} {'request' if done == 1 else 'requests'} {'analyzed or explained' if explains else 'analyzed'}"
    if failed:
        text += f", {failed} failed (`ragtrace jobs list` says why; each is tried again a few times)"
    if lost:
        text += f", {lost} left to other workers, which had taken them over"
    return text


_JOB_COLUMNS: Final = ("job", "request", "kind", "service", "state", "tries", "since", "next", "last error")
_ERROR: Final = 60  # characters of an error in the table
_NONE: Final = "-"

jobs = typer.Typer(help="Look at the queue of analyses, run dead jobs again, take jobs out.", no_args_is_help=True)

IdsArgument = Annotated[
    list[int] | None,
    typer.Argument(metavar="JOB...", help="Numbers of jobs, as `ragtrace jobs list` shows them.", show_default=False),
]
AllOption = Annotated[bool, typer.Option("--all", help="All jobs that fit the other options, instead of numbers.")]
KindOption = Annotated[str | None, typer.Option("--kind", help="coverage or attribution.  [default: both]")]
ServiceOption = Annotated[str | None, typer.Option("--service", help="Only jobs of this service.")]


@jobs.callback()
def _jobs_group() -> None:
    """Look at the queue of analyses, run dead jobs again, take jobs out."""


@jobs.command("list")
def list_jobs(
    state: Annotated[
        str | None, typer.Option("--state", help="pending, leased, done or dead.  [default: all but done]")
    ] = None,
    kind: KindOption = None,
    service: ServiceOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The most jobs to show, newest first.")] = 50,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print jobs, the newest first."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store

    kind = _kind(kind)
    wanted = [_state(state)] if state is not None else [each for each in _states() if each != "done"]
    with Store.open(existing(store)) as opened:
        listed = [row for each in wanted for row in opened.jobs(state=each, kind=kind, service=service, limit=limit)]
    listed = sorted(listed, key=lambda row: -row.id)[:limit]
    if as_json:
        print_json([asdict(row) for row in listed])
    elif not listed:
        console().print("no such jobs")
    else:
        now = time.time()
        print_table(_JOB_COLUMNS, (_job_row(row, now) for row in listed))


@jobs.command("retry")
def retry(
    jobs: IdsArgument = None,
    every: AllOption = False,
    kind: KindOption = None,
    service: ServiceOption = None,
    store: StoreOption = None,
) -> None:
    """Let jobs that failed too often (dead) run again, with as many attempts as a new one."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store

    ids, kind = _chosen("retry", jobs, every=every), _kind(kind)
    with Store.open(existing(store)) as opened:
        count = opened.retry_jobs(ids, kind=kind, service=service)
    _said("enqueued again", count, ids)


@jobs.command("drop")
def drop(
    jobs: IdsArgument = None,
    every: AllOption = False,
    state: Annotated[str, typer.Option("--state", help="dead, pending or done.")] = "dead",
    kind: KindOption = None,
    service: ServiceOption = None,
    store: StoreOption = None,
) -> None:
    """Delete jobs from the queue. Their requests stay in the store and are not analyzed."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store

    ids, wanted, kind = _chosen("drop", jobs, every=every), _state(state), _kind(kind)
    if wanted == "leased":
        raise ConfigurationError.of("--state", state, "dead, pending or done: a worker has leased jobs in hand")
    with Store.open(existing(store)) as opened:
        count = opened.drop_jobs(ids, state=wanted, kind=kind, service=service)
    _said("dropped", count, ids)


def _states() -> tuple[JobState, ...]:
    from ragtrace.store import JobState

    return get_args(JobState)


def _state(given: str) -> JobState:
    for state in _states():
        if given == state:
            return state
    raise ConfigurationError.of("--state", given, ", ".join(_states()))


def _kind(given: str | None) -> str | None:
    from ragtrace.store import ATTRIBUTION, COVERAGE

    if given not in (None, COVERAGE, ATTRIBUTION):
        raise ConfigurationError.of("--kind", given, f"{COVERAGE} or {ATTRIBUTION}")
    return given


def _chosen(verb: str, jobs: list[int] | None, *, every: bool) -> list[int] | None:
    """The numbers that were given; None for all."""
    if bool(jobs) == every:
        raise ConfigurationError(f"name the jobs (ragtrace jobs {verb} 12 13) or give --all, one of the two")
    return None if every else jobs


def _said(what: str, count: int, ids: list[int] | None) -> None:
    left = 0 if ids is None else len(set(ids)) - count
    others = f"; {left:,} {'is' if left == 1 else 'are'} in another state or not there" if left else ""
    typer.echo(f"{count:,} {what}{others}")


def _job_row(row: JobRow, now: float) -> tuple[str, ...]:
    due = row.lease_expires_at if row.state == "leased" else row.available_at if row.state == "pending" else None
    return (
        str(row.id),
        row.request_id[:16],
        row.kind,
        row.service,
        row.state + (" *" if row.flagged else ""),
        str(row.attempts),
        shown_span(max(0.0, now - row.created_at)),
        _NONE if due is None else "now" if due <= now else shown_span(due - now),
        (row.error or _NONE)[:_ERROR],
    )
