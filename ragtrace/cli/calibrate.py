"""`ragtrace calibrate`: fits by which lines a service is judged, on its own requests; lists and accepts them."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, option, print_json, print_table
from ragtrace.formats import TIMES, shown_time

if TYPE_CHECKING:
    from ragtrace.analyze.worker import WorkerSettings
    from ragtrace.store import ServiceCalibration

__all__ = ["calibrate"]

_COLUMNS: Final = ("calibration", "service", "judge", "state", "fitted on", "blames", "names", "named in shadow")


def calibrate(
    service: Annotated[
        str | None, typer.Option("--service", help="The service, as it was recorded.", show_default=False)
    ] = None,
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help=f"Fit on requests from then on: {TIMES}.")
    ] = "7d",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help=f"Until when: {TIMES}.")] = "now",
    requests: Annotated[
        int | None,
        typer.Option("--requests", min=200, help="Judge so many requests as they are, at most.  [default: 500]"),
    ] = None,
    judge: Annotated[list[str] | None, option("judge", metavar="ROLE=MODEL")] = None,
    judge_calibration: Annotated[list[str] | None, option("judge_calibration", metavar="ROLE=FILE")] = None,
    judge_tokens: Annotated[int | None, option("judge_tokens", min=0)] = None,
    verifier: Annotated[str | None, option("verifier", metavar="MODEL")] = None,
    embeddings: Annotated[str | None, option("embeddings", metavar="MODEL")] = None,
    entities: Annotated[str | None, option("entities", metavar="PIPELINE")] = None,
    accept: Annotated[
        str | None,
        typer.Option("--accept", metavar="ID", help="Judge by a calibration that was a day in shadow, from now on."),
    ] = None,
    reject: Annotated[
        str | None, typer.Option("--reject", metavar="ID", help="Delete a calibration that is in shadow.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the calibrations, and change nothing.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fit by which lines a service is judged, on its own requests.

    They are taken as they are, and as copies that are broken on purpose. What is fitted runs in shadow until it is
    accepted. Give the models that `ragtrace analyze` is given.
    """
    from ragtrace.cli.terminal import existing
    from ragtrace.cli.triage import window_of
    from ragtrace.errors import ConfigurationError
    from ragtrace.store import Store
    from ragtrace.triage.calibration import MOST, accept_calibration, propose_calibration, reject_calibration

    if sum((accept is not None, reject is not None, listed)) > 1:
        raise ConfigurationError("give one of --accept, --reject and --list")
    with Store.open(existing(store)) as opened:
        if listed:
            _print_all(opened.calibrations(None if service is None else [service]), as_json)
        elif accept is not None:
            _print_one(accept_calibration(opened, accept), "judges from now on", as_json)
        elif reject is not None:
            _print_one(reject_calibration(opened, reject), "is deleted", as_json)
        elif service is None:
            raise ConfigurationError("give --service S, as it was recorded; ragtrace doctor lists the services")
        else:
            settings = _settings(judge, judge_calibration, judge_tokens, verifier, embeddings, entities)
            window = window_of(since, until)
            found = propose_calibration(opened, service, window, settings, most=requests or MOST)
            _print_one(found, _next(found), as_json)


def _settings(
    judge: list[str] | None,
    judge_calibration: list[str] | None,
    judge_tokens: int | None,
    verifier: str | None,
    embeddings: str | None,
    entities: str | None,
) -> WorkerSettings:
    """What judges, as `ragtrace analyze` would with the same options."""
    from ragtrace.analyze.worker import WorkerSettings
    from ragtrace.engines.model_names import as_calibrations, as_judges, load_judges
    from ragtrace.engines.model_server import Budget
    from ragtrace.errors import ConfigurationError

    named = as_judges(judge or ())
    if verifier and "entails" in named:
        raise ConfigurationError("--verifier and --judge entails=MODEL both judge claims; give one of them")
    if verifier:
        named["entails"] = verifier
    files, budget = as_calibrations(judge_calibration or ()), Budget(tokens_per_hour=judge_tokens)
    judges = load_judges(named, budget=budget, calibrations=files)
    first = None
    if embeddings:
        from ragtrace.engines.verifier import EmbeddingVerifier

        first = EmbeddingVerifier.load(embeddings)
    reader = None
    if entities:
        from ragtrace.engines.spacy_pipelines import EntityReader

        reader = EntityReader.load(entities)
    return WorkerSettings(
        verifier=judges.entails,
        relevance=judges.relevant,
        answers=judges.answers,
        embeddings=first,
        entities=reader,
    )


def _next(found: ServiceCalibration) -> str:
    from ragtrace.triage.calibration import DAY

    return (
        f"runs in shadow until {shown_time(found.created_at + DAY)}, and changes no verdict before "
        f"ragtrace calibrate --accept {found.calibration_id}"
    )


def _document(found: ServiceCalibration) -> dict[str, Any]:
    from ragtrace.triage import calibration_words

    return {**asdict(found), "promise": calibration_words(found)}


def _print_one(found: ServiceCalibration, what: str, as_json: bool) -> None:
    from ragtrace.analyze.service_calibration import ENOUGH_SOUND
    from ragtrace.triage import calibration_words, share_words, stage_words

    if as_json:
        print_json(_document(found))
        return
    out = console()
    for line in (
        f"calibration {found.calibration_id} of {found.service}, judged by {found.models or 'words alone'}: {what}",
        f"on this service: {calibration_words(found)}",
        f"named of injected losses: {stage_words(found) or 'none'}",
        f"share of broken requests: {share_words(found, ENOUGH_SOUND)}",
        f"lines: {_lines(found)}",
    ):
        out.print(line, soft_wrap=True)


def _lines(found: ServiceCalibration) -> str:
    """What became of the lines that all services have."""
    moved = [
        f"{rule} proves nothing" if line is None else f"{rule} {line:+.2f}"
        for rule, line in found.raised.items()
        if line != 0
    ]
    return f"{', '.join(moved)} (log odds)" if moved else "those that all services have"


def _print_all(found: list[ServiceCalibration], as_json: bool) -> None:
    if as_json:
        print_json({"calibrations": [_document(each) for each in found]})
    elif not found:
        console().print("nothing is calibrated yet: ragtrace calibrate --service S")
    else:
        now = time.time_ns()
        print_table(_COLUMNS, [_row(each, now) for each in found])


def _row(found: ServiceCalibration, now: int) -> tuple[str, ...]:
    from ragtrace.triage import stage_words
    from ragtrace.triage.calibration import DAY

    is_ripe = found.state == "shadow" and now >= found.created_at + DAY
    shadow = found.shadow
    return (
        found.calibration_id,
        found.service,
        found.models or "words",
        f"{found.state}, can be accepted" if is_ripe else f"{found.state}{'' if found.is_current else ', outdated'}",
        f"{found.requests} requests until {shown_time(found.until)}",
        f"at most {found.blamed:.1%} ({found.blamed_high:.1%})",
        stage_words(found),
        f"{shadow.shadow_named} of {shadow.requests}, {shadow.named} at work" if shadow.requests else "–",
    )
