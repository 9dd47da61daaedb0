"""`ragtrace show|explain|probe`: requests one by one: what happened, why, and what the index holds for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer

from ragtrace.cli.terminal import JsonOption, StoreOption, console, option, print_json, print_table, progress
from ragtrace.config import variable
from ragtrace.errors import ConfigurationError
from ragtrace.registry.wording import REASONS, VERDICTS
from ragtrace.times import parse_time, shown_time
from ragtrace.types import Stage

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ragtrace.analyze.attribution import OnProgress, Part
    from ragtrace.analyze.services import Judgeability
    from ragtrace.attribution import Method
    from ragtrace.explanations import Explanation, GeneratorAttribution
    from ragtrace.probe import Answers, Probe
    from ragtrace.store import JobRow, Listing, RequestRow, Store
    from ragtrace.types import Claim, ProbedChunk, RequestRecord

__all__ = ["explain", "probe", "show"]

_SCAN: Final = 20_000  # requests that are looked at in one query
_DOUBTS: Final = ("suspected", "not_known")
_STATUSES: Final = ("ok", "error")
_WIDE: Final = 120  # columns of a terminal, from which on all is shown
_ATTENTION: Final = "attention"
_COLUMNS: Final = ("request", "started", "service", "segment", "verdict", "stages sound", "owner")


_LIST: Final = "The list of requests, where no id is given"


def _only(name: str, metavar: str | None, which: str, choices: Iterable[str] = ()) -> Any:
    """The option of a filter of the list. choices: its values, where they are a closed list."""
    values = f": {', '.join(choices)}" if choices else ""
    text = f"Only requests {which}{values}."
    return typer.Option(name, metavar=metavar, help=text, show_default=False, rich_help_panel=_LIST)


def show(
    request_id: Annotated[
        str | None, typer.Argument(help="A request id, or as much of its beginning as is unique.", show_default=False)
    ] = None,
    service: Annotated[str | None, _only("--service", "NAME", "of this service")] = None,
    segment: Annotated[str | None, _only("--segment", "NAME", "of this segment")] = None,
    stage: Annotated[str | None, _only("--stage", "STAGE", "that broke first at this stage", get_args(Stage))] = None,
    verdict: Annotated[str | None, _only("--verdict", "VERDICT", "with this verdict", VERDICTS)] = None,
    doubt: Annotated[str | None, _only("--doubt", "STATE", "in which a stage is so", _DOUBTS)] = None,
    reason: Annotated[
        str | None, _only("--reason", "REASON", "of which a stage is suspected or not known for this reason", REASONS)
    ] = None,
    rollout: Annotated[
        str | None, _only("--rollout", "COMPONENT=VERSION", "whose break is suspected to come from this release")
    ] = None,
    version: Annotated[str | None, _only("--with-version", "COMPONENT=VERSION", "that ran with this version")] = None,
    flag: Annotated[str | None, _only("--flag", "FLAG", "with this flag, such as low_coverage or thumbs_down")] = None,
    session: Annotated[str | None, _only("--session", "ID", "of this session")] = None,
    status: Annotated[str | None, _only("--status", "STATUS", "that ended so", _STATUSES)] = None,
    since: Annotated[str | None, _only("--since", "TIME", "that began then or later, such as 2h ago")] = None,
    until: Annotated[str | None, _only("--until", "TIME", "that began before")] = None,
    search: Annotated[
        str | None,
        _only("--search", "WORDS", "with all of these words in question or answer, after `ragtrace db search on`"),
    ] = None,
    labeled: Annotated[
        bool | None,
        typer.Option(
            "--labeled/--unlabeled", help="Only requests that people labeled, or did not.", rich_help_panel=_LIST
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="The most requests to show, newest first.", rich_help_panel=_LIST)
    ] = 20,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print one request's evidence path: verdict, the state of each stage, facets, candidates, ranks, prompt, claims.

    Without an id, print the newest requests, and how much of them can be judged.
    """
    from ragtrace.analyze.services import judgeability
    from ragtrace.cli.terminal import existing
    from ragtrace.store import Listing, Store

    _check_choices(stage=stage, verdict=verdict, doubt=doubt, reason=reason, status=status)
    wanted = Listing(
        service=service,
        segment=segment,
        session_id=session,
        since=None if since is None else parse_time("--since", since),
        until=None if until is None else parse_time("--until", until),
        stage=stage,
        verdict=verdict,
        doubt=doubt,
        reason=reason,
        rollout=rollout,
        version=version,
        flag=flag,
        status=status,
        is_labeled=labeled,
        search=search,
    )
    if request_id is not None and wanted != Listing():
        raise ConfigurationError("one request was named, and a filter is for a list; leave one of them out")
    with Store.open(existing(store)) as opened:
        if request_id is not None:
            _show(opened, request_id, as_json)
            return
        found = _listed(opened, wanted, limit + 1)
        has_more, found = len(found) > limit, found[:limit]
        if as_json:
            print_json([asdict(row) for row in found])
        elif not found:
            console().print("no such requests")
        else:
            print_table(*_table(found, console().width))
            if has_more:
                console().print(f"the newest {len(found)}; there are more: --limit {5 * limit} shows more of them")
            for name in dict.fromkeys(row.service for row in found):
                console().print()
                for part in _judgeable(judgeability(opened, name)):
                    console().print(part)


