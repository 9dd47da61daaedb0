"""The demo's run: every question through every scenario, recorded, stored, analyzed, and compared with the truth.

The analyzer is a worker process of its own beside the pipeline, as in production.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import ragtrace
from ragtrace.analyze import analyze_record
from ragtrace.analyze.worker import finish
from ragtrace.config import variable
from ragtrace.demo._assistant import AnsweredQuestion, Components, PolicyAssistant
from ragtrace.demo._corpus import DocumentSection, Question, load_corpus, load_questions
from ragtrace.demo._faults import SCENARIOS, Scenario, find_scenario, judge
from ragtrace.demo._generation import BudgetPacker, ExtractiveAnswerer, Generator, LanguageModelAnswerer
from ragtrace.demo._retrieval import (
    CrossEncoderReranker,
    DenseIndex,
    Embed,
    FusionReranker,
    Reranker,
    Retriever,
    VerbatimRewriter,
)
from ragtrace.demo.report import DemoResult, FaultCase, ScenarioResult, summarize
from ragtrace.engines.causal_lm import CausalLM
from ragtrace.engines.encoder import CrossEncoder, Encoder, packaged_encoder
from ragtrace.errors import StoreError
from ragtrace.store import Store, check
from ragtrace.types import Analysis

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["SERVICE", "build_components", "finish_analysis", "run", "tracer_provider", "worker_process"]

SERVICE: Final = "policy-assistant"
INDEX_VERSION: Final = "wordings-2025.01"
_FLUSH_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 30.0


def run(
    scenarios: Sequence[str] = (),
    store_url: str = "sqlite:///ragtrace.db",
    generator: str | None = None,
    progress: Progress | None = None,
    *,
    reranker: str | None = None,
    questions: Sequence[Question] | None = None,
    chunks: Sequence[DocumentSection] | None = None,
    tells: bool = False,
) -> DemoResult:
    """Run the named scenarios (all by default) and compare ragtrace's diagnoses with what the faults really did.

    generator, reranker: a causal language model and a cross-encoder by folder or Hugging Face name, in place of the
    extractive answerer and of the fusion of BM25 and dense scores. questions, chunks: all of the demo's by default.
    tells: a line on stderr for each step of the run that has ended.
    The healthy scenario always runs, since it is what the truth is told by; it is listed when it was asked for.
    Raises: ConfigurationError, ModelError, MissingExtraError, StoreError.
    """
    started = time.perf_counter()
    wanted = [find_scenario(name) for name in dict.fromkeys(scenarios)] or list(SCENARIOS)
    asked = load_questions() if questions is None else questions
    corpus = load_corpus().chunks if chunks is None else chunks
    todo = [SCENARIOS[0], *(scenario for scenario in wanted if scenario != SCENARIOS[0])]
    check(store_url)  # says at once what is wrong with a store that is there
    steps = _Steps(len(todo) + 2 if tells else 0)
    with _bar(progress) as bar:
        components = build_components(corpus, generator=generator, reranker=reranker, progress=bar)
        steps.end(bar, f"{len(corpus):,} chunks embedded")
    with _bar(progress) as bar, Store.open(store_url) as store:
        store.put_gold(question.gold(SERVICE) for question in asked)
        with worker_process(store_url):
            outcomes = _record(todo, components, asked, store_url, bar, steps)
            runs = [_Run(scenario, outcomes[scenario.name], store) for scenario in wanted]
            for each in runs:
                each.analyze_without_gold(bar)
            finish_analysis(store, bar)
            steps.end(bar, "all requests analyzed")
        summaries = [each.compare(asked, outcomes["healthy"]) for each in runs]
    return DemoResult(
        store_url=store_url,
        service=SERVICE,
        documents=len({chunk.doc_id for chunk in corpus}),
        chunks=len(corpus),
        scenarios=tuple(summaries),
        seconds=time.perf_counter() - started,
    )


def build_components(
    chunks: Sequence[DocumentSection],
    *,
    generator: str | None = None,
    reranker: str | None = None,
    progress: Progress | None = None,
    embed: Embed | None = None,
) -> Components:
    """The healthy pipeline: models loaded, `chunks` embedded (by `embed`, else by the encoder) and indexed."""
    # Read when torch is first loaded: by default its idle threads spin for milliseconds, which made the embedding many
    # times slower where another process wanted the processors.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    with _bar(progress) as bar:
        loading = bar.add_task("loading the models", total=None)
        answerer: Generator = LanguageModelAnswerer(CausalLM.load(generator)) if generator else ExtractiveAnswerer()
        encoder = Encoder.load(packaged_encoder())
        scorer = CrossEncoder.load(reranker) if reranker else None
        bar.remove_task(loading)
        embedding = bar.add_task(f"embedding {len(chunks):,} chunks", total=len(chunks))
        index = DenseIndex.build(chunks, encoder, INDEX_VERSION, lambda done: bar.advance(embedding, done), embed)
    retriever = Retriever(encoder, index)
    ranking: Reranker = CrossEncoderReranker(scorer) if scorer else FusionReranker(retriever)
    return Components(VerbatimRewriter(), retriever, ranking, BudgetPacker(encoder), answerer)


def _record(
    scenarios: Sequence[Scenario],
    components: Components,
    questions: Sequence[Question],
    store_url: str,
    bar: Progress,
    steps: _Steps,
) -> dict[str, list[AnsweredQuestion]]:
    ragtrace.configure(
        build="host",
        service=SERVICE,
        store=store_url,
        enabled=True,
        sample_rate=1.0,
        capture_content="full",
        tracer_provider=tracer_provider(),
    )
    outcomes: dict[str, list[AnsweredQuestion]] = {}
    try:
        for scenario in scenarios:
            task = bar.add_task(f"{scenario.name}: {len(questions)} questions", total=len(questions))
            running = scenario.inject(components)
            running.retriever.know([running.rewriter.rewrite(question.text) for question in questions])
            assistant = PolicyAssistant(running)
            outcomes[scenario.name] = []
            for question in questions:
                outcomes[scenario.name].append(
                    assistant.ask(question.text, query_class=question.query_class, facets=question.facets)
                )
                bar.advance(task)
            ragtrace.flush(timeout=_FLUSH_SECONDS)
            steps.end(bar, f"{scenario.name}: {len(questions)} questions asked and recorded")
    finally:
        ragtrace.shutdown(timeout=_FLUSH_SECONDS)
    return outcomes


class _Steps:
    """Says of each step that ended which one it was, of how many, and its seconds; of 0 steps nothing."""

    def __init__(self, number: int) -> None:
        self._number, self._ended, self._at = number, 0, time.perf_counter()

    def end(self, bar: Progress, what: str) -> None:
        """A step has ended."""
        now, self._ended = time.perf_counter(), self._ended + 1
        if self._number:
            line = f"{self._ended}/{self._number}  {what} ({now - self._at:.0f} s)"
            bar.console.print(line, markup=False, highlight=False)
        self._at = now


class _Run:
    """One scenario's requests as they came back from the store."""

    def __init__(self, scenario: Scenario, outcomes: Sequence[AnsweredQuestion], store: Store) -> None:
        self._scenario = scenario
        self._outcomes = outcomes
        self._store = store
        self._records = store.get_records([outcome.request_id for outcome in outcomes])
        self._proxies: dict[str, Analysis] = {}

    def analyze_without_gold(self, bar: Progress) -> None:
        """Analyze every request a second time as if no oracle evidence were known."""
        releases = self._store.releases(SERVICE)
        task = bar.add_task(f"{self._scenario.name}: without the oracle", total=len(self._records))
        for request_id, record in self._records.items():
            self._proxies[request_id] = analyze_record(record, None, releases)
            bar.advance(task)

    def compare(self, questions: Sequence[Question], healthy: Sequence[AnsweredQuestion]) -> ScenarioResult:
        """Tell truth from the outcomes and hold the stored diagnoses against it."""
        cases = [
            self._case(question, before, after)
            for question, before, after in zip(questions, healthy, self._outcomes, strict=True)
        ]
        return summarize(self._scenario.name, self._scenario.brief, cases)

    def _case(self, question: Question, before: AnsweredQuestion, after: AnsweredQuestion) -> FaultCase:
        record, analysis = self._records.get(after.request_id), self._store.get_analysis(after.request_id)
        if record is None or analysis is None:
            raise StoreError(
                f"request {after.request_id!r} of the demo is not in {self._store.url} with its analysis; "
                "run `ragtrace doctor` with the same --store"
            )
        return FaultCase(record, judge(question, before, after), analysis, self._proxies[after.request_id])


