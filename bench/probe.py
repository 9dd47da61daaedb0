"""How often a probe of the index names the right cause of lost evidence, and how often it blames a sound retrieval.

The passages of all given domains stand in one FAISS index, which is asked with the real embeddings. Of each question,
requests are made in which the retrieval is sound and in which it lost the evidence: the approximate search had too few
probes, a filter removed it, it was never indexed, the depth was too shallow. Each is judged without a probe and with
one, without gold evidence and with it.

Usage: python bench/probe.py [--domains NAME ...] [--held-out] [--questions N] [--examples N]
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path as File
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(File(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.datasets import DATA
from bench.verdicts import published
from bench.verdicts.handwritten import DOMAINS, read_domains
from bench.verdicts.model import Domain, Hit, Path, Question, Setup
from bench.verdicts.pipeline import Index, asked_of, bare, holds_answer, index_of, lost_groups, pack
from bench.verdicts.recording import SERVICE, record_of
from ragtrace.analyze import ServiceView, examine
from ragtrace.analyze.analysis import with_probe
from ragtrace.analyze.probe_schedule import is_suspected, probed
from ragtrace.coverage import Background
from ragtrace.engines.faiss_index import FaissProbe
from ragtrace.engines.models import load_package
from ragtrace.types import Analysis, Gold, RequestRecord

DEPTHS: Final = (1, 3, 5, 10)
LIST: Final = 8  # passages in one of the IVF index's lists, of which one list is searched
SHALLOW: Final = (1, 2)  # depths at which the evidence may be found too deep
PACKED: Final = 5
CAUSES: Final = ("missed_by_search", "filtered", "not_indexed", "below_depth")


class Request(NamedTuple):
    """A request, why its retrieval lost the evidence (None: it did not), and the probe of its index."""

    domain: str
    question: Question
    record: RequestRecord
    cause: str | None
    probe: FaissProbe
    lost: tuple[str, ...]


class Corpus:
    """All domains' passages in one index."""

    def __init__(self, domains: Sequence[Domain]) -> None:
        self.passages = {name: passage for domain in domains for name, passage in domain.passages.items()}
        self.ids = list(self.passages)
        self.vectors = np.concatenate([index_of(domain)._vectors for domain in domains])
        self.whole = Domain("all", self.passages, (), "handwritten")
        self.indexes = {domain.name: index_of(domain) for domain in domains}
        texts = {name: passage.chunk for name, passage in self.passages.items()}
        self.texts = texts
        self.background = Background.of(texts.values())
        faiss = load_package("faiss", package="faiss-cpu")
        dimension = self.vectors.shape[1]
        self.flat = faiss.IndexFlatIP(dimension)
        self.flat.add(self.vectors)
        lists = max(2, len(self.ids) // LIST)
        self.ivf = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimension), dimension, lists, faiss.METRIC_INNER_PRODUCT)
        self.ivf.cp.min_points_per_centroid = 1
        self.ivf.train(self.vectors)
        self.ivf.add(self.vectors)
        self.ivf.nprobe = 1

    def probe(self, index: Any, encode: Callable[[str], NDArray[np.float32]], **given: Any) -> FaissProbe:
        """A probe of one of the indexes."""
        return FaissProbe(index, encode, ids=self.ids, texts=self.texts, version="passages-1", **given)

    def without(self, gone: frozenset[str]) -> Any:
        """The exact index without some passages; FAISS's numbers stay."""
        faiss = load_package("faiss", package="faiss-cpu")
        kept = np.array([place for place, name in enumerate(self.ids) if name not in gone])
        index = faiss.IndexIDMap(faiss.IndexFlatIP(self.vectors.shape[1]))
        index.add_with_ids(self.vectors[kept], kept)
        return index


def main() -> None:
    """Print the figures."""
    options = _options()
    domains = list(_domains(options))
    if not domains:
        sys.exit("no domain was found; give --domains names of bench/domains, or of published sets")
    started = time.perf_counter()
    corpus = Corpus(domains)
    results: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    by_domain: dict[str, Counter[str]] = defaultdict(Counter)
    shown = 0
    for request in _requests(domains, corpus, options.questions, options.seed):
        without, found = _judged(request, corpus, gold=False)
        told = _told(found)
        results["without gold evidence", request.cause or "sound"][told] += 1
        results["without a probe", request.cause or "sound"][_told(without)] += 1
        if request.cause is None:
            by_domain[request.domain][told] += 1
        if request.cause is not None:
            results["with gold evidence", request.cause][_told(_judged(request, corpus, gold=True)[1])] += 1
        wrong = told in CAUSES and told != request.cause
        if wrong and shown < options.examples:
            shown += 1
            _show(request, found)
    _report(results, by_domain)
    print(f"{len(corpus.ids)} passages, {time.perf_counter() - started:.0f} s", file=sys.stderr)


def _domains(options: Any) -> Iterator[Domain]:
    names = options.domains or ()
    for domain in read_domains(DOMAINS, held_out=options.held_out):
        if (not names or domain.name in names) and domain.held_out == options.held_out:
            yield domain
    for name in published.PUBLISHED:
        if name in names:
            yield from published.read_published(name, DATA)


def _requests(domains: Sequence[Domain], corpus: Corpus, most: int | None, seed: int) -> Iterator[Request]:
    for domain in domains:
        index = corpus.indexes[domain.name]
        asked = [question for question in domain.questions if question.evidence and question.answers]
        for place, question in enumerate(random.Random(f"{seed}:{domain.name}").sample(asked, len(asked))[:most]):
            rng = random.Random(f"{seed}:{domain.name}:{question.id}")
            yield from _of_question(domain, index, question, DEPTHS[place % len(DEPTHS)], corpus, rng)


