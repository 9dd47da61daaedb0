"""How well a wrong citation is told from a right one, and the weights of `ragtrace.coverage.miscitation`.

Citing requests of the domains written by hand, sound and with their marks at other chunks of the prompt. Each claim's
gaps of support, words and values are fitted by logistic regression; each domain is judged by a fit on all others.

Usage: python bench/citations.py [--services 2]
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.verdicts.alterations_injector import AlterationsInjector
from bench.verdicts.fitting import logistic, outcome_weights
from bench.verdicts.handwritten import DOMAINS, read_domains
from bench.verdicts.pipeline import SERVICES, index_of, path_of
from bench.verdicts.recording import record_of
from ragtrace.analyze.analysis import judged_answer
from ragtrace.coverage import united
from ragtrace.coverage.miscitation import bearing_gap
from ragtrace.coverage.relevance import Rarity
from ragtrace.coverage.support import Evidence
from ragtrace.types import RequestRecord

FAULT: Final = "mismarked"  # moves every mark, so that each cited claim is wrong


def main() -> None:
    """Print the weights, and how well claims of each domain are told apart by the fit on the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--services", type=int, default=2, help="citing applications")
    rows = list(_rows(parser.parse_args().services))
    domains = np.array([row[0] for row in rows])
    wrong = np.array([row[1] for row in rows])
    gaps = np.array([row[2] for row in rows], dtype=np.float64)
    left_out = np.zeros(len(rows))
    for domain in sorted(set(domains.tolist())):
        others = domains != domain
        fitted = _fit(gaps[others], wrong[others], domains[others])
        left_out[~others] = fitted[0] + gaps[~others] @ fitted[1:]
        print(f"{domain:12} {(~others).sum():5} claims, AUROC {_auroc(left_out[~others], wrong[~others]):.3f}")
    base, support, words, values = _fit(gaps, wrong, domains)
    print(f"all          {len(rows):5} claims, AUROC {_auroc(left_out, wrong):.3f}")
    print(f"base {base:.2f}, support {support:.2f}, words {words:.2f}, values {values:.2f}")


def _rows(services: int) -> Iterator[tuple[str, bool, tuple[float, ...]]]:
    """Of each claim that cites: its domain, whether its marks were moved, and its gaps."""
    injector = AlterationsInjector()
    fault = next(each for each in injector.faults if each.name == FAULT)
    for domain in read_domains(DOMAINS):
        index = index_of(domain)
        for service in [each for each in SERVICES if each.setup.cites][:services]:
            for question in domain.questions:
                natural = path_of(index, question, service, 0)
                if natural is None or natural.broken is not None:
                    continue
                rng = random.Random(f"{domain.name}:{question.id}:{service.name}")
                moved = injector.inject(natural.path, domain, fault, rng)
                for path in filter(None, (natural.path, moved)):
                    yield from ((domain.name, path is moved, gap) for gap in _gaps(record_of(path, domain)))


def _gaps(record: RequestRecord) -> Iterator[tuple[float, ...]]:
    judged = judged_answer(record)
    if judged is None:
        return
    record = united(record)
    packed = [Evidence.read(chunk.chunk_id, chunk.text or "") for chunk in judged.packed]
    rarity = Rarity([Evidence.read(item.chunk_id, item.text or "") for item in record.candidates])
    for claim, support in zip(judged.claims, judged.supports, strict=True):
        gap = bearing_gap(claim, packed, support, rarity) if claim.factual else None
        if gap is not None:
            yield gap.gaps


def _fit(gaps: NDArray[np.float64], wrong: NDArray[np.bool_], domains: NDArray[np.str_]) -> NDArray[np.float64]:
    return logistic(gaps, wrong.astype(float), outcome_weights(wrong, domains))


def _auroc(scores: NDArray[np.float64], wrong: NDArray[np.bool_]) -> Any:
    """The share of pairs of a wrong and a right claim that the scores have in order, ties by half."""
    one, other = scores[wrong][:, None], scores[~wrong][None, :]
    return float((one > other).mean() + 0.5 * (one == other).mean())


if __name__ == "__main__":
    main()
