"""Runs a replay: what is left to ask, asking it, and the analysis of what was recorded.

A run may be killed at any moment: each answered question is on disk when its call returns, and `resume` asks the rest.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

import ragtrace
from ragtrace.analyze.finishing import finish
from ragtrace.config import load
from ragtrace.errors import ConfigurationError
from ragtrace.gate.replay.alone import alone
from ragtrace.gate.replay.asking import Asked, Settings, Task, ask_all
from ragtrace.gate.replay.pipelines import Pipeline, load_pipeline
from ragtrace.gate.replay.questions import Question
from ragtrace.privacy import Capture
from ragtrace.record import active, held
from ragtrace.store import Replayed, Store

__all__ = ["Again", "Progress", "ReplaySummary", "check_options", "replay"]

Again: TypeAlias = Literal["no", "resume", "restart"]
"""What to do with a run that is in the store already: refuse, ask what is missing or failed, or ask all anew."""

_NAME: Final = re.compile(r"[A-Za-z0-9._/@+:-]{1,100}")
_FLUSH_SECONDS: Final = 60.0
_NEEDED: Final = ("query", "chunks", "answer")
_GIVE_UP: Final = 5  # failures in a row from the start, after which nothing else is asked
_NO_STAGE: Final = 3  # answers without any stage from the start


class Progress(Protocol):
    """Is told how far a replay is."""

    def asked(self, done: int, of: int, failed: int) -> None:
        """So many questions are through."""

    def analyzed(self, done: int, of: int) -> None:
        """So many requests are analyzed."""


class ReplaySummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay did. skipped: questions that the run had answered before; repeated: needed more than one attempt;
    not_asked: were left out after the first ones all failed; unstored: wait in the spool; unanalyzed: None where no
    analysis was asked for."""

    run: str
    service: str
    store: str
    questions: int
    skipped: int
    answered: int
    failed: int
    repeated: int
    not_asked: int
    failures: dict[str, str]  # question id -> what the last attempt raised
    has_versions: bool
    hidden: tuple[str, ...]  # content that the application does not capture, and that the metrics need
    unstored: int
    unanalyzed: int | None
    seconds: float


def check_options(run: str, timeout: float | None) -> None:
    """Raises: ConfigurationError for a name that no selection could name, and a time that is none."""
    if not _NAME.fullmatch(run):
        raise ConfigurationError.of("name", run, "1 to 100 letters, digits and . _ - / @ + :, no space and no &")
    if timeout is not None and not (timeout > 0 and isfinite(timeout)):
        raise ConfigurationError.of("timeout", timeout, "seconds above 0")


def replay(
    questions: Sequence[Question],
    pipeline: str,
    run: str,
    store_url: str,
    *,
    service: str | None = None,
    again: Again = "no",
    concurrency: int = 1,
    retries: int = 2,
    timeout: float | None = None,
    backoff: float = 1.0,
    analyze: bool = True,
    progress: Progress | None = None,
) -> ReplaySummary:
    """Ask the questions by `pipeline` (`module:function`), record them all as `run`, and analyze them.

    backoff: seconds before a failed question is asked again, doubled with each further time.
    Whatever the application gives to `ragtrace.configure`, it records into this store and samples all requests.

    Raises: ConfigurationError for a pipeline that cannot be used, records no stage, or a run that is there already, or
        is being replayed by another process; StoreError.
    """
    started = time.perf_counter()
    settings: dict[str, Any] = {"store": store_url, "sample_rate": 1.0, "enabled": True}
    if service is not None:
        settings["service"] = service
    with Store.open(store_url) as store, alone(store, run), held(**settings):
        function = _loaded(pipeline, settings)
        try:
            name = _service()
            known = {row.question: row for row in store.replayed(run)}  # the last attempt at each
            tasks = _left(run, store.url, known, questions, again)
            _put_gold(store, name, questions)
            tally = _ask(
                tasks, function, Settings(run, concurrency, retries, timeout, backoff), pipeline, known, progress
            )
            hidden = _hidden()
            of_run = tally.service or next((row.service for row in known.values()), name)
            if of_run != name:  # the application says so only when it is asked
                name = of_run
                _put_gold(store, name, questions)
        finally:
            is_stored = ragtrace.shutdown(timeout=_FLUSH_SECONDS)
        unstored = 0 if is_stored else len(_missing(store, run, tally.asked))
        left = None
        if analyze:
            left = finish(store, progress.analyzed if progress else _untold, load().low_score)
    return ReplaySummary(
        run=run,
        service=name,
        store=store.url,
        questions=len(questions),
        skipped=len(questions) - len(tasks),
        answered=len(tally.asked) - len(tally.failures),
        failed=len(tally.failures),
        repeated=tally.repeated,
        not_asked=len(tasks) - len(tally.asked),
        failures=tally.failures,
        has_versions=tally.has_versions or not tally.asked,
        hidden=hidden,
        unstored=unstored,
        unanalyzed=left,
        seconds=time.perf_counter() - started,
    )


