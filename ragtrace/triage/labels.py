"""People's labels: which requests to label, what labelers say of them, how far they agree, what rates follow, and how
far the verdicts of a service are right.

A drawing is of one window and one set of versions, from the random stratum alone: requests that were kept for a flag
are worse ones. It draws a part of its requests evenly, the others where the verdict is unsure. Each request has a
number of its own, so that a larger drawing holds the smaller one, and drawings of one window share their labels.

Of verdicts it is known what their calibration promises, of injected losses and never of natural ones, and the rates
that labels correct, of the last window that has any.
"""

from __future__ import annotations

import csv
import io
import json
import re
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from itertools import combinations
from typing import Any, Final

import numpy as np

from ragtrace.analyze.diagnosis import PROMPT_HASH
from ragtrace.errors import ConfigurationError
from ragtrace.formats import written_time
from ragtrace.plausible_values import is_weighable
from ragtrace.registry.instruments import STAGES
from ragtrace.sample_statistics import (
    FEWEST_LABELS,
    Correction,
    cohen_kappa,
    correct,
    draw_order,
    inclusion_probabilities,
    krippendorff_alpha,
)
from ragtrace.store import (
    CorrectedRate,
    Drawing,
    Drawn,
    FaultFigures,
    MeasuredRequest,
    RequestFilter,
    RequestLabel,
    ServiceCalibration,
    Store,
)
from ragtrace.triage._evidence import Window
from ragtrace.triage._report import CorrectedShare

__all__ = [
    "ANY",
    "CANNOT_TELL",
    "LEAST_UNIFORM",
    "NONE",
    "STAGE_WORDS",
    "STRATA",
    "DrawingRates",
    "LabelAgreement",
    "PairAgreement",
    "StageRate",
    "active_calibration",
    "agreement",
    "calibration_words",
    "corrected_shares",
    "corrected_shares_of",
    "draw_labels",
    "extend_drawing",
    "find_drawing",
    "first_broken_of",
    "judged_requests",
    "label_rates",
    "promise",
    "read_labels",
    "share_words",
    "stage_words",
    "undrawn",
    "unlabeled",
    "written_labels",
]

NONE: Final = "none"
CANNOT_TELL: Final = "cannot_tell"
ANY: Final = "any"
"""Among the rates: any stage at all."""
STAGE_WORDS: Final = ("sound", "broken", CANNOT_TELL)
LEAST_UNIFORM: Final = 0.2
"""Of a draw, the least share that is drawn evenly: what the verdict takes for sound must be seen as well."""

STRATA: Final[Mapping[str, float]] = {"named": 1.0, "suspected": 3.0, "open": 1.0, "sound": 0.0}
"""How sure a verdict is (a stage is named as broken, one is suspected, one is not known, all are sound), and how much
more than a sound request one of these is worth a label."""

_NAMES: Final = tuple(stage.name for stage in STAGES)
_BY_VERDICT: Final = {stage.failure: stage.name for stage in STAGES}
_WHOLE: Final = float(1 << 64)
_KEPT: Final = 0.95  # of the requests that could be drawn; an erasure may have taken some


def draw_labels(
    store: Store,
    service: str,
    window: Window,
    expected: int,
    *,
    uniform: float = 0.5,
    versions: Mapping[str, str] | None = None,
    judged: Sequence[MeasuredRequest] | None = None,
) -> Drawing:
    """Draw `expected` requests of a window to be labeled, and keep which.

    Of the sets of versions in the window, and of what judged, the one with the most requests is drawn from; versions:
    that it must have. judged: the `judged_requests` of the window, where they are read already. Raises:
    ConfigurationError where no request can be drawn, or for a share that is no share.
    """
    if not LEAST_UNIFORM <= uniform <= 1:
        raise ConfigurationError.of("--uniform", uniform, f"a share from {LEAST_UNIFORM} to 1")
    if judged is None:
        judged = judged_requests(store, service, window.since, window.until)
    requests = [each for each in judged if (versions or {}).items() <= each.traits.versions.items()]
    if not requests:
        raise ConfigurationError(
            f"service {service!r} has no analyzed request of the random stratum there; give another --since, or run "
            "ragtrace analyze"
        )
    newest_first = reversed(requests)  # of sets with as many requests the newest one
    sets = Counter((json.dumps(each.traits.versions, sort_keys=True), each.judge) for each in newest_first)
    (chosen, judge), _ = sets.most_common(1)[0]
    drawing = Drawing(
        drawing_id=uuid.uuid4().hex[:12],
        service=service,
        since=window.since,
        until=window.until,
        versions=json.loads(chosen),
        judge=judge or "",
        drawn_at=time.time_ns(),
        uniform=uniform,
    )
    return _draw(store, drawing, _of_drawing(requests, drawing), expected)


