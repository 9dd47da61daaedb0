"""The built-in verifier of claims on data sets that its fit did not see, beside words, ROUGE-2 and a cosine.

Each claim is put beside all of its evidence, and judged by the weights that the other sets give (both of RAGTruth are
left out together). The fit is a logistic regression with an offset for each set, in which each set and
both of its labels weigh the same; no weight may have the sign against what it measures. Intervals are of 95 %, paired,
over resampled sources. `--sealed` adds two sets on which nothing was chosen.

Usage: python bench/builtin_verifier.py [--claims N] [--fit] [--sealed] [--cosine] [--features FILE];
RAGTRACE_BENCH_DATA names the folder of the data sets. `--fit` prints the weights that
`ragtrace/engines/_builtin_verifier.py` holds. `--cut WORDS ...` shows instead what is lost where fewer words of the
evidence, those nearest to the claim by words, are compared token by token, beside all of it.
"""

from __future__ import annotations

import argparse
import hashlib
import pickle
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.datasets import DATA
from bench.labels import JUDGED, UNSUPPORTED, read_expertqa
from bench.support import auroc
from bench.verdicts.handwritten import read_domains
from ragtrace.coverage import judge_claims
from ragtrace.coverage.support import Evidence, Lexical, Statement
from ragtrace.coverage.verifier import containment
from ragtrace.engines._builtin_verifier import FEATURES, BuiltinVerifier, TokenEncoder
from ragtrace.engines.encoder import packaged_encoder
from ragtrace.engines.verifier import EmbeddingVerifier
from ragtrace.engines.verifier_examples import is_held_out, read_examples
from ragtrace.types import Claim, PackedChunk

DRAWS: Final = 1000
RIDGE: Final = 200.0
PER_SET: Final = 1000.0  # what the claims of a set weigh together
PROMPT: Final = 4  # chunks beside a claim of a domain written by hand
OPEN: Final = ("expertqa", "wice", "ragtruth-qa", "begin", "handwritten")
TRAINED_ON: Final = (*OPEN, "ragtruth-summary", "clapnq")
SEALED: Final = ("scifact", "handwritten-held-out")
SIGNS: Final[Mapping[str, int]] = {"against": -1, "unseen": -1, "pairs": -1, "unstated": -1}  # the others: 1
WORDS_ALONE: Final = ("against", "unseen", "pairs", "unstated", "held", "bigrams")
TOKENS_ALONE: Final = ("mean", "least", "quartile")
_MARK: Final = re.compile(r"\s*\{[a-z0-9][a-z0-9-]*\}")
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
class Judged:
    """A set's claims as arrays. rows: (n_claims, n_features)."""

    truth: Floats
    sources: tuple[str, ...]
    words: Floats
    cosines: Floats
    rows: Floats

    def held_out(self) -> Judged:
        """The half of the sources on which the weights of words were not fitted."""
        kept = np.array([is_held_out(source) for source in self.sources])
        sources = tuple(source for source, keep in zip(self.sources, kept, strict=True) if keep)
        return Judged(self.truth[kept], sources, self.words[kept], self.cosines[kept], self.rows[kept])


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


def judged(claims: Sequence[Labeled], verifier: BuiltinVerifier, embeddings: EmbeddingVerifier | None) -> Judged:
    """The features of each claim, and what a cosine says of it."""
    pairs = [(each.text, "\n\n".join(each.chunks)) for each in claims]
    return Judged(
        np.array([float(each.is_supported) for each in claims]),
        tuple(each.source for each in claims),
        np.array([each.words for each in claims]),
        np.array([support for support, _ in embeddings.verify(pairs)] if embeddings else [0.0] * len(claims)),
        verifier.features(pairs),
    )


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