def tracer_provider() -> Any:
    """A tracer provider of the SDK where it is installed, so that requests have trace ids; None otherwise."""
    try:
        from opentelemetry.sdk.trace import TracerProvider
    except ImportError:
        return None
    return TracerProvider()


@contextmanager
def _bar(given: Progress | None) -> Iterator[Progress]:
    """The caller's progress bar, or one of our own on stderr that is silent when stderr is no terminal."""
    from rich.console import Console
    from rich.progress import Progress

    if given is not None:
        yield given
        return
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        yield bar


@contextmanager
def worker_process(store_url: str) -> Iterator[None]:
    """`ragtrace analyze --follow` runs inside of the block. The URL goes by environment: it may hold a password."""
    command = [sys.executable, "-m", "ragtrace", "analyze", "--follow"]
    silent = subprocess.DEVNULL
    environment = {**os.environ, variable("store"): store_url}
    process = subprocess.Popen(command, env=environment, stdin=silent, stdout=silent, stderr=silent)
    try:
        yield
    finally:
        process.terminate()  # it commits the batch at hand first
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def finish_analysis(store: Store, bar: Progress) -> None:
    """Help the other worker until no job of the queue is pending or leased, dead workers' leases included."""
    task = bar.add_task("analyzing", total=None)
    finish(store, lambda done, of: bar.update(task, description=f"analyzing {of} requests", completed=done, total=of))