def judged_requests(store: Store, service: str, since: int, until: int) -> list[MeasuredRequest]:
    """The requests of a window that can be drawn, whatever their versions and what judged, oldest first.

    One without a `prompt_hash` has that of the others of its versions, where these have a single one: it is inferred
    from the tenth prompt of a frame on, so that its lack is no other version.
    """
    requests = list(filter(_is_judged, store.measured(RequestFilter(service, since, until), ())))
    hashes: dict[tuple[tuple[str, str], ...], set[str]] = defaultdict(set)
    for each in requests:
        if (stated := each.traits.versions.get(PROMPT_HASH)) is not None:
            hashes[_without_hash(each)].add(stated)
    return [_with_hash(each, hashes.get(_without_hash(each), set())) for each in requests]


def _without_hash(measured: MeasuredRequest) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(item for item in measured.traits.versions.items() if item[0] != PROMPT_HASH))


def _with_hash(measured: MeasuredRequest, known: Collection[str]) -> MeasuredRequest:
    versions = measured.traits.versions
    if PROMPT_HASH in versions or len(known) != 1:
        return measured
    return replace(measured, traits=replace(measured.traits, versions={**versions, PROMPT_HASH: next(iter(known))}))


def undrawn(drawing: Drawing, judged: Iterable[MeasuredRequest]) -> list[tuple[int, dict[str, str]]]:
    """The judged requests of a drawing's window that it leaves out: how many carry which other versions, most first.

    Of versions only those that are not the drawing's; `judge` stands among them where another judge gave the verdicts.
    """
    others: Counter[tuple[tuple[str, str], ...]] = Counter()
    for each in judged:
        differing = dict(each.traits.versions.items() - drawing.versions.items())
        differing |= dict.fromkeys(drawing.versions.keys() - each.traits.versions.keys(), "none")
        if each.judge != drawing.judge:
            differing["judge"] = each.judge or "none"
        if differing:
            others[tuple(sorted(differing.items()))] += 1
    return [(count, dict(differing)) for differing, count in others.most_common()]


def find_drawing(store: Store, beginning: str | None, service: str | None = None) -> Drawing:
    """The drawing whose id begins so; None: the newest one. Raises: ConfigurationError for none, or several."""
    drawings = store.drawings(service)
    found = [each for each in drawings if beginning is None or each.drawing_id.startswith(beginning)]
    if not found:
        raise ConfigurationError(
            "nothing is drawn yet; ragtrace label draw --service S --since 7d"
            if not drawings
            else f"no drawing {beginning!r}; there are {', '.join(each.drawing_id for each in drawings[:5])}"
        )
    if beginning is not None and len(found) > 1:
        raise ConfigurationError(f"{len(found)} drawings begin with {beginning!r}; give more of the id")
    return found[0]


def extend_drawing(
    store: Store, drawing: Drawing, expected: int, judged: Sequence[MeasuredRequest] | None = None
) -> Drawing:
    """Draw `expected` of the drawing's requests anew, or all; those drawn before are among them where the verdicts are
    the same. Labels stay, and count by their new probabilities. judged: as `draw_labels` has it.

    Raises: ConfigurationError for fewer than are drawn, and where its requests were judged anew or pruned since.
    """
    if expected < (drawn := len(store.drawn_requests(drawing.drawing_id))):
        raise ConfigurationError.of("the number of labels", expected, f"{drawn} or more: so many are drawn already")
    return _draw(store, drawing, _whole_population(store, drawing, judged), expected)


def _draw(store: Store, drawing: Drawing, requests: Sequence[MeasuredRequest], expected: int) -> Drawing:
    strata = [_stratum(each) for each in requests]
    interest = np.array([STRATA[stratum] for stratum in strata])
    probabilities = inclusion_probabilities(interest, expected, drawing.uniform)
    order = draw_order(np.array([_number(each.request_id) for each in requests]), probabilities)
    chosen = [
        Drawn(requests[at].request_id, place, strata[at], float(probabilities[at]))
        for place, at in enumerate(order[:expected])
    ]
    drawing = replace(drawing, population=len(requests))
    store.draw(drawing, chosen)
    return drawing


