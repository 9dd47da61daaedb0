"""What an alert says: values, segment, suspected rollout, and where to go on.

The texts are Prometheus templates. What comes from labels is quoted for where it is used: a query, a shell, an address.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ragtrace.alerts.durations import Duration
from ragtrace.alerts.policy import PLATFORM, Indicator, Policy
from ragtrace.alerts.promql import BUDGET, bad_ratio, quoted, requests
from ragtrace.alerts.settings import BurnRate
from ragtrace.registry import Instrument

__all__ = ["explained", "labeled_owner", "of_indicator"]

_SOURCES: Final = "sources"
_TOLD: Final = "1h"

_DASHBOARDS: Final = {PLATFORM: "ragtrace-analyzer", _SOURCES: "ragtrace-sources"}


def _label(name: str) -> str:
    return "{{ $labels." + name + " }}"


def _triage(static: Mapping[str, str], labels: tuple[str, ...]) -> str:
    """The command that triages this alert: Alertmanager's payload of it, and so nothing else is needed.

    Whatever stands in a label, it is one string of JSON within one word of a shell's command.
    """
    known = [f'"{label}": {quoted(value)}' for label, value in static.items()]
    told = [f'"{label}": {_json_in_shell(f"$labels.{label}")}' for label in labels]
    starts = '{{ (query "time()" | first | value | toTime).Format "2006-01-02T15:04:05Z07:00" }}'
    alert = f'{{"status": "firing", "startsAt": "{starts}", "labels": {{{", ".join([*known, *told])}}}}}'
    return f"printf %s '{{\"alerts\": [{alert}]}}' | ragtrace triage alert -"


def _json_in_shell(value: str) -> str:
    """A template for a value as a string of JSON within single quotes of a shell.

    Go's quoting is JSON's but for some escapes; it is only used where control characters need one. There, a rare
    character beyond 16 bits that cannot be printed is replaced: JSON needs two escapes for it, and a template cannot
    compute them.
    """
    ends = r"reReplaceAll `'` `'\''`"
    quoted_by_go = [
        r"reReplaceAll `\\\\` `\u005c`",
        r"reReplaceAll `\\a` `\u0007`",
        r"reReplaceAll `\\v` `\u000b`",
        r"reReplaceAll `\\x(..)` `\u00${1}`",
        r"reReplaceAll `\\U.{8}` `\ufffd`",
    ]
    escaped = " | ".join([f'printf "%q" {value}', *quoted_by_go, ends])
    plain = " | ".join([value, r"reReplaceAll `\\` `\u005c`", r'reReplaceAll `"` `\u0022`', ends])
    return f'{{{{ if match `[[:cntrl:]]` {value} }}}}{{{{ {escaped} }}}}{{{{ else }}}}"{{{{ {plain} }}}}"{{{{ end }}}}'


def _query(series: str, **matchers: str) -> str:
    """A query of a template for the series with the alert's own labels; a matcher is the name of the label."""
    pattern = ",".join(f"{name}=%q" for name in matchers)
    arguments = " ".join(f"$labels.{label}" for label in matchers.values())
    return f"query (printf `{series}{{{pattern}}}` {arguments})"


def of_indicator(
    made: Policy, indicator: Indicator, alert: Mapping[str, str], burn_rates: Iterable[BurnRate]
) -> dict[str, str]:
    """The annotations of an indicator's page or ticket; the alert's value is a bound of the bad ratio.

    alert: its labels that are no series' own: alertname, severity, stage.
    """
    own = {"service": "service", "segment": "segment", "metric": "metric"}
    budget = "{{ with " + _query(BUDGET, **own) + " }}{{ . | first | value | humanizePercentage }}{{ end }}"
    said = [
        f"{indicator.instrument.brief} It {_required(indicator.instrument)} in a good request.",
        f"At least {{{{ $value | humanizePercentage }}}} of the requests are bad, at most {budget} may be.",
        *(_ratios(window, own) for window in {rate.short.name: rate.short for rate in burn_rates}.values()),
    ]
    name = indicator.instrument.id.replace("_", " ")
    summary = f"{indicator.stage.name}: {name} is bad in {_label('segment')} of {_label('service')}"
    return {
        "summary": summary,
        "description": "\n".join(said),
        "release": _release(made, indicator.stage.components),
        **_links(made, indicator.instrument, indicator.stage.name, ("service", "segment")),
        "triage": _triage(alert, ("service", "segment")),
    }


