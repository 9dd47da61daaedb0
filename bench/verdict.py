"""How often the verdict is right without gold evidence: on sound requests of many domains, and on broken ones.

Domains are written by hand (bench/domains), made of Debian's documentation, and of published data sets. Each question
goes through several applications with a real retriever. Of a request that is sound, faults of each stage are injected;
what the applications lose by themselves is counted apart.

Usage: python bench/verdict.py [--domains NAME ...] [--questions N] [--jobs 2] [--gold] [--examples N] [--json]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # run as a script, `bench` itself is no package to Python

from bench.datasets import DATA
from bench.verdicts import debian, published
from bench.verdicts.fitting import Row, fit_all, printed
from bench.verdicts.handwritten import DOMAINS, DomainError, read_domains
from bench.verdicts.measurement import Plan, Result, injectors, measured, read_result
from bench.verdicts.model import Domain
from bench.verdicts.report import report, show_errors
from bench.verdicts.service_calibration import promises, show_promises


def main() -> None:
    """Print the figures of the domains that are there."""
    options = _options()
    if options.read is not None:
        with options.read.open(encoding="utf-8") as lines:
            _show([read_result(line) for line in lines], options)
        return
    try:
        domains = list(_domains(options))
    except DomainError as error:
        sys.exit(str(error))
    if options.list:
        for domain in domains:
            size = f"{len(domain.passages):5} passages {len(domain.questions):4} questions"
            print(f"{domain.name:24} {domain.origin:12} {size}")
        return
    if not domains:
        sys.exit("no domain was found; give --domains a name that --list shows")
    plan = Plan(options.seed, tuple(options.injectors), options.services, options.faults, options.gold, options.noise,
                options.judge, options.relevance, options.probe, options.draw, options.together)  # fmt: skip
    if options.calibrate:
        show_promises(list(promises(domains, plan)))
        return
    started = time.perf_counter()
    results: list[Result] = []
    for result in measured(domains, plan, jobs=options.jobs):
        results.append(result)
        if options.json:
            print(json.dumps(asdict(result), ensure_ascii=False), flush=True)
    if not options.json:
        names = ", ".join(injector.name for injector in injectors(plan.injectors))
        print(f"seed {plan.seed}, {'with' if plan.gold else 'without'} gold, injectors: {names}")
        _show(results, options)
    print(f"{len(results)} requests in {time.perf_counter() - started:.0f} s", file=sys.stderr)


def _show(results: list[Result], options: Any) -> None:
    if options.fit:
        rows = [_row(result) for result in results if result.kind != "chit_chat"]
        print(printed(fit_all(rows), rows))
    else:
        report(results, detail=options.detail)
        show_errors(results, options.examples)


def _domains(options: Any) -> Iterator[Domain]:
    """The chosen domains with so many of their questions; a line for each one that is absent."""
    for domain in _found(options):
        if options.domains and domain.name not in options.domains and domain.origin not in options.domains:
            continue
        chosen = random.Random(f"{options.seed}:{domain.name}").sample(domain.questions, len(domain.questions))
        kept = set(chosen[: options.questions])
        yield replace(domain, questions=tuple(question for question in domain.questions if question in kept))


def _found(options: Any) -> Iterable[Domain]:
    names = () if "handwritten" in (options.domains or ["handwritten"]) else options.domains
    yield from read_domains(options.handwritten, names=names, held_out=options.held_out)
    wanted = [name for name in debian.CORPORA if not options.domains or {name, "debian"} & set(options.domains)]
    for name in wanted:
        try:
            yield debian.read_debian(name, install=options.install)
        except FileNotFoundError:
            print(f"{name}: not installed; --install gets {' '.join(debian.CORPORA[name].packages)}", file=sys.stderr)
    for name in published.PUBLISHED:
        if options.domains and not any(wish.split("-")[0] in (name, "published") for wish in options.domains):
            continue
        try:
            yield from published.read_published(name, options.data)
        except FileNotFoundError:
            print(f"{name}: not in {options.data}; give --data or RAGTRACE_BENCH_DATA", file=sys.stderr)


def _row(result: Result) -> Row:
    features, usable = result.features, frozenset(result.usable)
    return Row(result.domain, result.injector, result.fault, result.truth, features, usable)


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--domains", nargs="+", metavar="NAME",
                        help="names of domains, or handwritten, debian, published")  # fmt: skip
    parser.add_argument("--questions", type=int, help="at most so many of each domain")
    parser.add_argument(
        "--services", type=int, default=1, help="applications asked each question (default %(default)s)"
    )
    parser.add_argument("--faults", type=int, default=1,
                        help="for each stage, injector and sound request; 0: all (default %(default)s)")  # fmt: skip
    parser.add_argument("--injectors", nargs="+", default=(), metavar="NAME", help="by default all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes (default %(default)s)")
    parser.add_argument("--gold", action="store_true", help="tell the analysis the evidence")
    parser.add_argument("--judge-noise", dest="noise", type=float, metavar="SHARE",
                        help="ask a judge that knows the labels, and errs so often in each role")  # fmt: skip
    parser.add_argument("--noise-draw", dest="draw", type=int, default=0, metavar="N",
                        help="which draw of the judge's errors (default %(default)s)")  # fmt: skip
    parser.add_argument("--noise-together", dest="together", action="store_true",
                        help="all judgments of one claim err together, and of a question and one chunk")  # fmt: skip
    parser.add_argument("--probe", action="store_true", help="ask the whole domain's index once more as well")
    parser.add_argument("--judge", metavar="MODEL", help="ask a model about claims: a folder or a name")
    parser.add_argument(
        "--relevance", metavar="MODEL", help="ask a model about candidates: builtin, a folder or a name"
    )
    parser.add_argument(
        "--fit", action="store_true", help="fit the doubt scores and print ragtrace/analyze/_doubt_model.py's"
    )
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="calibrate on half of each domain's questions, and measure false blame on the others",
    )
    parser.add_argument("--detail", action="store_true", help="show each fault of each domain")
    parser.add_argument("--examples", type=int, default=0, help="errors of each sort to show")
    parser.add_argument("--json", action="store_true", help="print one object for each request instead")
    parser.add_argument("--read", type=Path, metavar="FILE", help="report on what --json printed, and measure nothing")
    parser.add_argument("--list", action="store_true", help="show the domains that are there, and stop")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets (RAGTRACE_BENCH_DATA)")
    parser.add_argument("--handwritten", type=Path, default=DOMAINS, help="folder of the domains written by hand")
    parser.add_argument("--held-out", action="store_true", help="the domains of its folder `held_out` as well")
    parser.add_argument("--install", action="store_true", help="install the documentation that is missing with apt")
    return parser.parse_args()


if __name__ == "__main__":
    main()