def _of_drawing(requests: Iterable[MeasuredRequest], drawing: Drawing) -> list[MeasuredRequest]:
    """Those of a window's requests that a drawing speaks of, in their order."""
    return [each for each in requests if each.judge == drawing.judge and each.traits.versions == drawing.versions]


def _whole_population(
    store: Store, drawing: Drawing, judged: Sequence[MeasuredRequest] | None = None
) -> list[MeasuredRequest]:
    """The requests of a drawing, as long as next to all that could be drawn are there.

    What retention keeps of a window, because somebody labeled it, is no fair sample of it. Raises: ConfigurationError.
    """
    if judged is None:
        judged = judged_requests(store, drawing.service, drawing.since, drawing.until)
    requests = _of_drawing(judged, drawing)
    if not requests or len(requests) < _KEPT * drawing.population:
        raise ConfigurationError(
            f"of the {drawing.population} requests that drawing {drawing.drawing_id} was made of, {len(requests)} are "
            "there as they were judged then; the others were pruned, or judged anew. Its last rates stay as they are; "
            "ragtrace label draw makes a new drawing"
        )
    return requests


def _is_judged(measured: MeasuredRequest) -> bool:
    """Whether a request of the random stratum has a verdict, and a weight; older versions stored any probability."""
    is_judged = measured.judge is not None and measured.verdict is not None
    return measured.head_sampled and is_judged and is_weighable(measured.head_probability)


def _stratum(measured: MeasuredRequest) -> str:
    states = measured.states.values()
    if measured.verdict in _BY_VERDICT:
        return "named"
    return "suspected" if "suspected" in states else "open" if "not_known" in states else "sound"


def _number(request_id: str) -> float:
    """A request's own number, uniform in [0, 1), apart from the one by which it was sampled."""
    digest = blake2b(request_id.encode("utf-8", "surrogatepass"), digest_size=8, person=b"ragtrace-label")
    return int.from_bytes(digest.digest(), "big") / _WHOLE


def unlabeled(store: Store, drawing: Drawing, labeler: str) -> list[Drawn]:
    """What a labeler has not labeled yet, in the order of the draw: whoever stops has labeled a smaller draw."""
    requests = store.drawn_requests(drawing.drawing_id)
    labeled = {
        each.request_id for each in store.labels(request_ids=[one.request_id for one in requests], labeler=labeler)
    }
    return [each for each in requests if each.request_id not in labeled]


def first_broken_of(stages: Mapping[str, str]) -> str:
    """The first stage that a labeler calls broken, where all before it are called sound; `none` where all are, else
    `cannot_tell`. Of answers that do not cite nothing is said of citation."""
    for stage in _NAMES:
        state = stages.get(stage, "sound" if stage == "citation" else CANNOT_TELL)
        if state != "sound":
            return stage if state == "broken" else CANNOT_TELL
    return NONE


@dataclass(frozen=True, slots=True)
class StageRate:
    """A stage's share of requests in which it is the first that broke (`any`: one of them did). labels: requests with a
    label that tells. lacking: how many more labels a corrected rate needs; 0 where `correction` is there."""

    stage: str
    verdict: float
    labels: int
    lacking: int
    correction: Correction | None = None


@dataclass(frozen=True, slots=True)
class DrawingRates:
    """What the labels of a drawing say. requests: of its window and versions; drawn, labeled: of these."""

    drawing: Drawing
    requests: int
    drawn: int
    labeled: int
    stages: tuple[StageRate, ...]


