"""The weights of layer 1 of a claim's support, fitted on several labelled sets, and judged on those left out.

A logistic regression with an offset for each set, in which each set and both of its labels weigh the same; no weight is
negative. Sets: ExpertQA, WiCE, BEGIN, CLAP-NQ, the development halves of RAGTruth QA and summaries, and the domains of
bench/domains that are not held out. Each set is judged by weights of the others (both of RAGTruth are left out
together), RAGTruth QA on its held-out half; SciFact and the held-out domains are never fitted on. Intervals are of
95 %, paired, over resampled sources.

Usage: python bench/words.py [--claims N] [--beside]; RAGTRACE_BENCH_DATA names the folder of the data sets. Prints the
weights that `ragtrace/coverage/support/lexical.py` holds, and the AUROC of support with them beside what is shipped.
`--beside` prints instead how well ROUGE-2, a cosine of MiniLM, and words with that cosine rank the same claims.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.datasets import DATA
from bench.labels import JUDGED, UNSUPPORTED, read_expertqa
from bench.support import auroc, read_samples
from bench.verdicts.handwritten import read_domains
from ragtrace.coverage import judge_claims
from ragtrace.coverage.support import Evidence, Lexical, Statement, lexical
from ragtrace.coverage.support.readings import Reading
from ragtrace.coverage.verifier import LEAST_BY_WORDS, Verifier, containment, log_odds
from ragtrace.engines.encoder import packaged_encoder
from ragtrace.engines.verifier import EmbeddingVerifier
from ragtrace.engines.verifier_examples import is_held_out, read_examples
from ragtrace.types import Claim, PackedChunk

OPEN: Final = ("expertqa", "wice", "ragtruth-qa", "begin", "handwritten")
TRAINED_ON: Final = (*OPEN, "ragtruth-summary", "clapnq")
SEALED: Final = ("scifact", "handwritten-held-out")
DRAWS: Final = 1000
PROMPT: Final = 4  # chunks beside a claim of a domain written by hand
RIDGE: Final = 200.0
PER_SET: Final = 1000.0  # what the claims of a set weigh together
DOUBTED: Final = 0.12  # share of the supported claims written by hand that lie below 0.5: so the constant is chosen
UNSTATED: Final = 4  # place of that measure, which bounds the support
_MARK: Final = re.compile(r"\s*\{[a-z0-9][a-z0-9-]*\}")
_WORD: Final = re.compile(r"\w+")
_UNASKED: Final = ("chit_chat", "language", "json", "code")  # kinds of questions that have no claims in prose
Floats = NDArray[np.float64]


class Labeled(NamedTuple):
    """A claim, the chunks of its prompt, whether they support it by label, its support by words, and the question of
    its answer, where that is known."""

    source: str
    text: str
    chunks: tuple[str, ...]
    is_supported: bool
    words: float
    question: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """The claims of one set. rows: `(n_claims, 5)`, as `Measures.vector`; unsupported: 0 or 1."""

    sources: tuple[str, ...]
    rows: Floats
    unsupported: Floats

    def part(self, kept: Iterable[bool]) -> Measured:
        """Some of the claims."""
        chosen = np.array(list(kept))
        sources = tuple(source for source, keep in zip(self.sources, chosen, strict=True) if keep)
        return Measured(sources, self.rows[chosen], self.unsupported[chosen])


def read_set(name: str, limit: int | None) -> Measured:
    """The measures of a set's claims. Raises: FileNotFoundError, ConfigurationError."""
    if name == "ragtruth-qa":
        samples = read_samples(DATA / "ragtruth" / "qa.jsonl")
        rows = [sample.measures.vector for sample in samples]
        return _measured([sample.source for sample in samples], rows, [sample.unsupported for sample in samples])
    claims = some(read_claims(name), limit)
    rows = [_measures(each).vector for each in claims]
    return _measured([each.source for each in claims], rows, [not each.is_supported for each in claims])


