"""`ragtrace gate`: the release gate, its stored runs, and two replays side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TypeAlias

import typer

from ragtrace.cli.label import LabelerOption, ask_label, labeler_name, print_request
from ragtrace.cli.terminal import JsonOption, StoreOption, console, print_json, print_table, progress
from ragtrace.formats import shown_time, written_time

if TYPE_CHECKING:
    from ragtrace.gate.labels import LabelTask
    from ragtrace.gate.reports import Format
    from ragtrace.gate.types import GateReport
    from ragtrace.store import GateRun, Store

__all__ = ["app"]

_PRINTED: Final = ("text", "markdown", "junit", "html")
_COLUMNS: Final = ("run", "at", "service", "decision", "first broken", "baseline", "candidate")
_SELECTION: Final = (
    "replay:NAME, version:COMPONENT=VERSION, window:SINCE..UNTIL, service:NAME, a JSONL file or a store's URL, "
    "joined by &"
)

app = typer.Typer(
    help="Compare a candidate with a baseline, stage by stage and segment by segment.", no_args_is_help=True
)

PolicyOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--policy", metavar="FILE", help="A gate.yaml.  [default: what `ragtrace gate policy` prints]"),
]
ServiceOption: TypeAlias = Annotated[
    str | None, typer.Option("--service", help="The service, where the store has several.")
]
SeedOption: TypeAlias = Annotated[
    int | None, typer.Option("--seed", min=0, help="Seed of the statistics, instead of the policy's.")
]


def _file(name: str, what: str) -> Any:
    return typer.Option(f"--{name}", metavar="FILE", help=f"Write {what} there; - for standard output.")


@app.callback()
def _group() -> None:
    """Compare a candidate with a baseline, stage by stage and segment by segment."""


EveryOption: TypeAlias = Annotated[bool, typer.Option("--all", help="Show every metric of every segment.")]
NoTextsOption: TypeAlias = Annotated[
    bool, typer.Option("--no-texts", help="Leave out questions, answers and chunks; figures and request ids stay.")
]


@dataclass(frozen=True, slots=True)
class _Output:
    """What becomes of a report: the files that it is written to, what of it is shown, and whether the run is kept."""

    forms: Mapping[Format, str]
    every: bool
    texts: bool
    keep: bool


def _output(
    markdown: Annotated[str | None, _file("markdown", "a job summary")] = None,
    junit: Annotated[str | None, _file("junit", "JUnit XML")] = None,
    html: Annotated[str | None, _file("html", "a page with plots")] = None,
    every: EveryOption = False,
    no_texts: NoTextsOption = False,
    no_save: Annotated[bool, typer.Option("--no-save", help="Do not keep the run in the store.")] = False,
    as_json: JsonOption = False,
) -> _Output:
    """The options of every command that ends with a report."""
    given: dict[Format, str | None] = {
        "json": "-" if as_json else None,
        "markdown": markdown,
        "junit": junit,
        "html": html,
    }
    forms = {form: file for form, file in given.items() if file is not None}
    _check_output([form for form, file in forms.items() if file == "-"])
    return _Output(forms, every=every, texts=not no_texts, keep=not no_save)


def _with_output(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of `_output` behind its own, which it gets as `output`."""
    own, shared = signature(command, eval_str=True).parameters, signature(_output, eval_str=True).parameters

    @wraps(command)
    def with_options(**given: Any) -> None:
        output = _output(**{name: given.pop(name) for name in shared})
        command(**given, output=output)

    parameters = [*(each for name, each in own.items() if name != "output"), *shared.values()]
    with_options.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]  # typer reads it
    return with_options