def label_rates(store: Store, drawing: Drawing) -> DrawingRates:
    """The rates of a drawing's requests, corrected by the labels of those that were drawn; kept for the exporter.

    Several labelers of one request count as their mean. One that cannot tell leaves the request out; those of the same
    stratum stand for it. Raises: ConfigurationError where its requests were pruned, or judged anew, since.
    """
    requests = _whole_population(store, drawing)
    places = {each.request_id: place for place, each in enumerate(requests)}
    chosen = [each for each in store.drawn_requests(drawing.drawing_id) if each.request_id in places]
    said: dict[str, list[RequestLabel]] = defaultdict(list)
    for label in store.labels(request_ids=[each.request_id for each in chosen]):
        said[label.request_id].append(label)
    importance = np.array([1 / each.head_probability for each in requests])
    named = [_BY_VERDICT.get(each.verdict or "") for each in requests]
    rates: list[StageRate] = []
    for stage in (*_NAMES, ANY):
        verdicts = np.array([name is not None if stage == ANY else name == stage for name in named], dtype=np.bool_)
        told = {id_: value for id_, labels in said.items() if (value := _mean(labels, stage)) is not None}
        share = float(np.average(verdicts, weights=importance))
        correction = None
        if len(told) >= FEWEST_LABELS:
            used = [each for each in chosen if each.request_id in told]
            correction = correct(
                verdicts,
                importance,
                np.array([places[each.request_id] for each in used]),
                np.array([told[each.request_id] for each in used]),
                _probabilities(chosen, used),
            )
        rates.append(StageRate(stage, share, len(told), max(0, FEWEST_LABELS - len(told)), correction))
    kept = [
        CorrectedRate(each.stage, found.rate, found.low, found.high, each.verdict, each.labels)
        for each in rates
        if (found := each.correction) is not None
    ]
    store.save_rates(drawing.drawing_id, kept)
    return DrawingRates(drawing, len(requests), len(chosen), len(said), tuple(rates))


def _mean(labels: Iterable[RequestLabel], stage: str) -> float | None:
    """The share of labelers who call a stage the first broken one, of those who tell."""
    told = [broke for label in labels if (broke := _broke(label, stage)) is not None]
    return sum(told) / len(told) if told else None


def _broke(label: RequestLabel, stage: str) -> bool | None:
    first = label.first_broken
    if first == stage or (stage == ANY and first in _NAMES):
        return True
    if first == NONE or (stage != ANY and label.stages.get(stage) == "sound"):
        return False
    if first == CANNOT_TELL or stage == ANY:
        return None
    is_before = _NAMES.index(stage) < _NAMES.index(first)
    return None if is_before and label.stages.get(stage) == CANNOT_TELL else False


def _probabilities(chosen: Sequence[Drawn], used: Sequence[Drawn]) -> Any:
    """The probability with which each labeled request was drawn and labeled: of those drawn in a stratum, each had the
    same chance of a label that tells."""
    weight: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for at, those in enumerate((used, chosen)):
        for each in those:
            weight[each.stratum][at] += 1 / each.probability
    answered = {stratum: told / drawn for stratum, (told, drawn) in weight.items()}
    return np.array([each.probability * answered[each.stratum] for each in used])


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """Two labelers: how many requests both told of, the share in which they say the same, and Cohen's kappa."""

    first: str
    second: str
    requests: int
    same: float
    kappa: float | None


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """How far labelers agree on the first broken stage. requests: with several labels that tell; alpha: Krippendorff's,
    None where nothing can differ."""

    requests: int
    alpha: float | None
    pairs: tuple[PairAgreement, ...]


def agreement(labels: Iterable[RequestLabel]) -> LabelAgreement:
    """How far labelers agree on which stage broke first; what one cannot tell is no word."""
    said: dict[str, dict[str, str]] = defaultdict(dict)
    for label in labels:
        if label.first_broken != CANNOT_TELL:
            said[label.request_id][label.labeler] = label.first_broken
    several = [words for words in said.values() if len(words) > 1]
    labelers = sorted({labeler for words in several for labeler in words})
    pairs = []
    for first, second in combinations(labelers, 2):
        both = [words for words in several if first in words and second in words]
        if both:
            one, two = [words[first] for words in both], [words[second] for words in both]
            same = sum(a == b for a, b in zip(one, two, strict=True)) / len(both)
            pairs.append(PairAgreement(first, second, len(both), same, cohen_kappa(one, two)))
    alpha = krippendorff_alpha([list(words.values()) for words in several])
    return LabelAgreement(len(several), alpha, tuple(pairs))


_COLUMNS: Final = ("request_id", "labeler", "first_broken", *_NAMES, "needed", "note")
_WORDS: Final = {
    "ok": NONE, "healthy": NONE, "sound": NONE, "no break": NONE,
    "?": CANNOT_TELL, "cannot tell": CANNOT_TELL, "can not tell": CANNOT_TELL, "unsure": CANNOT_TELL,
}  # fmt: skip