def _check_choices(**given: str | None) -> None:
    """Raises: ConfigurationError for a word that no request has."""
    known: dict[str, Iterable[str]] = {
        "stage": get_args(Stage),
        "verdict": VERDICTS,
        "doubt": _DOUBTS,
        "reason": REASONS,
        "status": _STATUSES,
    }
    for name, value in given.items():
        if value is not None and value not in known[name]:
            raise ConfigurationError.of(f"--{name}", value, ", ".join(known[name]))


def _listed(store: Store, wanted: Listing, limit: int) -> list[RequestRow]:
    """The newest requests that match, however far back they are."""
    found: list[RequestRow] = []
    before = None
    while len(found) < limit:
        page = store.list_requests(wanted, before, limit=limit - len(found), scan=_SCAN)
        found += page.rows
        before = page.after
        if before is None:
            break
    return found


def _table(rows: Sequence[RequestRow], width: int) -> tuple[Sequence[str], list[Sequence[str]]]:
    """The columns and lines of a list of requests; where it is narrow, without what is alike in all, or follows."""
    lines = list(map(_row, rows))
    kept = list(range(len(_COLUMNS)))
    if width < _WIDE:
        values = dict(zip(_COLUMNS, zip(*lines, strict=True), strict=True))
        left_out = {name for name in ("service", "segment") if len(set(values[name])) == 1} | {"owner"}
        kept = [place for place, name in enumerate(_COLUMNS) if name not in left_out]
    return [_COLUMNS[place] for place in kept], [[line[place] for place in kept] for line in lines]


def _row(row: RequestRow) -> tuple[str, ...]:
    from ragtrace.export.evidence_path import verdict_brief

    verdict = verdict_brief(row.verdict, row.states)
    said = f"error; {verdict}" if row.status == "error" and row.verdict != "error" else verdict
    sound = f"{sum(state == 'sound' for state in row.states.values())}/{len(row.states)}" if row.states else ""
    started = shown_time(row.started_at)[5:]  # the newest requests: no year
    return row.request_id, started, row.service, row.segment, said, sound, row.owner or ""


def _judgeable(judgeability: Judgeability) -> Iterator[RenderableType]:
    """Of a service's last requests: in how many each stage is judged, why not in the others, and what tells more."""
    from rich.text import Text

    from ragtrace.analyze.services import remedy
    from ragtrace.export.evidence_path import NOT_JUDGED, labeled, plain_table
    from ragtrace.registry.wording import reason_words

    if judgeability.outdated:
        yield Text(f"{judgeability.service}: {judgeability.outdated:,} requests are {NOT_JUDGED}")
    if not judgeability.requests:
        return
    table = plain_table(
        f"last {judgeability.requests:,} requests of {judgeability.service}", "judged", "main reason for the rest"
    )
    remedies = []
    for stage in judgeability.stages:
        judged = stage.states["sound"] + stage.states["broken"]
        why = "" if stage.reason is None else reason_words(stage.reason, stage.stage)
        table.add_row(Text(stage.stage), Text(f"{judged:,} of {stage.requests:,}"), Text(why))
        helpful = stage.reason and remedy(stage.stage, stage.reason, is_verified=judgeability.is_verified)
        if helpful:
            remedies.append((stage.stage, Text(helpful)))
    if not judgeability.judges_citations:
        table.add_row(Text("citation"), Text("none"), Text("answers that do not cite"))
        remedies.append(("citation", Text("ragtrace.configure(cites=True) judges the citations all the same")))
    yield table
    if remedies:
        yield Text("What would let more be judged:")
        yield labeled(*remedies)