@app.command("run")
@_with_output
def run(
    baseline: Annotated[str, typer.Option("--baseline", metavar="SEL", help=f"What is in use: {_SELECTION}.")],
    candidate: Annotated[
        str, typer.Option("--candidate", metavar="SEL", help="What may replace it, given in the same form.")
    ],
    policy: PolicyOption = None,
    store: StoreOption = None,
    service: ServiceOption = None,
    anchor: Annotated[
        str | None,
        typer.Option(
            "--anchor",
            metavar="SEL",
            help="Compare with an older release as well, always the same one: shows what releases lost together.",
        ),
    ] = None,
    anchor_blocks: Annotated[
        bool, typer.Option("--anchor-blocks", help="A loss since the anchor blocks, too; else it is only shown.")
    ] = False,
    seed: SeedOption = None,
    *,
    output: _Output,
) -> None:
    """Decide whether the candidate may replace the baseline.

    Exit code 0: pass; 1: blocked; 2: bad input; 3: could not decide; 70: a fault of ragtrace.
    """
    from ragtrace.errors import ConfigurationError
    from ragtrace.gate.runs import run as judged

    if anchor_blocks and anchor is None:
        raise ConfigurationError("--anchor-blocks needs an anchor; give --anchor SEL")
    url = _store(store, baseline, candidate, *([] if anchor is None else [anchor]))
    report = judged(
        baseline,
        candidate,
        policy=policy,
        store=url,
        service=service,
        seed=seed,
        anchor=anchor,
        anchor_blocks=anchor_blocks,
    )
    _finish(report, output, store=store, keeper=_keeper(store, candidate, url))


@app.command("live")
@_with_output
def live(
    candidate: Annotated[
        str, typer.Option("--candidate", metavar="COMPONENT=VERSION", help="The versions of the canary.")
    ],
    service: Annotated[str, typer.Option("--service", help="The service.")],
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="COMPONENT=VERSION",
            help="The versions beside it.  [default: all others of the candidate's components]",
        ),
    ] = None,
    since: Annotated[str, typer.Option("--since", help="The beginning of the window: 2h, 2026-11-21T10:00Z.")] = "1d",
    until: Annotated[str, typer.Option("--until", help="Its end.")] = "now",
    policy: PolicyOption = None,
    store: StoreOption = None,
    seed: SeedOption = None,
    *,
    output: _Output,
) -> None:
    """Hold a canary's live requests against those of the versions beside it, in the same window. Segments count in the
    baseline's proportions, so that another mix of requests is no loss. Exit codes as of `gate run`."""
    from ragtrace.cli.terminal import existing
    from ragtrace.cli.triage import window_of
    from ragtrace.gate.runs import chosen_policy, judge_live

    window, url = window_of(since, until), existing(store)
    report = judge_live(
        service,
        baseline,
        candidate,
        since=window.since,
        until=window.until,
        policy=chosen_policy(policy, seed),
        store=url,
    )
    _finish(report, output, store=store, keeper=url)


def _finish(report: GateReport, output: _Output, *, store: str | None, keeper: str | None) -> NoReturn:
    """Write, show and keep a report, and end with its exit code. keeper: the store that keeps it."""
    import msgspec

    report = report if output.texts else msgspec.structs.replace(report, questions=())
    printed = [_write(report, form, file) for form, file in output.forms.items()]
    if "-" not in printed:
        _show(report, output.every, store)
    if output.keep:
        _save(report, keeper)
    raise typer.Exit(report.exit_code)


def _check_output(printed: Sequence[Format]) -> None:
    """Standard output carries one document."""
    from ragtrace.errors import ConfigurationError

    if len(printed) > 1:
        both = " and ".join(f"--{form}" for form in printed)
        raise ConfigurationError(f"{both} would both be written to standard output; give all but one of them a file")


def _store(store: str | None, *selections: str) -> str | None:
    """The store to read and to write: the one that is named, else the default one where it is there already, or where
    a selection cannot do without it."""
    from ragtrace import config
    from ragtrace.cli.terminal import existing
    from ragtrace.gate.selection import parse
    from ragtrace.store import check

    if store is not None:
        return existing(store)
    sources = [parse("selection", each) for each in selections]
    if all(each.url or each.file for each in sources):
        url = config.load().store
        return url if check(url).current is not None else None
    return existing(None)


def _keeper(store: str | None, candidate: str, url: str | None) -> str | None:
    """The store that keeps the run: the one that is named, else the candidate's own, else the default one."""
    from ragtrace.gate.selection import parse

    return url if store is not None else parse("--candidate", candidate).url or url


def _write(report: GateReport, form: Format, file: str) -> str:
    from ragtrace.gate.reports import render

    return _put(render(report, form), form, file)


def _put(text: str, form: Format, file: str) -> str:
    """Write a document where it was asked for."""
    from ragtrace.errors import ConfigurationError

    if file == "-":
        typer.echo(text, nl=not text.endswith("\n"))
        return file
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot write {file!r}: {error.strerror}; give another --{form}") from error
    return file


