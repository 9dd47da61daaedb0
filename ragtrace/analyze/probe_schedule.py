"""Probes of the index: which requests it is asked about again, and what its answer changes of the retrieval's state.

Suspected requests and a share of those that show nothing are drawn by their ids, up to so many a minute and service. A
probe that fails or hangs costs its own finding alone: it is logged once, counted, and let be until it answers again.

Words find evidence in an index where it speaks better of the question than any candidate. A calibrated model of
relevance finds what says it in other words: its judgments of single chunks and of the best of them as one text are set
beside what the request itself told of where it broke (`ragtrace.analyze._doubt_model`).
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragtrace.analyze._doubt_model import Chances
from ragtrace.analyze._stage_signs import LEAST, SUREST, count_relevant, odds_by_place, once_more
from ragtrace.analyze._stage_states import Case, is_certain, is_lost
from ragtrace.analyze._verification import TOGETHER, Doubted, further_judgments
from ragtrace.analyze.analysis import ServiceView, with_probe
from ragtrace.analyze.diagnosis import VersionStart
from ragtrace.config import SETTINGS
from ragtrace.coverage import Background
from ragtrace.coverage.citations import SUPPORTED
from ragtrace.coverage.relevance import Rarity, question_match
from ragtrace.coverage.support import Evidence
from ragtrace.coverage.verifier import RelevanceJudge, log_odds
from ragtrace.errors import ConfigurationError, NotJudged, ProbeError
from ragtrace.probe import DEEPER, Probe, ask, compare
from ragtrace.types import Analysis, Candidate, IndexProbe, RequestRecord, VerifiedBy, replace

__all__ = ["FAULTS", "IndexProber", "ProbeBudget", "is_suspected", "probed", "relevant_beyond"]

FAULTS: Final = "probe"
"""The place under which faults of a probe are counted."""

_MINUTE: Final = 60.0
_log = logging.getLogger("ragtrace.analyze")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeBudget:
    """How much the index is asked.

    suspected: the share, in [0, 1], of the requests whose retrieval is suspected, not known, or broken by gold
    evidence, and, without gold evidence, of those in which any stage is in doubt; others: of those in which none is;
    a_minute: requests of one service and minute at most; seconds: after which the finding of a request is given up;
    deeper: times the depth that the application asked for.
    """

    suspected: float = SETTINGS["probe_share"].default
    others: float = SETTINGS["probe_sound"].default
    a_minute: float = SETTINGS["probe_rate"].default
    seconds: float = SETTINGS["probe_seconds"].default
    deeper: int = DEEPER

    def __post_init__(self) -> None:
        for name in ("suspected", "others"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigurationError.of(f"share of {name} requests", getattr(self, name), "a number from 0 to 1")
        if self.a_minute < 0 or self.seconds <= 0 or self.deeper < 1:
            raise ConfigurationError("probes a minute are 0 or more, their seconds above 0, and `deeper` is 1 or more")

    def draws(self, request_id: str, *, is_suspected: bool) -> bool:
        """Whether a request is drawn; the same one in every process."""
        share = self.suspected if is_suspected else self.others
        digest = hashlib.blake2b(request_id.encode("utf-8", "surrogatepass"), digest_size=8, key=b"probe").digest()
        return int.from_bytes(digest) < share * 2**64


def is_suspected(analysis: Analysis) -> bool | None:
    """Whether a request asks for a probe: its retrieval is not sound, or, without gold evidence, any stage is in doubt,
    since what looks like a later fault may be an answer without its evidence. None where a probe could tell nothing."""
    finding = next((one for one in analysis.diagnosis.stages if one.stage == "retrieval"), None)
    if finding is None or finding.reason == "not_recorded":
        return None
    if finding.state == "broken":  # without gold evidence by a rewrite that dropped what was asked: it explains itself
        return True if analysis.reference == "oracle" else None
    if analysis.reference == "oracle":
        return finding.state != "sound"
    return finding.state != "sound" or any(each.doubted for each in analysis.diagnosis.stages)


def probed(
    probe: Probe,
    record: RequestRecord,
    analysis: Analysis,
    view: ServiceView,
    *,
    deeper: int = DEEPER,
    heard: Chances | None = None,
    relevance: RelevanceJudge | None = None,
) -> IndexProbe:
    """What a probe finds for an analyzed request. Raises: ProbeError for what the probe raises.

    heard: where calibrated models and words say that the request broke, and relevance: the model among them that also
    judges what the index holds beside the candidates, in place of words; without both words find it alone.
    """
    told: list[float] = []

    def proven(found: Sequence[Candidate]) -> Sequence[Candidate] | None:
        if heard is None or relevance is None:
            return None
        if not is_lost(heard.with_index(SUREST)):
            return ()  # whatever the index holds, it proves nothing
        try:
            odds, chunks = relevant_beyond(record.query.original, found, relevance, view.background)
        except NotJudged as error:
            _log.warning("what the probe found for request %s is judged by words alone: %s", record.request_id, error)
            return None
        told.append(odds)
        return chunks if is_lost(heard.with_index(odds)) else ()

    lost = [loss.chunk_id for loss in analysis.lost if loss.where == "retrieval"]
    certain = [match.facet for match in analysis.facets if match.reason is None and is_certain(match)]
    found = compare(
        probe,
        record,
        ask(probe, record, deeper=deeper),
        lost=lost,
        by_gold=analysis.reference == "oracle",
        facets=[match.facet for match in analysis.facets],
        certain=certain,
        background=view.background,
        proven=proven,
    )
    return replace(found, odds=round(told[0], _DIGITS)) if told and found.exact else found


class IndexProber:
    """Asks a probe about the requests of a worker, within a budget.

    on_fault: gets the service and the kind of each fault, to be counted; relevance: a calibrated judge of relevance,
    which also judges what the index returns.
    """

    def __init__(
        self,
        probe: Probe,
        budget: ProbeBudget | None = None,
        *,
        on_fault: Callable[[str, str, str], object] = lambda service, kind, message: None,
        relevance: RelevanceJudge | None = None,
    ) -> None:
        self.budget = budget or ProbeBudget()
        self._probe = probe
        self._on_fault = on_fault
        self._relevance = relevance
        self._asked: dict[str, deque[float]] = defaultdict(deque)
        self._hanging: threading.Thread | None = None
        self._told: str | None = None

    def with_probe(
        self,
        record: RequestRecord,
        analysis: Analysis,
        case: Case,
        view: ServiceView,
        releases: Sequence[VersionStart] = (),
        verified_by: VerifiedBy | None = None,
    ) -> Analysis:
        """The analysis with what the index says, if the request is drawn and the budget has room; else as it is."""
        services = getattr(self._probe, "services", None)
        if services is not None and record.service not in services:
            return analysis
        suspected = is_suspected(analysis)
        if suspected is None or not self.budget.draws(record.request_id, is_suspected=suspected):
            return analysis
        if analysis.reference == "oracle" and not suspected:
            return analysis  # what is needed is there
        if self._is_busy() or not self._has_room(record.service):
            return analysis
        found = replace(self._found(record, analysis, view, case.heard()), drawn=not suspected, asked_at=time.time_ns())
        return with_probe(record, analysis, case, found, releases, verified_by)

    def _is_busy(self) -> bool:
        """Whether an earlier call still hangs: nothing can end it, and another one would hang as well."""
        if self._hanging is not None and not self._hanging.is_alive():
            self._hanging = None
        return self._hanging is not None

    def _has_room(self, service: str) -> bool:
        now, asked = time.monotonic(), self._asked[service]
        while asked and now - asked[0] >= _MINUTE * max(1.0, 1 / max(self.budget.a_minute, 1e-9)):
            asked.popleft()
        if self.budget.a_minute <= 0 or len(asked) >= max(1.0, self.budget.a_minute):
            return False
        asked.append(now)
        return True

    def _found(self, record: RequestRecord, analysis: Analysis, view: ServiceView, heard: Chances | None) -> IndexProbe:
        outcome: dict[str, Any] = {}

        def work() -> None:
            try:
                outcome["found"] = probed(
                    self._probe, record, analysis, view,
                    deeper=self.budget.deeper, heard=heard, relevance=self._relevance,
                )  # fmt: skip
            except Exception as error:
                outcome["error"] = error

        thread = threading.Thread(target=work, name="ragtrace-probe", daemon=True)
        thread.start()
        thread.join(self.budget.seconds)
        if thread.is_alive():
            self._hanging = thread
            return self._failed(record, "TimeoutError", f"no answer within {self.budget.seconds:g} s")
        error = outcome.get("error")
        if isinstance(error, ProbeError):
            kind, _, message = str(error).partition(": ")
            return self._failed(record, kind, message)
        if error is not None:
            raise error  # not the probe's fault: the request's analysis fails, as by any other
        self._told = None
        found: IndexProbe = outcome["found"]
        return found

    def _failed(self, record: RequestRecord, kind: str, message: str) -> IndexProbe:
        """The finding of a probe that failed; said once, until it answers again or fails otherwise."""
        if kind != self._told:
            self._told = kind
            _log.warning(
                "the probe failed for request %s (%s: %s); its retrieval is judged without it, and so are others until "
                "the probe answers; try it with `ragtrace probe`",
                record.request_id, kind, message,
            )  # fmt: skip
        self._on_fault(record.service, kind, message)
        return IndexProbe(outcome="failed", why=kind)


MOST: Final = 20  # chunks of one request that are judged: those that match the question best by words
_DIGITS: Final = 4  # of log odds that are stored


def relevant_beyond(
    query: str,
    found: Sequence[Candidate],
    judge: RelevanceJudge,
    background: Background | None = None,
) -> tuple[float, list[Candidate]]:
    """The log odds that what a probe found beside the candidates holds the evidence, and the chunks that do, the most
    relevant first. The best are judged once more as one text, and in reverse order where one of them is relevant: among
    twenty chunks a model errs of one, and errs again where that one comes first. Raises: NotJudged where the judge's
    budget or server has ended."""
    texts = [each for each in found if each.text]
    pool = [Evidence.read(each.chunk_id, each.text or "") for each in texts]
    if not pool:
        return -SUREST, []
    match = question_match(query, pool, Rarity(pool, background)).mean(axis=0)
    near = sorted(range(len(texts)), key=lambda place: (-match[place], texts[place].rank))[:MOST]
    said = dict(zip(near, judge.relevant([(query, texts[place].text or "") for place in near]), strict=True))
    best = sorted(near, key=lambda place: -said[place])[:TOGETHER]
    more: dict[str, float] = {}
    if len(best) > 1:
        chunks = [texts[place].text or "" for place in best]
        (further,) = further_judgments(judge, [Doubted(query, chunks, said[best[0]], breaks=True)])
        relevant = count_relevant(said[place] for place in best)
        more = {str(place): once_more(further, log_odds(said[place], LEAST), relevant) for place in best}
    odds = odds_by_place(
        {str(place): chance for place, chance in said.items()},
        {str(place): float(match[place]) for place in near},
        more,
    )
    return odds, [texts[place] for place in best if said[place] >= SUPPORTED]