def _show(store: Store, request_id: str, as_json: bool) -> None:
    from ragtrace.analyze.claim_attribution import resting_on
    from ragtrace.cli.terminal import find_record
    from ragtrace.export import evidence_path
    from ragtrace.export.evidence_path import claim_rationales
    from ragtrace.store import ATTRIBUTION
    from ragtrace.types import replace, to_builtins

    record = find_record(store, request_id)
    analysis = store.get_analysis(record.request_id)
    explained = store.get_analysis(record.request_id, ATTRIBUTION)
    if analysis is not None and explained is not None and explained.explanation is not None:
        analysis = replace(analysis, claims=resting_on(analysis.claims, explained.explanation.generator))
    if as_json:
        found = claim_rationales(record, analysis.claims) if analysis else ()
        told = [one and {"chunk_id": one.chunk_id, "stance": one.stance, "text": one.text} for one in found]
        print_json(
            {
                "record": to_builtins(record),
                "analysis": to_builtins(analysis) if analysis else None,
                "rationales": told,
            }
        )
    else:
        console().print(evidence_path.render(record, analysis))


def explain(
    request_id: Annotated[str, typer.Argument(help="A request id, or as much of its beginning as is unique.")],
    store: StoreOption = None,
    generator: Annotated[str | None, option("generator", metavar="MODEL")] = None,
    retriever: Annotated[str | None, option("retriever", metavar="MODEL")] = None,
    query: Annotated[
        bool, typer.Option("--query", help="Also which words of the question the answer needs; doubles the cost.")
    ] = False,
    budget: Annotated[
        int | None,
        typer.Option(
            "--budget",
            min=2,
            help="The most prompts that the generator scores for each part. With more than a stored explanation rests "
            "on, the model that made it goes on from there.",
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            metavar="METHOD",
            help="Which estimator gives the shares: auto, exact, gp, pmcshap, kernelshap, mcshap or permutation, with "
            "settings as in pmcshap:n_fits=100+released=true. Where the stored explanation is by another one, "
            "--generator computes what is missing.",
        ),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            metavar="METHOD,...",
            help="Also what these methods make of the same subsets of documents, at no further cost; attention "
            "(with --generator, of a model that is loaded here): attention × gradient of each document.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", dir_okay=False, help="Also write one HTML page, which needs no other file."
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute it now, whatever the store holds.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the stored explanation of a request; what it lacks is computed with the models that are given, and shown."""
    from ragtrace.analyze.attribution import compare_methods
    from ragtrace.analyze.claim_attribution import resting_on
    from ragtrace.attribution import Method
    from ragtrace.cli.terminal import existing, find_record
    from ragtrace.store import ATTRIBUTION, Store
    from ragtrace.types import replace, to_builtins

    _check(html)
    chosen = None if method is None else Method.parse(method)
    attention, methods = _as_compared(compare, generator)
    with Store.open(existing(store)) as opened:
        record = find_record(opened, request_id)
        analysis = None if fresh else opened.get_analysis(record.request_id, ATTRIBUTION)
        judged = opened.get_analysis(record.request_id)
        jobs = opened.jobs(kind=ATTRIBUTION, request_id=record.request_id, limit=1) if analysis is None else []
    known = analysis.explanation if analysis is not None else None
    parts = _missing(known, generator, retriever, query, budget, chosen, methods)
    if parts or attention:
        how = {"method": chosen or Method(), "compared": methods, "budget": budget}
        found = _computed(record, known, generator, retriever, parts, attention, how)
    else:
        found = None
    shown = _explained(record, _united(known, found), jobs[0] if jobs else None)
    if methods and shown.generator is not None and not shown.generator.compared:
        shown = replace(shown, generator=compare_methods(shown.generator, methods))
    if html is not None:
        claims = resting_on(judged.claims, shown.generator) if judged is not None else ()
        _write(html, record, shown, claims)
    if as_json:
        print_json(to_builtins(shown))
    else:
        from ragtrace.export import explanation_text

        console().print(explanation_text.render(record, shown))


def _missing(
    known: Explanation | None,
    generator: str | None,
    retriever: str | None,
    query: bool,
    budget: int | None,
    method: Method | None,
    compared: Sequence[Method],
) -> list[Part]:
    """The parts that are asked for and can be computed, or go on. Raises: ConfigurationError for want of a model."""
    stored = known.generator if known is not None else None
    words = known.query if known is not None else None
    if query and words is None and not generator:
        raise ConfigurationError("--query needs the model that reads the question; give --generator MODEL")
    if stored is not None and _goes_on(stored, budget) and not generator:
        raise ConfigurationError(
            f"--budget {budget} goes on with the stored explanation, which needs its model; give --generator with "
            f"{stored.model!r}"
        )
    why = None if stored is None else _other_subsets(stored, budget, method, compared)
    if stored is not None and why and not generator:
        raise ConfigurationError(f"{why}, which needs the model; give --generator with {stored.model!r}")
    parts: list[Part] = []
    if generator and (stored is None or why or _goes_on(stored, budget)):
        parts.append("generator")
    if generator and ((query and words is None) or _goes_on(words, budget)):
        parts.append("query")
    if retriever and (known is None or not known.retriever):
        parts.append("retriever")
    return parts


def _other_subsets(
    stored: GeneratorAttribution, budget: int | None, method: Method | None, compared: Sequence[Method]
) -> str | None:
    """Why documents are computed again: by another method, or since a comparison needs subsets that are not stored."""
    if stored.unit != "log_probability":
        return None
    is_smaller = stored.exact and budget is not None and budget < stored.evaluations
    is_other = method is not None and method.name != "auto" and not stored.exact and not _is_by(stored, method)
    if method is not None and (is_other or (is_smaller and method.name != "exact")):
        return f"--method {method} scores subsets of its own"
    if compared and stored.log is None:
        return "--compare reads subsets that are not stored with exact values"
    return None


def _is_by(stored: GeneratorAttribution, method: Method) -> bool:
    settings = {**stored.settings, **method.options}
    return stored.method.partition(" ")[0] == method.name and settings == stored.settings


def _goes_on(stored: GeneratorAttribution | None, budget: int | None) -> bool:
    """Whether the budget is more than what was stored rests on, and would tell more."""
    if stored is None or budget is None or stored.exact or stored.unit != "log_probability":
        return False
    return budget > stored.evaluations


def _computed(
    record: RequestRecord,
    known: Explanation | None,
    generator: str | None,
    retriever: str | None,
    parts: list[Part],
    attention: bool,
    how: dict[str, Any],
) -> Explanation:
    """how: what `explain_record` is told of the estimate: its method, its budget, what it is compared with."""
    from ragtrace.analyze.attribution import explain_record
    from ragtrace.engines.model_names import load_generator, load_retriever
    from ragtrace.engines.models import available_cores

    with progress() as bar:
        task = bar.add_task("loading models", total=None)
        reads = generator and (attention or {"generator", "query"} & set(parts))
        reader = load_generator(generator, workers=available_cores()) if generator and reads else None
        finder = load_retriever(retriever) if retriever and "retriever" in parts else None

        def tell(part: Part, done: int) -> None:
            bar.update(task, description=_DOING[part].format(done))

        on_progress: OnProgress = tell
        found = explain_record(
            record, generator=reader, retriever=finder, parts=parts, known=known, on_progress=on_progress, **how
        )
        if attention:
            bar.update(task, description="attention")
            found = _compared(record, known, found, reader)
    return found


def _compared(record: RequestRecord, known: Explanation | None, found: Explanation, reader: object) -> Explanation:
    """With attention beside the shares, where there are any. Raises: ConfigurationError for a server's model."""
    from ragtrace.analyze.attribution import compare_attention
    from ragtrace.engines.causal_lm import CausalLM
    from ragtrace.errors import ConfigurationError
    from ragtrace.types import replace

    if not isinstance(reader, CausalLM):
        raise ConfigurationError("--compare attention needs a model that is loaded here; a server's shows no attention")
    shares = found.generator or (known.generator if known is not None else None)
    return found if shares is None else replace(found, generator=compare_attention(record, shares, reader))


_DOING: dict[Part, str] = {
    "generator": "documents: {} prompts scored",
    "query": "words of the question: {} prompts scored",
    "retriever": "retrieval: {} of 2 sides",
}


def _united(stored: Explanation | None, computed: Explanation | None) -> Explanation | None:
    """What is stored, with the parts that were computed now in place of those that were missing or went on."""
    if stored is None or computed is None:
        return stored or computed
    from ragtrace.types import replace

    unknown = {part: why for part, why in stored.skipped.items() if part not in _parts(computed)}
    return replace(
        stored,
        generator=computed.generator or stored.generator,
        query=computed.query or stored.query,
        retriever=computed.retriever or stored.retriever,
        alignment=None if "alignment" in computed.skipped else computed.alignment or stored.alignment,
        skipped=unknown | computed.skipped,
        device=computed.device if computed.device != "cpu" else stored.device,
        seconds=stored.seconds + computed.seconds,
        gpu_seconds=stored.gpu_seconds + computed.gpu_seconds,
    )


def _parts(found: Explanation) -> set[str]:
    names = ("generator", "query", "retriever", "alignment")
    return {name for name in names if getattr(found, name)}


def _explained(record: RequestRecord, found: Explanation | None, job: JobRow | None) -> Explanation:
    """What explains anything. Raises: RecordError, which says what is missing, and what became of a worker's job."""
    from ragtrace.errors import RecordError

    if found is not None and _parts(found):
        return found
    if found is None:
        raise RecordError(
            f"request {record.request_id} has no stored explanation{_became(job)}; give --generator MODEL (what the "
            "answer used), --retriever MODEL (why documents were retrieved), or both"
        )
    parts: dict[str, list[str]] = {}
    for part, why in found.skipped.items():
        parts.setdefault(why, []).append(part)
    reasons = "; ".join(f"{' and '.join(names)}: {why}" for why, names in parts.items())
    raise RecordError(
        f"request {record.request_id} cannot be explained: {reasons or 'the stored explanation is empty'}"
    )


def _became(job: JobRow | None) -> str:
    """What became of the job of a request that is not explained."""
    if job is None:
        return ""
    if job.state == "dead":
        return f": its job failed ({job.error or 'reason unknown'}; ragtrace jobs retry {job.id} runs it again)"
    before = f", after {job.error}" if job.error else ""
    return f" yet: its job {'is being done' if job.state == 'leased' else 'waits for a worker with models'}{before}"


def _as_compared(compare: str | None, generator: str | None) -> tuple[bool, list[Method]]:
    """Whether attention is compared with, and the methods. Raises: ConfigurationError for what cannot be."""
    from ragtrace.attribution import Method

    names = [each.strip() for each in (compare or "").split(",") if each.strip()]
    attention = _ATTENTION in names
    if attention and not generator:
        raise ConfigurationError("--compare attention needs the model that read the prompt; give --generator MODEL")
    try:
        return attention, [Method.parse(each) for each in names if each != _ATTENTION]
    except ConfigurationError as error:
        raise ConfigurationError(f"--compare: {error}; or attention") from None


def _check(html: Path | None) -> None:
    """Say before anything is computed that a file cannot be written. Raises: ConfigurationError."""
    if html is not None and not html.absolute().parent.is_dir():
        from ragtrace.errors import ConfigurationError

        raise ConfigurationError.of("--html", str(html), "a file in a folder that exists")


def _write(html: Path, record: RequestRecord, found: Explanation, claims: Sequence[Claim]) -> None:
    from ragtrace.errors import ConfigurationError
    from ragtrace.export import explanation_html

    try:
        html.write_text(explanation_html.page(record, found, claims), encoding="utf-8")
    except OSError as error:
        raise ConfigurationError.of("--html", str(html), f"a file that can be written ({error.strerror})") from error
    console(stderr=True).print(f"written to {html}", soft_wrap=True)


def probe(
    request_id: Annotated[
        str | None, typer.Argument(help="A request id, or as much of its beginning as is unique.", show_default=False)
    ] = None,
    query: Annotated[str | None, typer.Option("--query", help="Instead of a request: what to search for.")] = None,
    named: Annotated[str | None, option("probe", metavar="MODULE:NAME")] = None,
    depth: Annotated[int, typer.Option("--depth", min=1, help="With --query: how many the application asks for.")] = 10,
    deeper: Annotated[int, typer.Option("--deeper", min=1, help="How many times deeper to ask.")] = 10,
    chunk: Annotated[
        list[str] | None,
        typer.Option("--chunk", metavar="ID", help="Say why this chunk is not found, or its text; may be repeated."),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask the index again, deeper and exactly: is evidence not indexed, missed, too deep, or removed by a filter?

    Nothing is stored; `ragtrace analyze --again --probe` does that.
    """
    from ragtrace.probe import load_probe

    if (request_id is None) == (query is None):
        raise ConfigurationError("give a request id, or --query with what to search for")
    if named is None:
        raise ConfigurationError(
            f"no probe is given; give --probe MODULE:NAME or {variable('probe')}: your object with "
            "probe(query, depth, exact) and has(id or text)"
        )
    asked = load_probe(named)
    if request_id is not None:
        _of_request(asked, request_id, store, deeper, chunk or [], as_json=as_json)
    else:
        _of_query(asked, query or "", depth, deeper, chunk or [], as_json=as_json)


def _of_request(
    probe: Probe, request_id: str, store: str | None, deeper: int, chunks: list[str], *, as_json: bool
) -> None:
    from ragtrace.analyze import examine, judge_id
    from ragtrace.analyze.analysis import with_probe
    from ragtrace.analyze.index_probe import probed
    from ragtrace.analyze.services import Services
    from ragtrace.cli.terminal import existing, find_record
    from ragtrace.export.evidence_path import verdict_words
    from ragtrace.probe import ask
    from ragtrace.registry.wording import FIXES, probe_lines
    from ragtrace.store import Store
    from ragtrace.types import to_builtins

    with Store.open(existing(store)) as opened:
        record = find_record(opened, request_id)
        gold = opened.find_golds([(record.service, record.query.original)]).get((record.service, record.query.original))
        services = Services(opened, judge_id())
        services.load([record.service])
        releases = opened.releases(record.service)
        view = services.view(record)
    analysis, case = examine(record, gold, releases, service=view)
    found = probed(probe, record, analysis, view, deeper=deeper)
    judged = with_probe(record, analysis, case, found, releases)
    told = _reasons_not_found(probe, chunks, ask(probe, record, deeper=deeper) if chunks else [], record)
    if as_json:
        print_json(
            {"probe": to_builtins(found), "diagnosis": to_builtins(judged.diagnosis), "chunks": list(map(_plain, told))}
        )
        return
    say = console().print
    say(verdict_words(judged.diagnosis), markup=False)
    for line in (*probe_lines(found), *(_line(one, found.asked) for one in told)):
        say(f"  {line}", markup=False)
    if found.cause is not None:
        say(FIXES[found.cause], markup=False)


def _of_query(probe: Probe, query: str, depth: int, deeper: int, chunks: list[str], *, as_json: bool) -> None:
    from ragtrace.probe import ask
    from ragtrace.types import Query, RequestRecord, RetrieveRun, to_builtins

    record = RequestRecord(
        request_id="", service="", query=Query(original=query), stages=(RetrieveRun(query=query, top_k=depth),)
    )
    answers = ask(probe, record, deeper=deeper)
    told = _reasons_not_found(probe, chunks, answers, record)
    rows = [
        (name, _rank(one.same, name), _rank(one.deep, name), _rank(one.exact or {}, name))
        for one in answers
        for name in dict.fromkeys([*one.same, *list(one.exact or {})[: 2 * depth]])
    ]
    if as_json:
        found = [{"chunk_id": row[0], "rank": row[1], "deep_rank": row[2], "exact_rank": row[3]} for row in rows]
        print_json({"query": query, "depth": depth, "found": found, "chunks": [to_builtins(one) for one, _ in told]})
        return
    columns = ("chunk", f"of {depth}", f"of {answers[0].asked}", "exact") if answers else ("chunk",)
    print_table(columns, [tuple(str(cell or "-") for cell in row) for row in rows])
    for one in told:
        console().print(_line(one, answers[0].asked), markup=False)


def _reasons_not_found(
    probe: Probe, chunks: list[str], answers: list[Answers], record: RequestRecord
) -> list[tuple[ProbedChunk, bool]]:
    """Each chunk with the reason why it is not found, and whether it is."""
    from ragtrace.probe import cause_of

    there = {candidate.chunk_id for candidate in record.candidates} or {name for one in answers for name in one.same}
    return [(cause_of(probe, name, answers, record), name in there) for name in chunks]


def _line(told: tuple[ProbedChunk, bool], asked: int) -> str:
    from ragtrace.registry.wording import FIXES, PROBE_CAUSES

    chunk, is_there = told
    if is_there:
        return f"{chunk.chunk_id}: it is among the candidates"
    ranks = f"rank {chunk.rank or '-'} of {asked}, exactly {chunk.exact_rank or '-'}"
    if chunk.cause is None:
        return f"{chunk.chunk_id}: the probe cannot tell why it is not among the candidates ({ranks})"
    return f"{chunk.chunk_id} {PROBE_CAUSES[chunk.cause]} ({ranks}). {FIXES[chunk.cause]}"


def _plain(told: tuple[ProbedChunk, bool]) -> dict[str, Any]:
    from ragtrace.types import to_builtins

    return {**to_builtins(told[0]), "is_candidate": told[1]}


def _rank(found: Any, name: str) -> int | None:
    candidate = found.get(name)
    return None if candidate is None else candidate.rank