def _measures(labeled: Labeled) -> lexical.Measures:
    readings = [Evidence.read(str(place), text).reading for place, text in enumerate(labeled.chunks)]
    claim = Claim(text=labeled.text, start=0, end=len(labeled.text))
    return lexical.measure(Statement.read(claim), lexical.Ground(readings, Reading(labeled.question)))


def _measured(sources: Sequence[str], rows: Sequence[Sequence[float]], unsupported: Sequence[bool]) -> Measured:
    return Measured(tuple(sources), np.array(rows), np.array(unsupported, dtype=np.float64))


def read_claims(name: str) -> Iterator[Labeled]:
    """The claims of a set. Raises: FileNotFoundError."""
    if name == "expertqa":
        return _expertqa()
    if name.startswith("handwritten"):
        return _handwritten(held_out=name != "handwritten")
    return _published(name)


def _published(name: str) -> Iterator[Labeled]:
    for each in read_examples(DATA, [name]):
        words = each.lexical if each.lexical is not None else _words(each.claim, each.evidence)
        yield Labeled(each.source, each.claim, each.evidence, each.supported, words)


def _words(claim: str, evidence: Sequence[str]) -> float:
    """The support by words of a claim that is no part of an answer."""
    read = [Evidence.read(str(place), text) for place, text in enumerate(evidence)]
    return Lexical(read).judge([Statement.read(Claim(text=claim, start=0, end=len(claim)))])[0][0]


def _expertqa() -> Iterator[Labeled]:
    """The claims that experts judged, beside the evidence of the whole answer."""
    for case in read_expertqa(DATA):
        for claim in _claims(case.answer, case.passages, case.question):
            shared = {mark: min(mark.end, claim.end) - max(mark.start, claim.start) for mark in case.marks}
            mark = max(shared, key=lambda each: shared[each], default=None)
            if mark is not None and shared[mark] > 0 and mark.label in JUDGED:
                supported = mark.label not in UNSUPPORTED
                yield Labeled(case.question, claim.text, case.passages, supported, claim.support or 0.0, case.question)


def _handwritten(*, held_out: bool) -> Iterator[Labeled]:
    """The claims of sound answers, and those that an altered or a made-up answer has beside them."""
    for domain in read_domains(held_out=True):
        texts = {passage.id: passage.chunk for passage in domain.passages.values()}
        for question in domain.questions if domain.held_out == held_out else ():
            if not question.evidence or question.kind in _UNASKED:
                continue
            needed = [min(group) for group in question.evidence]
            others = [key for key in texts if not any(key in group for group in question.evidence)]
            near = sorted(others, key=lambda key: -containment(question.question, texts[key]))
            chunks = tuple(texts[key] for key in [*needed, *near[: max(1, PROMPT - len(needed))]])
            sound = [claim for each in question.answers for claim in _claims(each, chunks, question.question)]
            said = {claim.text for claim in sound}
            wrong = [
                claim
                for each in (question.altered, question.made_up)
                for claim in (_claims(each, chunks, question.question) if each else ())
                if claim.text not in said
            ]
            for claim in (*sound, *wrong):
                source = f"{domain.name}/{question.id}"
                yield Labeled(source, claim.text, chunks, claim.text in said, claim.support or 0.0, question.question)


def _claims(answer: str, chunks: Sequence[str], question: str) -> list[Claim]:
    packed = _packed(chunks)
    return [each for each in judge_claims(_MARK.sub("", answer), packed, query=question)[0] if each.factual]


def _packed(chunks: Sequence[str]) -> tuple[PackedChunk, ...]:
    return tuple(PackedChunk(chunk_id=str(place), position=place, text=text) for place, text in enumerate(chunks, 1))


def some(claims: Iterable[Labeled], limit: int | None) -> list[Labeled]:
    """Whole sources until about so many claims, by a hash of their names."""
    found = list(claims)
    order = sorted({each.source for each in found}, key=lambda name: hashlib.blake2b(name.encode()).digest())
    kept: set[str] = set()
    count = 0
    for source in order:
        if limit is not None and count >= limit:
            break
        kept.add(source)
        count += sum(each.source == source for each in found)
    return [each for each in found if each.source in kept]