def _ratios(window: Duration, own: dict[str, str]) -> str:
    """The bad ratio of a window, and of how many requests, by reference."""
    counted = f"{requests(window)}{{service=%q,segment=%q,metric=%q,reference=%q}}"
    number = (
        f"{{{{ with query (printf `{counted}` $labels.service $labels.segment $labels.metric .Labels.reference) }}}}"
        ' of {{ . | first | value | printf "%.0f" }} requests{{ end }}'
    )
    ratio = f"{{{{ range {_query(bad_ratio(window), **own)} }}}} {{{{ .Value | humanizePercentage }}}}{number}"
    return f"Last {window.name}:{ratio} by {{{{ .Labels.reference }}}};{{{{ end }}}}"


def _required(instrument: Instrument) -> str:
    assert instrument.objective is not None
    bound = "at least" if instrument.objective.direction == ">=" else "at most"
    return f"is {bound} {instrument.objective.threshold:g}"


def explained(
    made: Policy,
    instrument: Instrument,
    alert: Mapping[str, str],
    summary: str,
    description: str,
    labels: tuple[str, ...],
) -> dict[str, str]:
    """The annotations of any other alert. Where a stage is answerable: the suspected release, and how to triage."""
    place = _SOURCES if "source" in labels else alert["stage"]
    texts = {"summary": summary, "description": description}
    stage = next((one for one in made.registry.stages if one.name == instrument.stage), None)
    if stage is not None:
        texts["release"] = _release(made, stage.components)
    texts |= _links(made, instrument, place, labels)
    if stage is not None:
        texts["triage"] = _triage(alert, labels)
    return texts


def _links(made: Policy, instrument: Instrument, place: str, labels: tuple[str, ...]) -> dict[str, str]:
    """The dashboard of the stage and the page of the runbook."""
    to = made.settings.links
    shown = [f"var-{name}={{{{ $labels.{name} | urlquery }}}}" for name in labels if name in ("service", "segment")]
    address = f"{to.grafana.rstrip('/')}/d/{_DASHBOARDS.get(place, f'ragtrace-{place}')}"
    return {
        "dashboard": "?".join(filter(None, [address, "&".join(shown)])),
        "runbook": f"{to.runbooks.rstrip('/')}/{instrument.runbook}.md",
    }


def _release(made: Policy, components: tuple[str, ...]) -> str:
    """The newest release of the stage's components within the time in which one is suspected. What the exporter told
    within the last hour counts: an alert must not deny a release because a scrape failed."""
    pattern = "|".join(components)
    since = f"{made.settings.releases.suspected.seconds:g}"
    series = f'{made.series("release_timestamp")}{{service=%q,component=~"{pattern}"}}'
    newest = f"topk(1, last_over_time({series}[{_TOLD}]) <= time() > time() - {since})"
    found = (
        '{{ . | first | label "component" }}={{ . | first | label "version" }}'
        " at {{ . | first | value | humanizeTimestamp }}"
    )
    none = f"none known of {', '.join(components)} within {made.settings.releases.suspected.name}"
    return f"{{{{ with query (printf `{newest}` $labels.service) }}}}{found}{{{{ else }}}}{none}{{{{ end }}}}"


def labeled_owner(made: Policy, stage: str) -> str:
    """The label `owner`: that of the first override that fits, else the stage's."""
    text = made.owner(stage)
    for override, owner in reversed(made.overriding(stage)):
        text = f"{{{{ if {_fits(override.service, override.segment)} }}}}{owner}{{{{ else }}}}{text}{{{{ end }}}}"
    return text


def _fits(service: str | None, segment: str | None) -> str:
    wanted = {"service": service, "segment": segment}
    tests = [f"(eq $labels.{name} {quoted(value)})" for name, value in wanted.items() if value is not None]
    return f"and {' '.join(tests)}" if len(tests) > 1 else tests[0].strip("()")