def _show(report: GateReport, every: bool, store: str | None) -> None:
    from ragtrace.cli.terminal import shown
    from ragtrace.gate.reports import terminal

    console().print(terminal.render_report(report, every=every, store=shown(store) if store else None))


def _save(report: GateReport, url: str | None) -> None:
    from ragtrace.errors import StoreError
    from ragtrace.gate.runs import save
    from ragtrace.store import Store

    if url is None:
        console(stderr=True).print("note: this run is not kept, as there is no store; name one by --store")
        return
    try:
        with Store.open(url) as opened:
            save(opened, report)
    except StoreError as error:  # what was decided stands
        console(stderr=True).print(f"note: this run is not kept: {error}")


@app.command("label")
@_with_output
def label(
    run_id: Annotated[str, typer.Argument(help="An undecided run: its id, or as much of its beginning as is unique.")],
    questions: Annotated[
        int, typer.Option("--questions", min=1, help="How many questions to ask about, both answers of each.")
    ] = 20,
    labeler: LabelerOption = None,
    no_ask: Annotated[bool, typer.Option("--no-ask", help="Decide with the labels that are there.")] = False,
    store: StoreOption = None,
    *,
    output: _Output,
) -> None:
    """Ask a person about the questions that decide an undecided run, as `ragtrace label ask` does, and decide with what
    is said: the new run is kept beside the old one. With --json nobody is asked. Exit codes as of `gate run`."""
    from ragtrace.cli.terminal import existing
    from ragtrace.gate.labels import decide_with_labels, find_task
    from ragtrace.gate.runs import read_report
    from ragtrace.store import Store

    url = existing(store)
    with Store.open(url) as opened:
        task = find_task(read_report(opened, run_id), url)
        if not (no_ask or "json" in output.forms):
            _ask(opened, task, questions, labeler_name(labeler))
        report = decide_with_labels(task, task.labels(opened), url)
    _finish(report, output, store=store, keeper=url)


def _ask(store: Store, task: LabelTask, questions: int, labeler: str) -> None:
    """Ask about one request after the other; each answer is kept at once. Of which side it is, is not said."""
    waiting = task.requests(questions, task.labels(store), labeler)
    for number, request_id in enumerate(waiting, start=1):
        record = store.get_record(request_id)
        if record is None:
            continue
        console().rule(f"{number} of {len(waiting)}, labeler {labeler}")
        print_request(record, store.get_analysis(request_id))
        said = ask_label(record, labeler)
        if said == "quit":
            break
        if said is not None:
            store.put_labels([said])