def _untold(done: int, of: int) -> None:
    """Nobody watches."""


def _loaded(pipeline: str, settings: dict[str, Any]) -> Pipeline:
    """The application's function, with a recorder that has these settings, its own or ours."""
    function = load_pipeline(pipeline)
    recorder = active()
    if recorder is None or any(getattr(recorder.config, name) != value for name, value in settings.items()):
        ragtrace.configure()
    ragtrace.flush(_FLUSH_SECONDS)  # what a killed run has left in the spool is in the store then
    return function


def _service() -> str:
    recorder = active()
    assert recorder is not None
    return recorder.config.service


def _hidden() -> tuple[str, ...]:
    recorder = active()
    capture = recorder.config.capture_content if recorder is not None else Capture()
    return tuple(field for field in _NEEDED if getattr(capture, field) in ("off", "hash"))


def _put_gold(store: Store, service: str, questions: Iterable[Question]) -> None:
    store.put_gold(question.as_gold(service) for question in questions if question.gold or question.facets)


def _left(
    run: str, store_url: str, known: Mapping[str, Replayed], questions: Sequence[Question], again: Again
) -> list[Task]:
    """What is to be asked. A run holds no question that the file has not."""
    strange = sorted(known.keys() - {question.id for question in questions})
    if known and again == "no":
        raise ConfigurationError(
            f"run {run!r} is in store {store_url} already, with {len(known)} questions; go on with it (--resume), ask "
            "all again (--restart), or give another --name"
        )
    if strange:
        raise ConfigurationError(
            f"run {run!r} holds {len(strange)} questions that are not in the file ({', '.join(strange[:3])} ...); give "
            "another --name"
        )
    tasks = [Task(question, known[question.id].attempt + 1 if question.id in known else 1) for question in questions]
    if again == "restart":
        return tasks
    return [task for task in tasks if task.attempt == 1 or known[task.question.id].status != "ok"]


@dataclass(slots=True)
class _Tally:
    """What came of the questions that were asked."""

    asked: list[str]
    failures: dict[str, str]
    service: str | None = None
    repeated: int = 0
    stages: int = 0
    has_versions: bool = False

    def add(self, asked: Asked) -> None:
        """Count one."""
        self.asked.append(asked.question.id)
        self.service = asked.service
        if asked.failure is not None:
            self.failures[asked.question.id] = asked.failure
        self.repeated += asked.attempts > 1
        self.stages += asked.stages
        self.has_versions |= asked.has_versions

    @property
    def is_hopeless(self) -> bool:
        """Whether the first questions have all failed."""
        return len(self.failures) == len(self.asked) >= _GIVE_UP

    def has_no_stage(self, *, at_end: bool) -> bool:
        """Whether questions were answered and nothing of how was recorded."""
        answered = len(self.asked) - len(self.failures)
        return not self.stages and answered >= (1 if at_end else _NO_STAGE)


def _ask(
    tasks: Sequence[Task],
    function: Pipeline,
    settings: Settings,
    pipeline: str,
    known: Mapping[str, Replayed],
    progress: Progress | None,
) -> _Tally:
    tally = _Tally([], {})
    services = {row.service for row in known.values()}
    for asked in ask_all(tasks, function, settings):
        tally.add(asked)
        if services - {asked.service}:
            raise ConfigurationError(
                f"run {settings.run!r} is one of service {min(services - {asked.service})!r}, not of "
                f"{asked.service!r}; give another --name"
            )
        services.add(asked.service)
        if progress is not None:
            progress.asked(len(tally.asked), len(tasks), len(tally.failures))
        if tally.has_no_stage(at_end=len(tally.asked) == len(tasks)):
            raise ConfigurationError(
                f"pipeline {pipeline!r} answered {len(tally.asked)} and recorded no stage; decorate its functions "
                "(@ragtrace.retrieve, @ragtrace.generate ...) or call ragtrace.instrument(...), then --restart"
            )
        if tally.is_hopeless:
            break
    return tally


def _missing(store: Store, run: str, asked: Iterable[str]) -> set[str]:
    return set(asked) - {row.question for row in store.replayed(run)}
