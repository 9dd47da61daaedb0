"""What corrective retrieval gains and costs on public data: a table like Table 2 of its reproduction.

CLAP-NQ: of 30 % of the questions the passage that answers is taken out of the index. The encyclopedia, a server on the
loopback address, has two thirds of those passages, and a near miss of each: the passage without the sentences that
answer. All other passages stand on both. Thresholds are fitted on questions that are not reported.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

import ragtrace
from bench.datasets import DATA, Case, DataSet, read
from ragtrace.analyze import analyze_record
from ragtrace.coverage.text import words
from ragtrace.demo._mediawiki import WikiApplication, wiki_server
from ragtrace.demo.corrective import Corrective, CorrectiveAnswer, MediaWiki, Vanilla, WordIndex
from ragtrace.grading import GradeThresholds
from ragtrace.store import Store
from ragtrace.types import Gold

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_REMOVED: Final = 0.3
_DRAWS: Final = 10_000
_STEPS: Final = (-0.4, 0.0, 0.2, 0.4, 0.6)  # thresholds that are tried
Kind = Literal["untouched", "on the server", "nowhere"]


class CountedWiki:
    """An encyclopedia that counts its calls."""

    def __init__(self, pages: dict[str, str]) -> None:
        self._wiki = WikiApplication(pages)
        self.calls = 0

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one call."""
        self.calls += 1
        return self._wiki(environ, start_response)


@dataclass(frozen=True, slots=True)
class Result:
    """One question: where its evidence is, whether each pipeline's answer holds it, and what correction cost."""

    kind: Kind
    is_right: bool
    is_corrected_right: bool
    action: str
    calls: int
    seconds: float
    corrected_seconds: float
    request_id: str = ""
    gold: str = ""  # the candidate that would hold the evidence, in the index or on the server


def kinds_of(cases: Sequence[Case], draw: random.Random) -> dict[str, Kind]:
    """Of each case where its evidence is: 30 % removed, a third of these from the server too."""
    removed = draw.sample(list(cases), round(_REMOVED * len(cases)))
    nowhere = {case.case_id for case in removed[: round(len(removed) / 3)]}
    gone = {case.case_id for case in removed}
    return {
        case.case_id: "nowhere" if case.case_id in nowhere else "on the server" if case.case_id in gone else "untouched"
        for case in cases
    }


def collections_of(data: DataSet, kinds: dict[str, Kind]) -> tuple[dict[str, str], dict[str, str]]:
    """The index's passages by id, and the server's pages by title."""
    index, pages = dict(data.passages), {}
    for name, text in data.passages.items():
        pages[f"{text.partition(chr(10))[0]} ({name})"] = text
    for case in data.cases:
        kind = kinds.get(case.case_id, "untouched")
        for name, said in case.evidence.items() if kind != "untouched" else ():
            text = index.pop(name)
            title = text.partition("\n")[0]
            if kind == "nowhere":
                del pages[f"{title} ({name})"]
            for sentence in said:
                text = text.replace(sentence, "")
            pages[title if title not in pages else f"{title} (near {name})"] = text
    return index, pages


def is_right(case: Case, answer: str) -> bool:
    """Whether the answer holds a sentence of the evidence, word for word."""
    said = f" {' '.join(words(answer))} "
    return any(f" {' '.join(words(sentence))} " in said for parts in case.evidence.values() for sentence in parts)


@dataclass(frozen=True, slots=True)
class Setting:
    """Where the evidence of each case is, the index without what was removed, and the running encyclopedia."""

    kinds: dict[str, Kind]
    index: WordIndex
    wiki: CountedWiki
    url: str
    titles: dict[str, str]


@contextmanager
def setting_of(cases: Sequence[Case], data: DataSet, seed: int) -> Iterator[Setting]:
    """With evidence removed for some of the cases, while the block runs."""
    kinds = kinds_of(cases, random.Random(seed))
    passages, pages = collections_of(data, kinds)
    wiki = CountedWiki(pages)
    with wiki_server(wiki) as url:
        titles = {name: text.partition("\n")[0] for name, text in data.passages.items()}
        yield Setting(kinds, WordIndex(passages), wiki, url, titles)


def run(cases: Sequence[Case], setting: Setting, thresholds: GradeThresholds) -> list[Result]:
    """Both pipelines on the same questions."""
    vanilla = Vanilla(setting.index)
    corrective = Corrective(setting.index, MediaWiki(setting.url).pages, thresholds=thresholds)
    found = []
    for case in cases:
        before = setting.wiki.calls
        plain, seconds = _timed(vanilla.ask, case.question)
        corrected, corrected_seconds = _timed(corrective.ask, case.question)
        found.append(
            Result(
                setting.kinds[case.case_id],
                is_right(case, plain.answer),
                is_right(case, corrected.answer),
                str(corrected.action),
                setting.wiki.calls - before,
                seconds,
                corrected_seconds,
                corrected.request_id,
                gold_of(case, setting),
            )
        )
    return found