def fit(sets: Sequence[Judged], names: Sequence[str] = FEATURES) -> tuple[Floats, float]:
    """Weights of all `FEATURES`, 0 for those that are not named, and the largest of the sets' offsets at even odds:
    on no set are more of the supported claims doubted than there."""
    from scipy.optimize import minimize  # type: ignore[import-untyped]

    chosen = [FEATURES.index(name) for name in names]
    x = np.concatenate([each.rows[:, chosen] for each in sets])
    truth = np.concatenate([each.truth for each in sets])
    which = np.concatenate([np.full(len(each.truth), place) for place, each in enumerate(sets)])
    weight = np.concatenate([_balanced(each.truth) for each in sets])
    scale = x.std(axis=0) + 1e-9
    z, count = (x - x.mean(axis=0)) / scale, len(chosen)

    def loss(t: Floats) -> tuple[float, Floats]:
        odds = z @ t[:count] + t[count:][which]
        error = weight * (1 / (1 + np.exp(-odds)) - truth)
        gradient = np.append(z.T @ error + RIDGE * t[:count], np.bincount(which, error, minlength=len(sets)))
        fitted = (weight * (np.logaddexp(0, odds) - truth * odds)).sum()
        return float(fitted + RIDGE * (t[:count] ** 2).sum() / 2), gradient

    bounds = [(None, 0) if SIGNS.get(name) == -1 else (0, None) for name in names] + [(None, None)] * len(sets)
    found = minimize(loss, np.zeros(count + len(sets)), jac=True, method="L-BFGS-B", bounds=bounds).x
    weights = np.zeros(len(FEATURES))
    weights[chosen] = found[:count] / scale
    return weights, float(found[count:].max() - x.mean(axis=0) @ weights[chosen])


def _balanced(truth: Floats) -> Floats:
    half: Floats = np.where(truth > 0, PER_SET / 2 / truth.sum(), PER_SET / 2 / (1 - truth).sum())
    return half


def left_out(name: str, sets: Mapping[str, Judged], names: Sequence[str] = FEATURES) -> tuple[Floats, float]:
    """What the other sets give."""
    family = name.partition("-")[0]
    return fit([sets[each] for each in TRAINED_ON if each in sets and each.partition("-")[0] != family], names)


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


class CutVerifier(BuiltinVerifier):
    """The built-in verifier where so many words of the evidence are read token by token; None: all of them."""

    words: int | None = None

    def _near(self, claim: str, evidence: str) -> list[str]:
        return self.nearest(claim, evidence, len(evidence.split()) if self.words is None else self.words)


def print_cuts(names: Sequence[str], limit: int | None, cuts: Sequence[int]) -> None:
    """How far each cut agrees with what reads all evidence, by the weights that ship."""
    encoder = TokenEncoder.load()
    for name in names:
        claims = some(read_claims(name), limit)
        pairs = [(each.text, "\n\n".join(each.chunks)) for each in claims]
        truth = np.array([float(each.is_supported) for each in claims])
        supports = {}
        for words in (None, *cuts):
            verifier = CutVerifier(encoder, cache_bytes=0)
            verifier.words = words
            supports[words] = np.array([support for support, _ in verifier.verify(pairs)])
        whole = supports[None]
        length = np.mean([len(text.split()) for _, text in pairs])
        print(f"{name}: {len(claims)} claims, {length:.0f} words of evidence; by all: AUROC {auroc(truth, whole):.3f}")
        for words in cuts:
            said = supports[words]
            same, apart = np.mean((said >= 0.5) == (whole >= 0.5)), np.abs(said - whole).mean()
            print(f"  {words:4} words: same side of 0.5 in {same:.1%}, mean difference {apart:.4f}, "
                  f"AUROC {auroc(truth, said):.3f}", flush=True)  # fmt: skip


