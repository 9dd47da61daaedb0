"""Annotations of alerts: what happened, the values, the suspected release, and where to go on.

The texts are Prometheus templates. What comes from labels is quoted for where it is used: a query, a shell, an address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ragtrace.alerts._policy import PLATFORM, AlertPolicy, Indicator
from ragtrace.alerts._recording_rules import (
    BUDGET,
    DISTANT,
    bad_ratio,
    doubted,
    not_known,
    quoted,
    requests,
    risen,
    states,
    usual,
)
from ragtrace.alerts.settings import BurnRate, Duration
from ragtrace.errors import ConfigurationError
from ragtrace.formats import parse_span
from ragtrace.registry import Instrument, StageInfo

__all__ = ["ALL_SEGMENTS", "labeled_owner", "of_burn", "of_instrument", "of_suspicion"]

_SOURCES: Final = "sources"
_EXPOSURE: Final = "exposure"
_TOLD: Final = "1h"
_SAID: Final = 0.1  # share from which it is said that an earlier stage is not known
_SINCE: Final = {"page": "3h ago", "ticket": "1d ago"}
ALL_SEGMENTS: Final = "other"  # the exporter's name for those past its limit

_DASHBOARDS: Final = {PLATFORM: "ragtrace-analyzer", _SOURCES: "ragtrace-sources", _EXPOSURE: "ragtrace-exposure"}
_SHARE: Final = "{{ . | first | value | humanizePercentage }}"
_NUMBER: Final = '{{ . | first | value | printf "%.0f" }}'
_OWN: Final = {"service": "$labels.service", "segment": "$labels.segment"}


def _label(name: str) -> str:
    return "{{ $labels." + name + " }}"


def _word(name: str) -> str:
    """The value of a label as one word of a shell's command."""
    return "'{{ $labels." + name + r" | reReplaceAll `'` `'\''` }}'"


def _query(series: str, static: str = "", **matchers: str) -> str:
    """A query of a template; static: matchers that are known, matchers: of the alert's own labels."""
    pattern = ",".join(filter(None, [static, *(f"{name}=%q" for name in matchers)]))
    return f"query (printf `{series.replace('{}', '{' + pattern + '}')}` {' '.join(matchers.values())})"


def _with(query: str, text: str) -> str:
    """The text where the query has a result, which is the text's dot."""
    return "{{ with " + query + " }}" + text + "{{ end }}"


def of_burn(made: AlertPolicy, indicator: Indicator, severity: str, burn_rates: Iterable[BurnRate]) -> dict[str, str]:
    """The annotations of a stage's page or ticket; the alert's value is a bound of the bad ratio."""
    stage = indicator.stage
    own = f"stage={quoted(stage.name)}"
    budget = _with(_query(f"{BUDGET}{{}}", own, **_OWN), _SHARE)
    said = [
        f"At least {{{{ $value | humanizePercentage }}}} of the requests that are judged break at {stage.name}, "
        f"at most {budget} may.",
        *(_ratios(window, own) for window in {rate.short.name: rate.short for rate in burn_rates}.values()),
    ]
    return {
        "summary": f"{stage.name}: requests break here in {_label('segment')} of {_label('service')}",
        "description": "\n".join(said) + "".join(_behind(made, indicator)),
        **_of_stage(made, stage, severity),
    }


def _ratios(window: Duration, own: str) -> str:
    """The bad ratio of a window, and of how many requests, by reference and judge."""
    return _by_judge(window, bad_ratio(window), requests(window), own)


def _by_judge(window: Duration, ratio: str, number: str, own: str, before: str | None = None) -> str:
    """Of the series of a stage in a window: the ratio, of how many, and what it was before, by reference and judge."""
    by = _OWN | {"reference": ".Labels.reference", "judge": ".Labels.judge"}
    said = " {{ .Value | humanizePercentage }}" + _with(_query(f"{number}{{}}", own, **by), " of " + _NUMBER)
    if before is not None:
        said += _with(_query(f"{before}{{}}", own, **by), ", usually " + _SHARE)
    said += " by {{ .Labels.reference }}, judge {{ .Labels.judge }};"
    return f"Last {window.name}:" + "{{ range " + _query(f"{ratio}{{}}", own, **_OWN) + " }}" + said + "{{ end }}"