def _of_question(
    domain: Domain, index: Index, question: Question, depth: int, corpus: Corpus, rng: random.Random
) -> Iterator[Request]:
    """The request as it is by an exact index, by an approximate one, behind a filter, and without its passages."""

    def made(probe: FaissProbe, cause: str | None, depth: int) -> Iterator[Request]:
        found = probe.probe(asked_of(question), depth, False)
        hits = tuple(Hit(each.chunk_id, round(each.score or 0.0, 4)) for each in found)
        lost = lost_groups(question, hits)
        if bool(lost) != (cause is not None):
            return
        if lost and any(hit.id in domain.passages and holds_answer(hit.id, question, domain) for hit in hits):
            return  # something else may answer it: nobody knows what is right
        record = _record(domain, question, depth, hits, corpus, rng, is_sound=not lost)
        yield Request(domain.name, question, record, cause, probe, tuple(min(group) for group in lost))

    encode, asked = index._vector, asked_of(question)
    needed = index.duplicates(frozenset().union(*question.evidence))
    exact = corpus.probe(corpus.flat, encode)
    for shallow in SHALLOW:
        yield from made(exact, "below_depth", shallow)
    near = [each.chunk_id for each in exact.probe(asked, depth, False)]
    if lost_groups(question, [Hit(name, 0.0) for name in near]):
        return
    yield from made(exact, None, depth)
    approximate = corpus.probe(corpus.ivf, encode)
    yield from made(approximate, "missed_by_search", depth)
    yield from made(approximate, None, depth)
    yield from made(corpus.probe(corpus.flat, encode, passes=lambda name: name not in needed), "filtered", depth)
    misses = frozenset(near) - needed  # a filter that is right leaves out what resembles the evidence
    yield from made(corpus.probe(corpus.flat, encode, passes=lambda name: name not in misses), None, depth)
    yield from made(corpus.probe(corpus.without(needed), encode), "not_indexed", depth)


def _record(
    domain: Domain,
    question: Question,
    depth: int,
    hits: Sequence[Hit],
    corpus: Corpus,
    rng: random.Random,
    *,
    is_sound: bool,
) -> RequestRecord:
    answer = bare(rng.choice(question.answers), domain)
    if not is_sound:
        answer = (question.misled and question.misled.answer) or question.refusal or "I could not find this."
    packed, dropped = pack(corpus.whole, hits, PACKED)
    asked = asked_of(question)
    path = Path(
        domain="all",
        question=question,
        setup=Setup(depth, PACKED),
        candidates=tuple(hits),
        reranked=None,
        packed=packed,
        answer=bare(answer, domain),
        dropped=dropped,
        rewritten=None if asked == question.question else asked,
        versions={"index": "passages-1", "retriever": "dense-1"},
    )
    return record_of(path, corpus.whole)


def _judged(request: Request, corpus: Corpus, *, gold: bool) -> tuple[Analysis, Analysis]:
    """The analysis without a probe and with it."""
    view = ServiceView(background=corpus.background)
    needed = tuple(min(group) for group in request.question.evidence)
    evidence = Gold(service=SERVICE, question=request.question.question, chunk_ids=needed) if gold else None
    analysis, case = examine(request.record, evidence, service=view)
    if is_suspected(analysis) is None:
        return analysis, analysis
    found = probed(request.probe, request.record, analysis, view)
    return analysis, with_probe(request.record, analysis, case, found)


def _told(analysis: Analysis) -> str:
    """The cause where retrieval is broken, else its state."""
    state = analysis.diagnosis.state("retrieval") or "none"
    if state == "broken":
        return (analysis.probe.cause if analysis.probe else None) or "broken, no cause"
    reason = next((each.reason for each in analysis.diagnosis.stages if each.stage == "retrieval"), None)
    return "suspected, corpus_gap" if reason == "corpus_gap" else state


def _report(results: dict[tuple[str, str], Counter[str]], by_domain: dict[str, Counter[str]]) -> None:
    for judged in ("without a probe", "without gold evidence", "with gold evidence"):
        print(f"\n{judged}")
        for (how, truth), counts in sorted(results.items()):
            if how == judged:
                total = counts.total()
                right = counts[truth] / total
                blamed = sum(counts[cause] for cause in (*CAUSES, "broken, no cause") if cause != truth)
                said = ", ".join(f"{name} {count}" for name, count in counts.most_common())
                print(f"  {truth:18} n {total:5}  right {right:6.1%}  other cause {blamed / total:6.1%}  {said}")
    print("\nsound requests blamed, by domain")
    for domain, counts in sorted(by_domain.items()):
        blamed = sum(counts[cause] for cause in CAUSES)
        print(f"  {domain:12} {blamed:3} of {counts.total():4}  {blamed / counts.total():6.2%}")


def _show(request: Request, analysis: Analysis) -> None:
    print(f"\n[{request.domain}] truth {request.cause}: {request.question.question}")
    for group in request.question.evidence:
        print("  needed:", sorted(group)[:3])
    print("  found: ", [each.chunk_id for each in request.record.candidates][:5])
    for finding in analysis.diagnosis.stages[:1]:
        print("  ", finding.state, *finding.evidence, sep="\n    ")


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domains", nargs="+", metavar="NAME", help="names of domains written by hand; default: all")
    parser.add_argument("--held-out", action="store_true", help="the domains of the folder `held_out` instead")
    parser.add_argument("--questions", type=int, help="at most so many of each domain")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--examples", type=int, default=0, help="wrong causes to show")
    return parser.parse_args()


if __name__ == "__main__":
    main()