def print_table(sets: Mapping[str, Judged], names: Sequence[str]) -> None:
    """The AUROC of each judge on each set, and what the built-in verifier adds to words."""
    judges: dict[str, list[Floats]] = {}
    tested = [sets[name].held_out() if name == "ragtruth-qa" else sets[name] for name in names]
    for name, each in zip(names, tested, strict=True):
        rouge = each.rows[:, FEATURES.index("bigrams")]
        odds = np.log(np.clip(each.words, 1e-3, 1 - 1e-3) / (1 - np.clip(each.words, 1e-3, 1 - 1e-3)))
        for judge, scores in (
            ("words, as shipped", each.words),
            ("ROUGE-2", rouge),
            *(
                (
                    ("MiniLM, cosine", each.cosines),
                    ("words + cosine (--embeddings)", 0.89 * odds + np.log(each.cosines / (1 - each.cosines))),
                )
                if each.cosines.any()
                else ()
            ),
            ("MiniLM, late interaction", each.rows @ left_out(name, sets, TOKENS_ALONE)[0]),
            ("words, fitted anew", each.rows @ left_out(name, sets, WORDS_ALONE)[0]),
            ("builtin", each.rows @ left_out(name, sets)[0]),
        ):
            judges.setdefault(judge, []).append(scores)
    print(f"{'AUROC of support':32}" + "".join(f"{name[:14]:>15}" for name in names) + f"{'mean':>8}")
    for judge, scores in judges.items():
        found = [auroc(each.truth, said) for each, said in zip(tested, scores, strict=True)]
        print(f"{judge:32}" + "".join(f"{value:15.3f}" for value in found) + f"{np.mean(found):8.3f}")
    for judge in ("words, fitted anew", "builtin"):
        print(f"{judge}, less words as shipped")
        differences = []
        for name, each, said in zip(names, tested, judges[judge], strict=True):
            value, low, high = paired(each.truth, each.sources, said, each.words)
            differences.append(value)
            print(f"  {name:24} {value:+.3f} ({low:+.3f} to {high:+.3f}); {len(each.truth)} claims, "
                  f"{int((1 - each.truth).sum())} unsupported")  # fmt: skip
        print(f"  {'mean':24} {np.mean(differences):+.3f}")


def main(arguments: Sequence[str]) -> None:
    """Print the table, and with `--fit` the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--claims", type=int, help="of each set, at most")
    parser.add_argument("--fit", action="store_true", help="print the weights of all sets that are not sealed")
    parser.add_argument("--sealed", action="store_true", help="judge the two sealed sets as well")
    parser.add_argument(
        "--cosine", action="store_true", help="the cosine of sentence embeddings as well: twice the time"
    )
    parser.add_argument("--features", type=Path, help="a file of this script's own in which they are kept")
    parser.add_argument("--cut", type=int, nargs="+", metavar="WORDS", help="compare cuts of the evidence instead")
    given = parser.parse_args(arguments)
    if given.cut:
        print_cuts(("expertqa", "wice", "ragtruth-qa"), given.claims, given.cut)
        return
    sets = _sets(given)
    if missing := set(TRAINED_ON) - set(sets):
        print(f"skipped: {', '.join(sorted(missing))} not in {DATA}; set RAGTRACE_BENCH_DATA")
        return
    if given.fit:
        weights, bias = fit([sets[name] for name in TRAINED_ON])
        print("WEIGHTS", {name: round(float(each), 2) for name, each in zip(FEATURES, weights, strict=True)})
        print(f"BIAS {bias:.2f}")
    print_table(sets, [*OPEN, *(SEALED if given.sealed else ())])


def _sets(given: Any) -> dict[str, Judged]:
    known: dict[str, Judged] = {}
    if given.features and given.features.exists():
        known = pickle.loads(given.features.read_bytes())
    verifier = BuiltinVerifier.load()
    embeddings = EmbeddingVerifier.load(packaged_encoder()) if given.cosine else None
    for name in (*TRAINED_ON, *(SEALED if given.sealed else ())):
        if name in known:
            continue
        try:
            claims = some(read_claims(name), given.claims)
        except (FileNotFoundError, ValueError):
            continue
        known[name] = judged(claims, verifier, embeddings)
        print(f"{name}: {len(claims)} claims", file=sys.stderr, flush=True)
        if given.features:
            given.features.write_bytes(pickle.dumps(known))
    return known


if __name__ == "__main__":
    main(sys.argv[1:])