@app.command("selfcheck")
def selfcheck(
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="SEL", help=f"{_SELECTION}.  [default: all requests of the store]"),
    ] = None,
    candidate: Annotated[
        str | None,
        typer.Option("--candidate", metavar="SEL", help="A second run of the same version: pairs are judged then."),
    ] = None,
    policy: PolicyOption = None,
    store: StoreOption = None,
    service: ServiceOption = None,
    runs: Annotated[int, typer.Option("--runs", min=20, max=100_000, help="How often the requests are split.")] = 1_000,
    seed: SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Split the baseline at random, again and again: how often would the policy block it against itself? With a second
    run of the same version, exchange the sides of its pairs instead."""
    from ragtrace.cli.terminal import existing
    from ragtrace.gate.runs import check_itself
    from ragtrace.types import to_builtins

    given = [each for each in (baseline, candidate) if each is not None]
    url = existing(store) if baseline is None else _store(store, *given)
    with progress() as bar:
        task = bar.add_task("splitting", total=runs)
        found = check_itself(
            baseline or str(url),
            candidate,
            policy=policy,
            store=url,
            service=service,
            seed=seed,
            runs=runs,
            progress=lambda done: bar.update(task, completed=done),
        )
    if as_json:
        print_json(to_builtins(found))
    else:
        from ragtrace.gate.reports.terminal import render_selfcheck

        console().print(render_selfcheck(found))


@app.command("compare")
def compare(
    before: Annotated[str, typer.Argument(metavar="A", help=f"The earlier side: {_SELECTION}.")],
    after: Annotated[str, typer.Argument(metavar="B", help="The later side, in the same form.")],
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="CHANGE",
            help="List only questions with this change: worse, better, answer, evidence, prompt; may be repeated.",
            show_default=False,
        ),
    ] = None,
    segment: Annotated[str | None, typer.Option("--segment", help="Only questions of this segment.")] = None,
    containing: Annotated[
        str | None, typer.Option("--question", metavar="WORDS", help="Only questions with these words.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="The most questions to list.")] = 20,
    markdown: Annotated[str | None, _file("markdown", "the comparison as Markdown")] = None,
    html: Annotated[str | None, _file("html", "the comparison as one HTML page")] = None,
    service: ServiceOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two replays question by question: the prompt, the evidence and the answer. It decides nothing."""
    from typing import cast

    from ragtrace.errors import ConfigurationError
    from ragtrace.gate.replay_diff import CHANGES, Change, diff_html, diff_markdown, diff_replays, render_diff
    from ragtrace.types import to_builtins

    for kind in only or ():
        if kind not in CHANGES:
            raise ConfigurationError.of("--only", kind, ", ".join(CHANGES))
    wanted: dict[Format, str | None] = {"json": "-" if as_json else None, "markdown": markdown, "html": html}
    _check_output([form for form, file in wanted.items() if file == "-"])
    found = diff_replays(
        before,
        after,
        store=_store(store, before, after),
        service=service,
        only=cast("Sequence[Change]", only or ()),
        segment=segment,
        containing=containing,
        limit=limit,
    )
    forms: dict[Format, Callable[[], str]] = {
        "markdown": lambda: diff_markdown(found),
        "html": lambda: diff_html(found),
    }
    for form, text in forms.items():
        if (file := wanted[form]) is not None:
            _put(text(), form, file)
    if as_json:
        print_json(to_builtins(found))
    elif "-" not in wanted.values():
        console().print(render_diff(found))


@app.command("list")
def list_(
    service: Annotated[str | None, typer.Option("--service", help="Only this service.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The most runs to show.")] = 50,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the runs that are in the store, newest first."""
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Store

    with Store.open(existing(store)) as opened:
        found = opened.gate_runs(service, limit=limit)
    if as_json:
        print_json({"runs": list(map(_plain, found))})
    elif found:
        print_table(_COLUMNS, map(_row, found))
    else:
        console().print("no run is kept yet: ragtrace gate run")


@app.command("show")
def show(
    run_id: Annotated[str, typer.Argument(help="A run's id, or as much of its beginning as is unique.")],
    form: Annotated[str, typer.Option("--format", help="text, markdown, junit or html.", show_default=True)] = "text",
    every: EveryOption = False,
    no_texts: NoTextsOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a stored run again."""
    from ragtrace.cli.terminal import existing
    from ragtrace.errors import ConfigurationError
    from ragtrace.gate import reports
    from ragtrace.gate.question_pairs import with_questions
    from ragtrace.gate.runs import read_report
    from ragtrace.store import Store

    if form not in _PRINTED:
        raise ConfigurationError.of("--format", form, ", ".join(_PRINTED))
    if as_json and form != "text":
        raise ConfigurationError(f"--json and --format {form} are two formats; give one")
    url = existing(store)
    with Store.open(url) as opened:
        report = read_report(opened, run_id)
    report = report if no_texts else with_questions(report, url)
    if form == "text" and not as_json:
        _show(report, every, store)
    else:
        chosen: Format = "json" if as_json else form  # type: ignore[assignment]  # one of its words
        typer.echo(reports.render(report, chosen).rstrip("\n"))


@app.command("policy")
def policy_() -> None:
    """Print the default policy, with what each line means: the beginning of a gate.yaml."""
    from ragtrace.gate.policy import example

    typer.echo(example(), nl=False)


def _row(run: GateRun) -> tuple[str, ...]:
    return (
        run.run_id[:12],
        shown_time(run.created_at),
        run.service or "-",
        run.decision,
        run.first_broken or "-",
        run.baseline,
        run.candidate,
    )


def _plain(run: GateRun) -> Mapping[str, Any]:
    return {
        "run_id": run.run_id,
        "at": written_time(run.created_at),
        "service": run.service or None,
        "decision": run.decision,
        "first_broken": run.first_broken,
        "baseline": run.baseline,
        "candidate": run.candidate,
        "versions": [f"{component}={version}" for component, version in run.versions],
    }
