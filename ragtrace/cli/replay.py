"""`ragtrace replay`: asks every question of a file by the host's own pipeline, for one side of the release gate."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, progress
from ragtrace.config import variable

if TYPE_CHECKING:
    from rich.progress import Progress

    from ragtrace.gate.replay import ReplaySummary

__all__ = ["replay"]

_SHOWN_FAILURES: Final = 3  # failures that are printed


def replay(
    questions: Annotated[
        Path, typer.Option("--questions", metavar="FILE", help="The questions: .jsonl, .csv, .tsv or .txt.")
    ],
    pipeline: Annotated[
        str,
        typer.Option(
            "--pipeline", metavar="MODULE:FUNCTION", help="Your function that takes a question; it may be async."
        ),
    ],
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The run's name, for `ragtrace gate run ... replay:NAME`.")
    ],
    store: StoreOption = None,
    service: Annotated[
        str | None,
        typer.Option("--service", help="The service to record as.  [default: the application's]", show_default=False),
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, help="How many questions are asked at once. More than 1: in threads.")
    ] = 1,
    retries: Annotated[int, typer.Option("--retries", min=0, help="How often a failed question is asked again.")] = 2,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", help="Seconds after which one attempt fails.")
    ] = None,
    again: Annotated[
        bool | None,
        typer.Option(
            "--resume/--restart",
            help="For a run that is in the store: ask only what is missing or failed, or ask everything again.",
            show_default=False,
        ),
    ] = None,
    analyze: Annotated[
        bool,
        typer.Option("--analyze/--no-analyze", help="Analyze the requests that wait in the store, when all are asked."),
    ] = True,
    id_field: Annotated[
        str, typer.Option("--id-field", metavar="FIELD", help="Name of the field that holds the question's id.")
    ] = "id",
    question_field: Annotated[
        str, typer.Option("--question-field", metavar="FIELD", help="Name of the field that holds the question.")
    ] = "question",
    segment_field: Annotated[
        str, typer.Option("--segment-field", metavar="FIELD", help="Name of the field that holds the query class.")
    ] = "segment",
    gold_field: Annotated[
        str,
        typer.Option(
            "--gold-field",
            metavar="FIELD",
            help="Name of the field that holds the ids of the chunks that answer; [] there: none does.",
        ),
    ] = "gold",
    session_field: Annotated[
        str, typer.Option("--session-field", metavar="FIELD", help="Name of the field that holds the session.")
    ] = "session",
    as_json: JsonOption = False,
) -> None:
    """Ask every question of a file by your own pipeline, and record the answers under a name."""
    import msgspec

    from ragtrace import config
    from ragtrace.gate import replay as gate_replay
    from ragtrace.gate.policy import announcement, default_policy
    from ragtrace.gate.replay_inputs import Fields, read_questions

    gate_replay.check_options(name, timeout)
    fields = Fields(id=id_field, question=question_field, segment=segment_field, gold=gold_field, session=session_field)
    asked = read_questions(questions, fields)
    sizes = Counter(question.segment or "" for question in asked)
    url = config.load(store=store).store
    for line in announcement(sizes, default_policy()) if _is_first(url) else ():
        console(stderr=True).print(f"note: {line}", soft_wrap=True)
    how: gate_replay.Again = "no" if again is None else ("resume" if again else "restart")
    # what the application prints is none of the JSON document
    with progress() as bar, contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        try:
            summary = gate_replay.replay(
                asked, pipeline, name, url, service=service, again=how,
                concurrency=concurrency, retries=retries, timeout=timeout, analyze=analyze, progress=_Bar(bar, name),
            )  # fmt: skip
        except KeyboardInterrupt:
            console(stderr=True).print(f"ragtrace: stopped; the same command with --resume goes on with run {name!r}")
            raise typer.Exit(130) from None
    if as_json:
        print_json(msgspec.to_builtins(summary))
    else:
        _print(summary)
    if summary.answered + summary.skipped == 0:
        raise typer.Exit(1)


def _is_first(url: str) -> bool:
    """Whether no replay is in the store yet; the second one need not say again what its questions are too few for."""
    from ragtrace.store import Store, check

    if check(url).current is None:
        return True
    with Store.open(url) as opened:
        return not opened.replays()


class _Bar:
    """Shows how far a replay is."""

    def __init__(self, bar: Progress, name: str) -> None:
        self._bar = bar
        self._name = name
        self._asking = bar.add_task(f"{name}: asking", total=None)
        self._analyzing = bar.add_task("analyzing", total=None, visible=False)

    def asked(self, done: int, of: int, failed: int) -> None:
        """So many questions are through."""
        said = f"{self._name}: {done}/{of} questions" + (f", {failed} failed" if failed else "")
        self._bar.update(self._asking, description=said, completed=done, total=of)

    def analyzed(self, done: int, of: int) -> None:
        """So many requests are analyzed."""
        said = f"analyzing {done}/{of}"
        self._bar.update(self._analyzing, description=said, completed=done, total=of, visible=True)


def _print(summary: ReplaySummary) -> None:
    """The counts, then what is not as it should be, then the next command."""
    say = console().print
    counts = [f"{summary.answered} answered", f"{summary.failed} failed"]
    counts += [f"{summary.skipped} answered before"] if summary.skipped else []
    counts += [f"{summary.repeated} needed another attempt"] if summary.repeated else []
    counts += [f"{summary.not_asked} not asked"] if summary.not_asked else []
    say(f"run {summary.run} of service {summary.service}: {summary.questions} questions, {', '.join(counts)}")
    for question, failure in list(summary.failures.items())[:_SHOWN_FAILURES]:
        say(f"  {question}: {failure}")
    if len(summary.failures) > _SHOWN_FAILURES:
        say(f"  and {len(summary.failures) - _SHOWN_FAILURES} more; ragtrace replay --resume asks them again")
    if summary.not_asked:
        say("the first questions have all failed, so the others were not asked")
    if not summary.has_versions:
        say(
            "no request carries versions, so the gate names no rollout: configure(versions=...) or "
            f"{variable('versions')}"
        )
    if summary.hidden:
        what = ", ".join(summary.hidden)
        say(
            f"not captured: {what}, so most metrics are undefined; {variable('capture_content')}=full, in a store of "
            "its own"
        )
    if summary.unstored:
        say(f"{summary.unstored} requests wait in the spool for the store: ragtrace doctor --store {summary.store}")
    if summary.unanalyzed is None:
        say(f"not analyzed yet: ragtrace analyze --store {summary.store}")
    elif summary.unanalyzed:
        say(f"{summary.unanalyzed} requests could not be analyzed: ragtrace doctor --store {summary.store}")
    say(
        f"next: ragtrace gate run --baseline replay:NAME --candidate replay:NAME --store {summary.store}, where "
        f"replay:{summary.run} is this run"
    )