def fit(sets: Sequence[Measured]) -> Floats:
    """The weights, none negative."""
    from scipy.optimize import minimize  # type: ignore[import-untyped]

    x = np.concatenate([each.rows for each in sets])
    y = np.concatenate([each.unsupported for each in sets])
    which = np.concatenate([np.full(len(each.sources), place) for place, each in enumerate(sets)])
    weight = np.concatenate([_balanced(each.unsupported) for each in sets])
    scale = x.std(axis=0) + 1e-9
    z, count = (x - x.mean(axis=0)) / scale, x.shape[1]

    def loss(t: Floats) -> tuple[float, Floats]:
        odds = z @ t[:count] + t[count:][which]
        error = weight * (1 / (1 + np.exp(-odds)) - y)
        gradient = np.append(z.T @ error + RIDGE * t[:count], np.bincount(which, error, minlength=len(sets)))
        fitted = (weight * (np.logaddexp(0, odds) - y * odds)).sum()
        return float(fitted + RIDGE * (t[:count] ** 2).sum() / 2), gradient

    bounds = [(0, None)] * count + [(None, None)] * len(sets)
    found = minimize(loss, np.zeros(count + len(sets)), jac=True, method="L-BFGS-B", bounds=bounds).x
    weights: Floats = found[:count] / scale
    return weights


def _balanced(unsupported: Floats) -> Floats:
    half: Floats = np.where(unsupported > 0, PER_SET / 2 / unsupported.sum(), PER_SET / 2 / (1 - unsupported).sum())
    return half


def support(rows: Floats, weights: Floats, bias: float) -> Floats:
    """As `lexical` has it: a claim with something unstated is at most `lexical.UNSTATED`."""
    found: Floats = 1 / (1 + np.exp(bias + rows @ weights))
    return np.where(rows[:, UNSTATED] > 0, np.minimum(found, lexical.UNSTATED), found)


def constant(written: Measured, weights: Floats) -> float:
    """The constant with which so many of the supported claims that state nothing unheard are doubted."""
    rows = written.rows[written.unsupported == 0]
    return float(-np.quantile(rows @ weights, 1 - DOUBTED))


def developed(sets: Mapping[str, Measured]) -> dict[str, Measured]:
    """What is fitted on: of RAGTruth the sources that are not held out."""
    return {
        name: sets[name].part(not is_held_out(source) for source in sets[name].sources)
        if name.startswith("ragtruth")
        else sets[name]
        for name in TRAINED_ON
        if name in sets
    }


def judge(sets: Mapping[str, Measured]) -> Iterator[tuple[str, Measured, Floats, Floats]]:
    """Of each open and sealed set its claims, and their support as shipped and by weights of the other sets."""
    for name in (*OPEN, *SEALED):
        if name not in sets:
            continue
        family = name.partition("-")[0]
        others = [each for key, each in developed(sets).items() if key.partition("-")[0] != family]
        weights = fit(others)
        tested = sets[name].part(map(is_held_out, sets[name].sources)) if name == "ragtruth-qa" else sets[name]
        shipped = support(tested.rows, np.array(lexical.WEIGHTS), lexical.BIAS)
        yield name, tested, shipped, support(tested.rows, weights, lexical.BIAS)


def paired(truth: Floats, sources: Sequence[str], one: Floats, other: Floats) -> tuple[float, float, float]:
    """How much higher the AUROC of one score is, with its interval over resampled sources."""
    _, numbers = np.unique(np.array(sources), return_inverse=True)
    groups = [np.flatnonzero(numbers == number) for number in range(numbers.max() + 1)]
    draw = np.random.default_rng(0)
    draws = []
    for _ in range(DRAWS):
        rows = np.concatenate([groups[each] for each in draw.integers(len(groups), size=len(groups))])
        if 0 < truth[rows].sum() < len(rows):
            draws.append(auroc(truth[rows], one[rows]) - auroc(truth[rows], other[rows]))
    low, high = np.percentile(draws, [2.5, 97.5])
    return auroc(truth, one) - auroc(truth, other), float(low), float(high)