def _behind(made: AlertPolicy, indicator: Indicator) -> Iterator[str]:
    """A line for each earlier stage that is often not known, and for each where doubt began to rise."""
    window = made.settings.growth.suspected.windows[0].window
    for earlier in indicator.upstream:
        stage = f"stage={quoted(earlier)}"
        yield _with(
            _query(f"max({not_known(window)}{{}}) > {_SAID:g}", stage, **_OWN),
            f"\n{indicator.name} broke; whether {earlier} broke before is not known in {_SHARE} of the requests of the "
            f"last {window.name}.",
        )
        yield _with(
            _query(f"{risen()}{{}}", stage, **_OWN),
            f"\n{earlier} is in doubt more often than usual, in {_SHARE} of the requests: look there, too.",
        )


def of_suspicion(made: AlertPolicy, indicator: Indicator) -> dict[str, str]:
    """The annotations of a ticket for a rise of doubt."""
    name, own = indicator.name, f"stage={quoted(indicator.name)}"
    windows = [one.window for one in made.settings.growth.suspected.windows]
    said = [
        f"{{{{ $value | humanizePercentage }}}} of the requests look as if {name} broke; none proves it.",
        *(_by_judge(over, doubted(over), states(over), own, usual(over)) for over in windows),
        *(_distant(over, own) for over in windows[-1:]),
        _reason(made, windows[len(windows) // 2], own),
    ]
    return {
        "summary": f"{name}: more requests than usual look as if they break here in {_label('segment')} of "
        f"{_label('service')}",
        "description": "\n".join(said),
        **_of_stage(made, indicator.stage, "ticket"),
    }


def _distant(over: Duration, own: str) -> str:
    """How many answers are far from their questions, where a model reads them and the stage is that of answers."""
    known = _query(f"{usual(over, DISTANT)}{{}}", own, **_OWN)
    said = _by_judge(over, doubted(over, DISTANT), states(over), own, usual(over, DISTANT))
    return _with(known, f"Answers far from their questions. {said}")


def _reason(made: AlertPolicy, window: Duration, own: str) -> str:
    series = f"{made.series('sli_unjudged_requests')}{{}}"
    static = f'{own},scope="all",stratum="random"'
    most = _query(f"topk(1, sum by (reason) (increase({series}[{window}])))", static, **_OWN)
    return _with(most, 'Most frequent reason: {{ . | first | label "reason" }}.')


def of_instrument(
    made: AlertPolicy,
    instrument: Instrument,
    severity: str,
    summary: str,
    description: str,
    labels: tuple[str, ...],
) -> dict[str, str]:
    """The annotations of an alert that watches a metric. Where a stage answers for it: as of that stage's alerts.

    Raises: ConfigurationError where neither the metric nor a stage of it names the page of the runbook.
    """
    texts = {"summary": summary, "description": description}
    stage = next((one for one in made.registry.stages if one.name == instrument.stage), None)
    if instrument.runbook is None and (stage is None or "segment" not in labels):
        raise ConfigurationError(
            f"alerts watch the metric {instrument.id!r}, which names no page of docs/runbooks/; give it a runbook in "
            "metrics/*.yaml"
        )
    if stage is None:
        return texts | _links(made, PLATFORM, instrument.runbook, labels)
    if "provider" in labels:
        return texts | _of_provider(made, stage, instrument.runbook)
    if "source" not in labels:
        return texts | _of_stage(made, stage, severity, instrument.runbook)
    links = _links(made, _SOURCES, instrument.runbook, labels)
    triage = f"ragtrace source list --service={_word('service')}"
    return {**texts, "release": _release(made, stage.components), **links, "triage": triage}


def _of_provider(made: AlertPolicy, stage: StageInfo, runbook: str | None) -> dict[str, str]:
    """The suspected release, of this stage or an earlier one, the links, and the command that shows all providers."""
    earlier = [one for one in made.registry.stages if one.order <= stage.order]
    return {
        "release": _release(made, tuple(component for one in earlier for component in one.components)),
        **_links(made, _EXPOSURE, runbook, ("service",)),
        "triage": f"ragtrace exposure report --service={_word('service')} --since='{_SINCE['ticket']}' "
        "--before='2d ago'",
    }


def _of_stage(made: AlertPolicy, stage: StageInfo, severity: str, runbook: str | None = None) -> dict[str, str]:
    """The suspected release, the links, and the commands that triage the alert and say whether it was right."""
    service, segment = (f"--{name}={_word(name)}" for name in ("service", "segment"))
    named = f'{{{{ if ne $labels.segment "{ALL_SEGMENTS}" }}}} -- {_word("segment")}{{{{ end }}}}'
    return {
        "release": _release(made, stage.components),
        **_links(made, stage.name, runbook or stage.runbook, ("service", "segment")),
        **(
            _pages(made, stage.name, severity)
            or {
                "triage": f"ragtrace triage segment {service} --since='{_SINCE[severity]}'{named}",
                "answer": f"ragtrace triage judge {service} {segment} --stage={stage.name} --severity={severity} "
                "right|wrong-stage|false",
            }
        ),
    }


def _pages(made: AlertPolicy, stage: str, severity: str) -> dict[str, str]:
    """The address of the page that triages the alert and takes whether it was right; nothing where none is served."""
    base = made.settings.links.pages.rstrip("/")
    if not base:
        return {}
    of = "service={{ $labels.service | urlquery }}&segment={{ $labels.segment | urlquery }}"
    window = f"since={_moment(int(parse_span('since', _SINCE[severity].removesuffix(' ago'))))}&until={_moment(0)}"
    about = f"{base}/triage?{of}&{window}&stage={stage}&severity={severity}"
    return {"triage": about, "answer": f"{about}#judge"}


def _moment(before: int) -> str:
    """The time so many seconds before the alert was evaluated, in nanoseconds: a link means the same the day after."""
    return f'{{{{ with query "(time() - {before}) * 1e9" }}}}{{{{ . | first | value | printf "%.0f" }}}}{{{{ end }}}}'


def _links(made: AlertPolicy, place: str, runbook: str | None, labels: tuple[str, ...]) -> dict[str, str]:
    """The dashboard of a place and the page of the runbook."""
    to = made.settings.links
    shown = [f"var-{name}={{{{ $labels.{name} | urlquery }}}}" for name in labels if name in ("service", "segment")]
    address = f"{to.grafana.rstrip('/')}/d/{_DASHBOARDS.get(place, f'ragtrace-{place}')}"
    return {
        "dashboard": "?".join(filter(None, [address, "&".join(shown)])),
        "runbook": f"{to.runbooks.rstrip('/')}/{runbook}.md",
    }


def _release(made: AlertPolicy, components: tuple[str, ...]) -> str:
    """The newest release of the stage's components within the time in which one is suspected. What the exporter told
    within the last hour counts: an alert must not deny a release because a scrape failed."""
    pattern = "|".join(components)
    since = f"{made.settings.releases.suspected.seconds:g}"
    series = f'{made.series("release_timestamp")}{{service=%q,component=~"{pattern}"}}'
    newest = f"topk(1, last_over_time({series}[{_TOLD}]) <= time() > time() - {since})"
    version = (
        '{{ . | first | label "component" }}={{ . | first | label "version" }}'
        " at {{ . | first | value | humanizeTimestamp }}"
    )
    none = f"none known of {', '.join(components)} within {made.settings.releases.suspected.name}"
    return f"{{{{ with query (printf `{newest}` $labels.service) }}}}{version}{{{{ else }}}}{none}{{{{ end }}}}"


def labeled_owner(made: AlertPolicy, stage: str) -> str:
    """The label `owner`: that of the first override that fits, else the stage's."""
    text = made.owner(stage)
    for override, owner in reversed(made.overriding(stage)):
        text = f"{{{{ if {_fits(override.service, override.segment)} }}}}{owner}{{{{ else }}}}{text}{{{{ end }}}}"
    return text


def _fits(service: str | None, segment: str | None) -> str:
    wanted = {"service": service, "segment": segment}
    tests = [f"(eq $labels.{name} {quoted(value)})" for name, value in wanted.items() if value is not None]
    return f"and {' '.join(tests)}" if len(tests) > 1 else tests[0].strip("()")
