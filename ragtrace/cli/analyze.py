"""`ragtrace analyze`: works through the queue of analysis jobs."""

from __future__ import annotations

import signal
from enum import StrEnum
from types import FrameType
from typing import Annotated, Any, Self

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, progress
from ragtrace.errors import ConfigurationError
from ragtrace.times import TIMES, parse_time

__all__ = ["analyze"]


class ExecutorName(StrEnum):
    """Where workers run."""

    thread = "thread"
    processes = "processes"
    ray = "ray"


def analyze(
    store: StoreOption = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for new jobs until Ctrl-C or SIGTERM.")] = False,
    redo: Annotated[
        bool, typer.Option("--redo", help="Analyze again what another version of ragtrace's analyzer has scored.")
    ] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Analyze again what has been scored, whoever did: by today's gold sets and models."
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
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="End after so many jobs.")] = None,
    events: Annotated[
        bool,
        typer.Option(
            "--events",
            envvar="RAGTRACE_EVENTS",
            help="Also send each score as an OpenTelemetry event over OTLP (OTEL_EXPORTER_OTLP_ENDPOINT).",
        ),
    ] = False,
    generator: Annotated[
        str | None,
        typer.Option(
            "--generator",
            metavar="MODEL",
            envvar="RAGTRACE_GENERATOR",
            help="Explain what answers used: by a causal language model's folder or name, or URL#NAME of a server's.",
        ),
    ] = None,
    retriever: Annotated[
        str | None,
        typer.Option(
            "--retriever",
            metavar="MODEL",
            envvar="RAGTRACE_RETRIEVER",
            help="Explain why documents were retrieved: by a sentence encoder's folder or name, or cross:MODEL.",
        ),
    ] = None,
    verifier: Annotated[
        str | None,
        typer.Option(
            "--verifier",
            metavar="MODEL",
            envvar="RAGTRACE_VERIFIER",
            help="Judge the claims of answers by a sequence classifier's folder or name (see `ragtrace verifier`).",
        ),
    ] = None,
    embeddings: Annotated[
        str | None,
        typer.Option(
            "--embeddings",
            metavar="MODEL",
            envvar="RAGTRACE_EMBEDDINGS",
            help="Judge the claims of answers by a sentence encoder's folder or name as well, before any verifier.",
        ),
    ] = None,
    entities: Annotated[
        str | None,
        typer.Option(
            "--entities",
            metavar="PIPELINE",
            envvar="RAGTRACE_ENTITIES",
            help="Read the names in questions by this spaCy pipeline, where the application names no facets "
            "(ragtrace[spacy]); a pipeline runs its own code.",
        ),
    ] = None,
    probe: Annotated[
        str | None,
        typer.Option(
            "--probe",
            metavar="MODULE:NAME",
            envvar="RAGTRACE_PROBE",
            help="Ask the index again, deeper and exactly, where evidence may be missing: an object of yours with "
            "probe(query, depth, exact) and has(id or text), or a function() that makes it.",
        ),
    ] = None,
    probe_share: Annotated[
        float,
        typer.Option(
            "--probe-share",
            min=0.0,
            max=1.0,
            envvar="RAGTRACE_PROBE_SHARE",
            help="Share of the requests with a suspected retrieval that are asked about.",
        ),
    ] = 1.0,
    probe_sound: Annotated[
        float,
        typer.Option(
            "--probe-sound",
            min=0.0,
            max=1.0,
            envvar="RAGTRACE_PROBE_SOUND",
            help="The same of the requests whose retrieval looks sound.",
        ),
    ] = 0.05,
    probe_rate: Annotated[
        float,
        typer.Option(
            "--probe-rate",
            min=0.0,
            metavar="A_MINUTE",
            envvar="RAGTRACE_PROBE_RATE",
            help="The most requests of one service that are asked about in a minute, by all workers of this command.",
        ),
    ] = 30.0,
    probe_seconds: Annotated[
        float,
        typer.Option(
            "--probe-seconds",
            min=0.01,
            envvar="RAGTRACE_PROBE_SECONDS",
            help="Judge a request without the probe when it has not answered after so long.",
        ),
    ] = 10.0,
    explain: Annotated[
        str | None,
        typer.Option(
            "--explain",
            metavar="FLAG=PARTS,...",
            envvar="RAGTRACE_EXPLAIN",
            help="Which flags buy an explanation by a worker with models, and of what: generator, query, retriever, "
            "joined by +; host stands for all flags of the application, none for no flag at all.",
        ),
    ] = None,
    explain_rate: Annotated[
        float,
        typer.Option(
            "--explain-rate",
            min=0.0,
            max=1.0,
            envvar="RAGTRACE_EXPLAIN_RATE",
            help="Share of the sampled requests that are explained whatever their flags.",
        ),
    ] = 0.01,
    explain_budget: Annotated[
        int | None,
        typer.Option(
            "--explain-budget",
            min=2,
            envvar="RAGTRACE_EXPLAIN_BUDGET",
            help="The most prompts that the generator scores for one part of an explanation.",
        ),
    ] = None,
    explain_settle: Annotated[
        float,
        typer.Option(
            "--explain-settle",
            min=0.0,
            max=1.0,
            envvar="RAGTRACE_EXPLAIN_SETTLE",
            help="Ends an estimate before its budget once, with this confidence, the most used document and the flags "
            "will stay as they are; 0: never.",
        ),
    ] = 0.9,
    explain_error: Annotated[
        float | None,
        typer.Option(
            "--explain-error",
            metavar="NATS",
            envvar="RAGTRACE_EXPLAIN_ERROR",
            help="Ends an estimate before its budget once no document's share has a larger standard error.",
        ),
    ] = None,
    explain_documents: Annotated[
        int,
        typer.Option(
            "--explain-documents",
            min=1,
            envvar="RAGTRACE_EXPLAIN_DOCUMENTS",
            help="How many documents' retrieval is explained: the prompt's by rank, then other candidates.",
        ),
    ] = 10,
    explain_baseline: Annotated[
        str,
        typer.Option(
            "--explain-baseline",
            envvar="RAGTRACE_EXPLAIN_BASELINE",
            help="What the retriever's tokens are compared with: unk, mask, pad or zero.",
        ),
    ] = "unk",
    explain_gpu_seconds: Annotated[
        float,
        typer.Option(
            "--explain-gpu-seconds",
            min=0.0,
            envvar="RAGTRACE_EXPLAIN_GPU_SECONDS",
            help="What all workers together may spend on a GPU in a day.",
        ),
    ] = 3600.0,
    explain_cpu_seconds: Annotated[
        float,
        typer.Option(
            "--explain-cpu-seconds",
            min=0.0,
            envvar="RAGTRACE_EXPLAIN_CPU_SECONDS",
            help="The same for explanations without a GPU.",
        ),
    ] = 3600.0,
    executor: Annotated[
        ExecutorName,
        typer.Option("--executor", envvar="RAGTRACE_EXECUTOR", help="Where workers run (ragtrace[ray] for ray)."),
    ] = ExecutorName.thread,
    workers: Annotated[
        int, typer.Option("--workers", min=1, envvar="RAGTRACE_WORKERS", help="How many; each loads its own models.")
    ] = 1,
    gpus_per_worker: Annotated[
        float | None,
        typer.Option(
            "--gpus-per-worker",
            min=0.0,
            metavar="GPUS",
            envvar="RAGTRACE_GPUS_PER_WORKER",
            help="GPUs of each process or actor, also a part of one (0.5).  [default: shared evenly]",
            show_default=False,
        ),
    ] = None,
    ray_address: Annotated[
        str,
        typer.Option(
            "--ray-address",
            metavar="ADDRESS",
            envvar=["RAGTRACE_RAY_ADDRESS", "RAY_ADDRESS"],
            help="A Ray that runs: auto, HOST:PORT or ray://HOST:PORT; local starts one on this machine.",
        ),
    ] = "local",
    as_json: JsonOption = False,
) -> None:
    """Score the recorded requests that wait in the queue. Killed at any moment, it can be run again."""
    from ragtrace.analyze.executors import Work, executor_of
    from ragtrace.analyze.explainer import Depths
    from ragtrace.analyze.index_probe import ProbeBudget
    from ragtrace.analyze.worker import LEASE_SECONDS
    from ragtrace.cli.stores import existing
    from ragtrace.config import load
    from ragtrace.engines.choosing import as_baseline
    from ragtrace.export.events import sending_events
    from ragtrace.store import ATTRIBUTION, COVERAGE, Store

    if (service is not None or since is not None) and not (redo or again):
        raise ConfigurationError("--service and --since choose what --redo and --again enqueue; give one of these too")
    began = None if since is None else parse_time("--since", since)
    chosen = executor_of(executor.value, workers=workers, gpus_for_each=gpus_per_worker, ray_address=ray_address)
    work = Work(
        store=existing(store),
        follow=follow,
        limit=limit,
        low_score=load().low_score,
        depths=Depths.parse(explain, explain_rate) if explain else Depths.parse(rate=explain_rate),
        generator=generator,
        retriever=retriever,
        verifier=verifier,
        embeddings=embeddings,
        entities=entities,
        probe=probe,
        probe_budget=ProbeBudget(
            suspected=probe_share, others=probe_sound, a_minute=probe_rate / workers, seconds=probe_seconds
        ),
        explaining={
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
    with _Ending() as ending, progress() as bar:
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
        console().print(", ".join(f"{count} {name}" for name, count in counts.items()))
        if held:
            console().print(
                f"{held} more are held by other workers; those of a worker that was killed are free again after at "
                f"most {LEASE_SECONDS:.0f} seconds: run this again then",
                soft_wrap=True,
            )
    if ending.signal == signal.SIGINT:
        raise typer.Exit(130)


class _Ending:
    """Notes SIGINT or SIGTERM, so that the batch at hand is committed first. A second SIGINT ends at once."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number
        signal.signal(signal.SIGINT, signal.default_int_handler)