def rouge(claim: str, evidence: str) -> float:
    """The share of the claim's word pairs that stand in the evidence (the precision of ROUGE-2, Lin 2004)."""
    said, known = (list(pairwise(_WORD.findall(text.casefold()))) for text in (claim, evidence))
    held = set(known)
    return sum(pair in held for pair in said) / max(1, len(said))


def beside(names: Sequence[str], encoder: Verifier, limit: int | None) -> None:
    """Print the AUROC of each judge that is no fit of these sets, on each set, and what it adds to words. encoder: what
    `--embeddings` judges by."""
    weight = float(getattr(encoder, "lexical_weight", 1.0))
    truths, sources, scores = [], [], []
    for name in names:
        claims = some((each for each in read_claims(name) if name != "ragtruth-qa" or is_held_out(each.source)), limit)
        pairs = [(each.text, "\n\n".join(each.chunks)) for each in claims]
        words = np.array([each.words for each in claims])
        cosine = np.array([log_odds(support, LEAST_BY_WORDS) for support, _ in encoder.verify(pairs)])
        by_words = np.array([log_odds(each, LEAST_BY_WORDS) for each in words])
        truths.append(np.array([float(each.is_supported) for each in claims]))
        sources.append([each.source for each in claims])
        scores.append({
            "words": words,
            "ROUGE-2": np.array([rouge(*pair) for pair in pairs]),
            "MiniLM, cosine": cosine,
            "words + cosine (--embeddings)": weight * by_words + cosine,
        })  # fmt: skip
        print(f"{name}: {len(claims)} claims", file=sys.stderr, flush=True)
    print(f"{'AUROC of support':32}" + "".join(f"{name[:14]:>15}" for name in names) + f"{'mean':>8}")
    for judge in scores[0]:
        found = [auroc(truth, said[judge]) for truth, said in zip(truths, scores, strict=True)]
        print(f"{judge:32}" + "".join(f"{value:15.3f}" for value in found) + f"{np.mean(found):8.3f}")
    for judge in list(scores[0])[1:]:
        print(f"{judge}, less words")
        for name, truth, source, said in zip(names, truths, sources, scores, strict=True):
            less, low, high = paired(truth, source, said[judge], said["words"])
            print(f"  {name:24} {less:+.3f} ({low:+.3f} to {high:+.3f}); {len(truth)} claims")


def main(arguments: Sequence[str]) -> None:
    """Print weights and figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--claims", type=int, help="of each set, at most")
    parser.add_argument("--beside", action="store_true", help="rank the claims by ROUGE-2 and MiniLM instead")
    given = parser.parse_args(arguments)
    if given.beside:
        beside((*OPEN, *SEALED), EmbeddingVerifier.load(packaged_encoder()), given.claims)
        return
    sets = {}
    for name in (*TRAINED_ON, *SEALED):
        try:
            sets[name] = read_set(name, given.claims)
        except (FileNotFoundError, ValueError):
            print(f"{name}: not in {DATA}; set RAGTRACE_BENCH_DATA")
    train = developed(sets)
    weights = fit(list(train.values()))
    bias = constant(train["handwritten"], weights)
    print(f"WEIGHTS = {tuple(round(float(weight), 2) for weight in weights)}; BIAS = {bias:.2f}")
    for name, tested, shipped, left_out in judge(sets):
        truth = 1 - tested.unsupported
        less, low, high = paired(truth, tested.sources, left_out, shipped)
        print(f"{name:22} {len(truth):5} claims, {int(tested.unsupported.sum()):4} unsupported: "
              f"left out {auroc(truth, left_out):.3f}, shipped {auroc(truth, shipped):.3f} "
              f"({less:+.3f}, {low:+.3f} to {high:+.3f}); below 0.5: {(shipped < 0.5)[truth > 0].mean():.0%} of the "
              f"supported, {(shipped < 0.5)[truth == 0].mean():.0%} of the unsupported")  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