def written_labels(labels: Iterable[RequestLabel], *, as_csv: bool, todo: Sequence[str] = ()) -> str:
    """Labels as JSON lines, or as a table of comma-separated values with an empty row for each request of `todo`."""
    if not as_csv:
        return "".join(json.dumps(asdict(label), ensure_ascii=True) + "\n" for label in labels)
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for label in labels:
        needed = None if label.needed is None else json.dumps(label.needed) if label.needed else NONE
        row = {"request_id": label.request_id, "labeler": label.labeler, "first_broken": label.first_broken}
        writer.writerow({**row, **label.stages, "needed": needed, "note": label.note})
    writer.writerows({"request_id": request_id} for request_id in todo)
    return out.getvalue()


def read_labels(text: str, *, labeler: str | None = None, now: int | None = None) -> list[RequestLabel]:
    """Labels from JSON lines or comma-separated values with at least `request_id` and either `first_broken` or a column
    for each stage; rows that say nothing are passed over.

    labeler: of rows without one. now: when rows without a time were labeled, in nanoseconds.
    Raises: ConfigurationError, which names the line.
    """
    at = time.time_ns() if now is None else now
    rows = _json_rows(text) if text.lstrip().startswith("{") else _csv_rows(text)
    return [label for line, row in rows if (label := _read(line, row, labeler, at)) is not None]