def gold_of(case: Case, setting: Setting) -> str:
    """The id of the candidate that holds a case's evidence: of the index, else of the page that has it or would."""
    name = min(case.evidence)
    return name if setting.kinds[case.case_id] == "untouched" else f"web:{setting.titles[name]} ({name})"


def verdicts(results: Sequence[Result], store_url: str) -> dict[tuple[Kind, bool], Counter[str]]:
    """Whom the verdicts blame where evidence is known, by where it is and whether the candidates hold it."""
    ragtrace.flush(timeout=60)
    found: dict[tuple[Kind, bool], Counter[str]] = {}
    with Store.open(store_url) as store:
        for one in results:
            record = store.get_record(one.request_id)
            assert record is not None
            gold = Gold(service=record.service, question=record.query.original, chunk_ids=(one.gold,))
            is_there = any(each.chunk_id == one.gold for each in record.candidates)
            stage = analyze_record(record, gold).diagnosis.stage or "nobody"
            found.setdefault((one.kind, is_there), Counter())[stage] += 1
    return found


def _timed(ask: Callable[[str], CorrectiveAnswer], question: str) -> tuple[CorrectiveAnswer, float]:
    began = time.perf_counter()
    return ask(question), time.perf_counter() - began


def fitted(cases: Sequence[Case], setting: Setting) -> GradeThresholds:
    """The thresholds whose corrected answers are right most often on these questions; of equals the highest."""
    pairs = [GradeThresholds(upper, lower) for upper in _STEPS for lower in _STEPS if lower <= upper]
    gains = {pair: sum(each.is_corrected_right for each in run(cases, setting, pair)) for pair in pairs}
    return max(pairs, key=lambda pair: (gains[pair], pair.upper, pair.lower))


def difference(results: Sequence[Result], seed: int = 0) -> tuple[float, float, float]:
    """Corrected minus vanilla accuracy with the 95 % interval of a paired bootstrap over questions, in points."""
    each = np.array([float(one.is_corrected_right) - float(one.is_right) for one in results])
    draws = np.random.default_rng(seed).choice(each, (_DRAWS, len(each))).mean(axis=1)
    low, high = np.quantile(draws, (0.025, 0.975))
    return 100 * float(each.mean()), 100 * float(low), 100 * float(high)


def report(results: Sequence[Result]) -> None:
    """Print the table."""
    print("evidence        questions  vanilla  corrective  difference [95 %], points")
    rows: dict[str, list[Result]] = {"all": list(results)}
    for one in results:
        rows.setdefault(one.kind, []).append(one)
    for name, part in rows.items():
        plain, corrected = (
            100 * statistics.fmean(of) for of in ([x.is_right for x in part], [x.is_corrected_right for x in part])
        )
        mean, low, high = difference(part)
        print(f"{name:15} {len(part):9}  {plain:5.1f} %  {corrected:8.1f} %  {mean:+.1f} [{low:+.1f}, {high:+.1f}]")
    for action, count in Counter(one.action for one in results).items():
        part = [one for one in results if one.action == action]
        plain, corrected = sum(x.is_right for x in part), sum(x.is_corrected_right for x in part)
        print(f"{action:15} {count:9}  {plain:5}    {corrected:8}    right")
    harmed = [one for one in results if one.is_right and not one.is_corrected_right]
    print(f"right without and wrong with correction: {len(harmed)}, untouched {_count(harmed, 'untouched')}")
    print(f"calls per question: {statistics.fmean(one.calls for one in results):.2f}")
    plain, corrected = (
        1e3 * statistics.median(of) for of in ([x.seconds for x in results], [x.corrected_seconds for x in results])
    )
    print(f"median latency: {plain:.0f} ms vanilla, {corrected:.0f} ms corrective")


def _count(results: Iterable[Result], kind: Kind) -> int:
    return sum(one.kind == kind for one in results)


def main() -> int:
    """Fit on some questions, report on the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=200, help="questions that are reported")
    parser.add_argument("--fitted", type=int, default=60, help="further questions, for the thresholds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, default=DATA)
    given = parser.parse_args()
    data = read("clapnq", given.data)
    cases = random.Random(given.seed).sample(list(data.cases), min(len(data.cases), given.limit + given.fitted))
    reported, others = cases[given.fitted :], cases[: given.fitted]
    with setting_of(cases, data, given.seed) as setting:
        thresholds = fitted(others, setting)
        upper, lower = thresholds.upper, thresholds.lower
        print(f"CORRECT from {upper:+.1f} on, INCORRECT below {lower:+.1f}, by {len(others)} other questions")
        with TemporaryDirectory() as folder:
            url = f"sqlite:///{folder}/corrective.db"
            ragtrace.configure(service="corrective", store=url, capture_content="full", sample_rate=1.0)
            results = run(reported, setting, thresholds)
            report(results)
            print("whom the verdicts on corrected requests blame, by gold evidence:")
            for (kind, is_there), stages in sorted(verdicts(results, url).items()):
                where = "among the candidates" if is_there else "not found"
                said = ", ".join(f"{stage} {count}" for stage, count in stages.most_common())
                print(f"{kind:15} {where:20} {said}")
            ragtrace.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