def _json_rows(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, body in enumerate(text.splitlines(), start=1):
        if body.strip():
            try:
                row = json.loads(body)
            except ValueError as error:
                raise ConfigurationError(f"line {line} is no JSON object: {error}") from error
            if not isinstance(row, dict) or not isinstance(row.get("stages") or {}, dict):
                raise ConfigurationError(f"line {line} is no JSON object, or its stages are none")
            yield line, {**row, **(row.get("stages") or {})}


def _csv_rows(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")))
    if "request_id" not in (reader.fieldnames or ()):
        raise ConfigurationError(f"the file has no column request_id; it has {', '.join(reader.fieldnames or ())}")
    for row in reader:
        yield reader.line_num, {**row, "needed": _ids_in_cell(row.get("needed") or "")}


def _ids_in_cell(cell: str) -> list[str] | None:
    """Chunk ids in a cell of a sheet: as JSON, which ids with spaces need, or with spaces between them."""
    if not cell.strip():
        return None
    try:
        found = json.loads(cell)
    except ValueError:
        found = None
    ids = found if isinstance(found, list) else cell.split()
    return [] if ids == [NONE] else [str(each) for each in ids]


def _read(line: int, row: Mapping[str, Any], labeler: str | None, now: int) -> RequestLabel | None:
    stages = {
        stage: _word(line, stage, row[stage], STAGE_WORDS) for stage in _NAMES if str(row.get(stage) or "").strip()
    }
    first = str(row.get("first_broken") or "").strip()
    if not stages and not first:
        return None
    who = str(row.get("labeler") or labeler or "").strip()
    if not row.get("request_id") or not who:
        raise ConfigurationError(f"line {line} names no {'labeler; give --labeler' if not who else 'request_id'}")
    told = first_broken_of(stages)
    if first:
        said = _word(line, "first_broken", first, (*_NAMES, NONE, CANNOT_TELL))
        if (told not in (said, CANNOT_TELL)) or _denies(stages, said):
            stated = ", ".join(f"{stage} {state}" for stage, state in stages.items())
            raise ConfigurationError(f"line {line} says first_broken {said}, and its stages say {stated}")
        told = said
    needed, labeled_at = row.get("needed"), row.get("labeled_at") or now
    if needed is not None and not isinstance(needed, list):
        raise ConfigurationError(f"line {line}: needed {needed!r} is not usable; give a list of chunk ids")
    if isinstance(labeled_at, bool) or not re.fullmatch(r"\d+", str(labeled_at)):
        raise ConfigurationError(f"line {line}: labeled_at {labeled_at!r} is not usable; give nanoseconds since 1970")
    return RequestLabel(
        request_id=str(row["request_id"]),
        labeler=who,
        first_broken=told,
        stages=stages,
        needed=None if needed is None else tuple(map(str, needed)),
        note=str(row["note"]) if row.get("note") else None,
        labeled_at=int(labeled_at),
        verdict=row.get("verdict") or None,
        judge=row.get("judge") or None,
        analyzer_version=row.get("analyzer_version") or None,
    )


def _denies(stages: Mapping[str, str], first: str) -> bool:
    """Whether what is said of stages contradicts which one broke first."""
    before = _NAMES[: _NAMES.index(first)] if first in _NAMES else _NAMES if first == NONE else ()
    return stages.get(first) == "sound" or any(stages.get(stage) == "broken" for stage in before)


def _word(line: int, column: str, value: object, allowed: Sequence[str]) -> str:
    word = str(value).strip().casefold().replace("_", " ")
    plain = word.replace(" ", "_")
    found = plain if plain in allowed else _WORDS.get(word, "")
    if found not in allowed:
        raise ConfigurationError(f"line {line}: {column} {value!r} is not usable; give {', '.join(allowed)}")
    return found


_FRESH: Final = 30 * 86_400 * 10**9  # nanoseconds for which the rates of a window are shown
_SOME: Final = 0.1  # of the faults of a stage, below which it counts as one that cannot be named
_BY_A_MODEL: Final = ("ranking", "generation")


def active_calibration(store: Store, service: str, judge: str | None = None) -> ServiceCalibration | None:
    """The calibration at work of a service, for a judge (the digest of rules and models) or the newest of any."""
    found = (each for each in store.calibrations([service]) if each.state == "active")
    return next((each for each in found if judge is None or each.judge == judge), None)


def promise(store: Store, service: str) -> str | None:
    """What the service's calibrations promise; None where none is at work."""
    active = [each for each in store.calibrations([service]) if each.state == "active" and each.is_current]
    told = [f"by {each.models or 'words'}: {calibration_words(each)}" for each in active]
    return "; ".join(told) or None


def calibration_words(calibration: ServiceCalibration) -> str:
    """What a calibration promises, in a sentence."""
    injected = sum(each.injected for each in calibration.faults)
    named = sum(each.named for each in calibration.faults)
    share = f"names {named / injected:.0%} of {injected} injected losses" if injected else "no loss could be injected"
    blame = f"blames at most {calibration.blamed:.1%} of sound requests (upper end {calibration.blamed_high:.1%})"
    return "; ".join([f"{share}, {blame}", *_unnamed(calibration)])


def _unnamed(calibration: ServiceCalibration) -> Iterator[str]:
    for each in calibration.faults:
        if each.injected and each.named < _SOME * each.injected:
            yield f"{each.stage} cannot be named {_remedy(each, by_words=not calibration.models)}"


def _remedy(figures: FaultFigures, *, by_words: bool) -> str:
    if figures.stage == "retrieval":
        return "without a probe, gold evidence or facets"
    return "without a model" if by_words and figures.stage in _BY_A_MODEL else "by this judge"


def stage_words(calibration: ServiceCalibration) -> str:
    """How much a calibration names at each stage, with the numbers."""
    return ", ".join(f"{each.stage} {each.named} of {each.injected}" for each in calibration.faults if each.injected)


def share_words(calibration: ServiceCalibration, enough_sound: int) -> str:
    """What is known of how many requests are broken: without labels, nothing.

    enough_sound: of how many requests that people call sound false blame can be measured.
    """
    if calibration.labeled_sound:
        return "by labels (ragtrace label rates)"
    needed = f"{FEWEST_LABELS} labels (ragtrace label), and false blame {enough_sound} of sound requests"
    return f"not estimated; it needs {needed}"


def corrected_shares(store: Store, service: str, now: int) -> tuple[CorrectedShare, ...]:
    """The rates of the last window that has any, corrected by labels; none where that is 30 days ago.

    now: nanoseconds.
    """
    known = [each for each in store.drawings(service) if each.rates and now - _FRESH <= each.until]
    last = max(known, key=lambda each: (each.until, each.drawn_at), default=None)
    return () if last is None else tuple(_share(last, each) for each in last.rates)


def corrected_shares_of(store: Store, service: str, versions: Mapping[str, str]) -> dict[str, CorrectedShare]:
    """The same by stage, of the live requests that carried exactly these versions: of their newest drawing with rates,
    however long ago; empty without one, since a verdict's rate is no match for a corrected one."""
    known = (each for each in store.drawings(service) if each.rates and each.versions == dict(versions))
    newest = next(known, None)
    return {} if newest is None else {each.stage: _share(newest, each) for each in newest.rates}


def _share(drawing: Drawing, rate: CorrectedRate) -> CorrectedShare:
    return CorrectedShare(
        stage=rate.stage,
        by_verdict=rate.verdict,
        share=rate.rate,
        low=rate.low,
        high=rate.high,
        labels=rate.labels,
        until=written_time(drawing.until),
    )
