"""The rules under promtool: every scenario, what the alerts say, when they fire, and that the tests can fail."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from math import asin, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from ragtrace.alerts import check, render, run_tests, write
from ragtrace.alerts._policy import known_registry, policy
from ragtrace.alerts._recording_rules import selector
from ragtrace.alerts._traffic import JUDGE, SERVICE, Phase, judged, requests
from ragtrace.alerts.settings import read_settings
from ragtrace.sample_statistics import wilson
from tests.alerts.batches import in_batches
from tests.alerts.mutants import MUTANTS, Mutant, failing

AWKWARD = 'it\'s "quoted" $HOME `x` \\ é'
SOME = [mutant for mutant in MUTANTS if mutant.name in ("no gate", "no bound", "no silence beside upstream")]

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is missing; apt-get install prometheus"
)


def test_every_scenario_holds(tmp_path: Path) -> None:
    """Under the shipped settings, as they stand in alerts/generated/."""
    files = render()
    tests = {name: yaml.safe_load(text) for name, text in files.items() if name.endswith("tests.yml")}
    assert len(tests) == 3
    write(tmp_path, files | {name: yaml.safe_dump(in_batches(body)) for name, body in tests.items()})
    found = run_tests(tmp_path)
    assert found.good, found.said


def test_scenarios_follow_the_settings(tmp_path: Path) -> None:
    """Another objective, other windows and owners, and the same scenarios hold."""
    own: dict[str, Any] = {
        "targets": {"retrieval": 0.97, "ranking": 0.96},
        "owners": {"ranking": "rankers"},
        "burn_rates": {"page": [{"short": "10m", "long": "40m", "factor": 5, "minimum": 4}]},
        "hold": {"page": {"retrieval": "1m", "ranking": "5m", "generation": "8m", "citation": "9m"}},
    }
    config = tmp_path / "own.yaml"
    config.write_text(yaml.safe_dump(own), encoding="utf-8")
    files = render(config)
    names = {"selection failure", "later stage burns first", "few requests, bad by chance", "slow recall failure"}
    write(tmp_path, files | only(files, names))
    found = run_tests(tmp_path)
    assert found.good, found.said
    assert 'owner="rankers"' in files["tests.yml"]


def only(files: dict[str, str], names: set[str]) -> dict[str, str]:
    """The files of tests with these scenarios alone."""
    tests = {name: yaml.safe_load(text) for name, text in files.items() if name.endswith("tests.yml")}
    for body in tests.values():
        body["tests"] = [test for test in body["tests"] if test["name"] in names]
    assert {test["name"] for body in tests.values() for test in body["tests"]} == names
    return {name: yaml.safe_dump(body) for name, body in tests.items()}


@pytest.mark.parametrize("mutant", SOME, ids=lambda mutant: mutant.name)
def test_a_rule_without_one_of_its_conditions_fails(mutant: Mutant) -> None:
    """Three of `make alert-mutants`."""
    assert failing(mutant, mutant.scenario)


@pytest.mark.parametrize("scale", [1.0, 60.0, 600.0])
def test_promtool_and_amtool_accept_what_is_rendered(tmp_path: Path, scale: float) -> None:
    """At every time scale."""
    write(tmp_path, render(time_scale=scale))
    for found in check(tmp_path):
        assert found.good, found.said


def test_routes_lead_to_the_owners(tmp_path: Path) -> None:
    """As Alertmanager's own program reads them, a segment's owner first."""
    if shutil.which("amtool") is None:
        pytest.skip("amtool is missing; apt-get install prometheus-alertmanager")
    config = tmp_path / "own.yaml"
    config.write_text("segments: [{service: shop, segment: legal, owners: {ranking: lawyers}}]\n", encoding="utf-8")
    write(tmp_path, render(config))

    def receiver(*labels: str) -> str:
        command = ["amtool", "config", "routes", "test", f"--config.file={tmp_path / 'alertmanager.yml'}", *labels]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert receiver("stage=retrieval", "severity=page", "service=shop", "segment=legal") == "retrieval-indexing-page"
    assert receiver("stage=ranking", "severity=page", "service=shop", "segment=legal") == "lawyers-page"
    assert receiver("stage=ranking", "severity=ticket", "service=shop", "segment=other") == "ranking-context-ticket"
    assert receiver("stage=generation", "severity=page") == "generation-governance-page"
    assert receiver("stage=citation", "severity=ticket") == "release-guard-ticket"
    assert receiver("stage=platform", "severity=page") == "platform-page"
    assert receiver("severity=page") == "platform-ticket"


def groups_behind(files: dict[str, str], *wanted: str) -> list[dict[str, Any]]:
    """The groups of some alerts' rules, or of expressions, and of the recording rules that these and their annotations
    read, those alone: promtool takes as long as there are rules."""
    recording, alerts = (yaml.safe_load(files[name])["groups"] for name in ("recording.yml", "alerts.yml"))
    rules = [rule for group in alerts for rule in group["rules"] if rule["alert"] in wanted]
    asked, needed = {json.dumps(rule) for rule in rules} | set(wanted), set[str]()
    while asked:
        names = set(re.findall(r"ragtrace:\w[\w:]*", " ".join(asked))) - needed
        needed |= names
        asked = {each["expr"] for group in recording for each in group["rules"] if each["record"] in names}
    kept = [group | {"rules": [each for each in group["rules"] if each["record"] in needed]} for group in recording]
    kept.append({"name": "asked", "rules": rules})
    return [group for group in kept if group["rules"]]


def run_promtool(
    folder: Path, groups: list[dict[str, Any]], test: dict[str, Any], interval: str = "1m"
) -> subprocess.CompletedProcess[str]:
    """What promtool says of one test, under these groups of rules alone."""
    body = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": interval,
        "group_eval_order": [group["name"] for group in groups],
        "tests": [test],
    }
    files = {"rules.yml": {"groups": groups}, "tests.yml": body}
    write(folder, {name: yaml.safe_dump(text, allow_unicode=True) for name, text in files.items()})
    command = ["promtool", "test", "rules", str(folder / "tests.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "got:" in done.stdout + done.stderr, done.stdout + done.stderr  # no broken syntax
    return done


class Fired:
    """What promtool says a stage's page was at a minute of a fault. told: until which minute the exporter tells of
    releases. fault: how much of what, in place of a share of broken requests."""

    def __init__(
        self,
        folder: Path,
        bad: float,
        minute: int,
        segment: str = "first",
        told: int = 300,
        stage: str = "retrieval",
        **fault: Any,
    ) -> None:
        made = policy(known_registry(), read_settings())
        phases = [Phase(180), Phase(120, {stage: bad}, **fault)]
        released = {"service": SERVICE, "component": "index", "version": "v7"}
        older = {"service": SERVICE, "component": "reranker", "version": "v3"}
        series = [
            *judged(made, phases, segment),
            *requests(made, phases, segment),
            {"series": selector(made.series("release_timestamp"), released), "values": f"10680x{told}"},
            {"series": selector(made.series("release_timestamp"), older), "values": "10800x300"},
        ]
        alert = f"Ragtrace{stage.title()}Page"
        asked = {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": []}
        test = {"interval": "1m", "input_series": series, "alert_rule_test": [asked]}
        done = run_promtool(folder, groups_behind(render(), alert), test)
        self.said = done.stdout + done.stderr

    def annotation(self, name: str) -> str:
        """The value of an annotation, as it would be sent."""
        found = re.search(rf'\b{name}=("(?:[^"\\]|\\.)*")', self.said)
        assert found is not None, self.said
        return unquoted(found[1])


def unquoted(text: str) -> str:
    """What Go's quoting stands for: JSON's, and a few escapes more."""
    more = {r"\a": r"\u0007", r"\v": r"\u000b"}

    def read(match: re.Match[str]) -> str:
        escape = match[0]
        if escape.startswith(r"\x"):
            return rf"\u00{escape[2:]}"
        if escape.startswith(r"\U"):
            return chr(int(escape[2:], 16))
        return more.get(escape, escape)

    return str(json.loads(re.sub(r"\\(?:x..|U.{8}|.)", read, text)))


def firing(folder: Path, alert: str, series: dict[str, str], at: str, interval: str = "1m") -> str:
    """What promtool says of an alert at a time; empty when it does not fire."""
    asked = {"eval_time": at, "alertname": alert, "exp_alerts": []}
    test = {"interval": interval, "input_series": written(series), "alert_rule_test": [asked]}
    done = run_promtool(folder, groups_behind(render(), alert), test, interval)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def written(series: dict[str, str]) -> list[dict[str, str]]:
    """Values by series, as promtool reads them."""
    return [{"series": name, "values": values} for name, values in series.items()]


def assert_firing(
    folder: Path,
    series: list[dict[str, str]],
    expected: dict[str, list[dict[str, str]]],
    alerts: tuple[str, ...],
    interval: str = "1m",
    *,
    evaluated: str | None = None,
    **settings: Any,
) -> None:
    """Of these alerts, those that are expected fire at each time, by service and segment, and no others."""
    config = folder / "own.yaml"
    config.write_text(yaml.safe_dump(settings or {"targets": {}}), encoding="utf-8")
    checks = [
        {
            "expr": 'count by (alertname, service, segment) (ALERTS{alertstate="firing"})',
            "eval_time": at,
            "exp_samples": [
                {"labels": selector("ALERTS", labels)[len("ALERTS") :], "value": 1} for labels in labels_of
            ],
        }
        for at, labels_of in expected.items()
    ]
    test = {"interval": interval, "input_series": series, "promql_expr_test": checks}
    done = run_promtool(folder, groups_behind(render(config), *alerts), test, evaluated or interval)
    assert done.returncode == 0, done.stdout + done.stderr


DELAY = selector("ragtrace_source_delay_seconds", service="shop", source="tariffs")
ERRORS = selector("ragtrace_internal_errors_total", where="sink")


def test_a_delay_that_lasts_is_told_as_long_as_it_lasts(tmp_path: Path) -> None:
    """For days: the delay itself does not become the usual one within hours."""
    alert = "RagtraceSourceDelayTicket"
    lasts = [{"alertname": alert, "service": "shop"}]
    expected = {"14d": [], "14d4h": lasts, "15d": lasts, "18d": lasts}
    assert_firing(tmp_path, written({DELAY: "60x4032 7200x2016"}), expected, (alert,), "5m", evaluated="1h")


def test_errors_of_a_counter_that_begins_above_0_are_found(tmp_path: Path) -> None:
    """It has no increase."""
    series = {ERRORS: "_x60 500+0x60"}
    assert firing(tmp_path, "RagtraceInternalErrors", series, "75m")
    assert not firing(tmp_path, "RagtraceInternalErrors", {ERRORS: "_x60 5+0x60"}, "75m")


def growing(service: str, segment: str) -> dict[str, str]:
    """Doubt of ranking and rank shift that have grown, in one segment."""
    labels = {"service": service, "segment": segment, "stratum": "random", "reference": "proxy"}
    ranking = labels | {"stage": "ranking", "judge": JUDGE}
    judged = ranking | {"scope": "all"}
    suspected = judged | {"state": "suspected", "reason": "low_match"}
    return {
        selector("ragtrace_sli_requests_total", judged): "0+100x144 14440+40x35",
        selector("ragtrace_sli_good_requests_total", judged): "0+100x144 14440+40x35",
        selector("ragtrace_sli_unjudged_requests_total", suspected): "0x144 60+60x35",
        selector("ragtrace_sli_doubted_requests_total", ranking): "0x144 60+60x35",
        selector("ragtrace_rank_shift_sum", labels): "0+10x144 1540+100x35",
        selector("ragtrace_rank_shift_count", labels): "0+10x180",
    }


CANARY = {"segment": "canary", "alert": False}
SILENCES: list[dict[str, Any]] = [
    {"service": "loud", "segment": "canary", "alert": True},
    {"service": "strict", "targets": {"ranking": 0.97}},
    {"service": "nobody", "alert": True},
    CANARY,
    {"segment": "~.*", "alert": False},
]
SPEAKING = [("loud", "canary"), ("strict", "canary"), ("shop", "other")]
SILENT = [("shop", "canary"), ("shop", "~.*")]


def speaking(*alerts: str) -> list[dict[str, str]]:
    """These alerts, in each segment that is not silent."""
    return [
        {"alertname": alert, "service": service, "segment": segment}
        for alert in alerts
        for service, segment in SPEAKING
    ]


def test_growth_keeps_still_in_a_silent_segment(tmp_path: Path) -> None:
    """By the first override that fits the service and the segment; a tilde before a name is part of the name."""
    alerts = ("RagtraceRankingSuspectedTicket", "RagtraceRankShiftTicket")
    series = [one for where in (*SPEAKING, *SILENT) for one in written(growing(*where))]
    assert_firing(tmp_path, series, {"29h50m": speaking(*alerts)}, alerts, "10m", segments=SILENCES)


def test_pages_keep_still_in_a_silent_segment(tmp_path: Path) -> None:
    """Likewise."""
    labels = {"stratum": "random", "reference": "proxy", "stage": "retrieval", "scope": "conditional"}
    series = {
        selector("ragtrace_sli_requests_total", labels, service=service, segment=segment): "0+10x60"
        for service, segment in (*SPEAKING, *SILENT)
    }
    alert = "RagtraceRetrievalPage"
    assert_firing(tmp_path, written(series), {"50m": speaking(alert)}, (alert,), segments=SILENCES)


LOOSE_UPSTREAM = {
    "targets": {"retrieval": 0.8, "ranking": 0.9, "citation": 0.7},
    "burn_rates": {
        "page": [{"short": "10m", "long": "2h", "factor": 2, "minimum": 5}],
        "ticket": [{"short": "6h", "long": "1d", "factor": 1.2, "minimum": 20}],
    },
    "hold": {"page": {"retrieval": "1m", "ranking": "3m", "generation": "5m", "citation": "7m"}},
}
ALL_AFTER_RELEASES = {"releases": {"required": {"retrieval": "6h", "generation": "2h"}}}


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (LOOSE_UPSTREAM, {"later stage burns first", "slow recall failure", "citation drop long after a release"}),
        (ALL_AFTER_RELEASES, {"two faults in one segment", "two faults in two segments", "no request was ever good"}),
    ],
)
def test_scenarios_fit_other_objectives(tmp_path: Path, settings: dict[str, Any], names: set[str]) -> None:
    """An earlier stage that may be worse than a later one; pages of several stages only after a release."""
    config = tmp_path / "own.yaml"
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    files = render(config)
    write(tmp_path, files | only(files, names))
    found = run_tests(tmp_path)
    assert found.good, found.said


def test_rules_that_stand_twice_are_a_failure(tmp_path: Path) -> None:
    """promtool says so, and exits with 0 unless it is asked not to."""
    files = render()
    body = yaml.safe_load(files["recording.yml"])
    body["groups"][0]["rules"].append(body["groups"][0]["rules"][0])
    write(tmp_path, files | {"recording.yml": yaml.safe_dump(body)})
    rules, _ = check(tmp_path)
    assert not rules.good
    assert "duplicate" in rules.said


def test_a_page_says_what_is_known(tmp_path: Path) -> None:
    """Values, segment, the newest release of the stage's components, and links with the labels in them."""
    page = Fired(tmp_path, 0.8, 240, AWKWARD)
    assert page.annotation("summary") == f"retrieval: requests break here in {AWKWARD} of {SERVICE}"
    told = page.annotation("description")
    assert "At least 75.9% of the requests that are judged break at retrieval, at most 5% may." in rounded(told)
    assert f"Last 30m: 80% of 300 by proxy, judge {JUDGE};" in told
    assert "not known" not in told
    assert page.annotation("release") == "index=v7 at 1970-01-01 02:58:00 +0000 UTC"
    assert page.annotation("runbook") == "docs/runbooks/retrieval.md"
    assert page.annotation("dashboard").startswith(
        "http://localhost:3000/d/ragtrace-retrieval?var-service=ragtrace-test"
    )


def test_a_release_is_not_denied_because_a_scrape_failed(tmp_path: Path) -> None:
    """The exporter has been away for a quarter of an hour: what it had told of the release still stands."""
    assert Fired(tmp_path, 0.8, 240, told=225).annotation("release").startswith("index=v7 at ")


def rounded(text: str) -> str:
    """Shares with one digit."""
    return re.sub(r"(\d\.\d)\d*%", r"\1%", text)


def test_a_page_behind_a_stage_that_is_not_known_says_so(tmp_path: Path) -> None:
    """In how many requests, and of an earlier stage that is known, nothing."""
    page = Fired(tmp_path, 0.8, 240, stage="generation", not_known={"retrieval": 0.4})
    told = rounded(page.annotation("description"))
    assert (
        "generation broke; whether retrieval broke before is not known in 40% of the requests of the last 1h." in told
    )
    assert "ranking" not in told


def test_a_page_says_where_an_earlier_stage_is_in_doubt_more(tmp_path: Path) -> None:
    """It may be the cause, though the requests that page show no sign of it."""
    page = Fired(tmp_path, 0.8, 240, stage="generation", suspected={"retrieval": 0.5})
    told = rounded(page.annotation("description"))
    assert "retrieval is in doubt more often than usual, in 50% of the requests: look there, too." in told


def test_a_ticket_for_suspicion_says_what_is_usual_and_why(tmp_path: Path) -> None:
    """By window, reference and judge."""
    told = rounded(firing(tmp_path, "RagtraceRankingSuspectedTicket", growing("shop", "legal"), "29h50m", "10m"))
    assert "60% of the requests look as if ranking broke; none proves it." in told
    assert f"Last 1h: 60% of 600, usually 10% by proxy, judge {JUDGE};" in told
    assert "Most frequent reason: low_match." in told


def test_a_service_that_cannot_be_judged_is_told_why(tmp_path: Path) -> None:
    """And what would help."""
    labels = {"service": "shop", "segment": "a", "scope": "all", "stratum": "random", "reference": "none"}
    series = {
        selector(
            "ragtrace_sli_unjudged_requests_total",
            labels | {"stage": stage, "judge": JUDGE, "state": "not_known", "reason": reason},
        ): values
        for stage, reason, values in (("retrieval", "undecided", "0+1x90"), ("generation", "language", "0+2x90"))
    }
    told = firing(tmp_path, "RagtraceUnjudged", series, "85m")
    assert "Retrieval and generation can be judged in at most 0% of the requests." in told
    assert "Most frequent reason: language. Let a model of that language judge the claims" in told


@pytest.mark.parametrize("segment", [AWKWARD, "-x", "\x01\a\v\n\x7f \\a\\v\\\\ 'é'", "\U000e0001 \\v"])
def test_the_commands_of_a_page_survive_a_shell(tmp_path: Path, segment: str) -> None:
    """Whatever stands in a label."""
    page = Fired(tmp_path, 0.8, 240, segment)
    assert words(page.annotation("triage")) == [
        "triage",
        "segment",
        f"--service={SERVICE}",
        "--since=3h ago",
        "--",
        segment,
    ]
    answer = ["triage", "judge", f"--service={SERVICE}", f"--segment={segment}", "--stage=retrieval", "--severity=page"]
    command, _, choices = page.annotation("answer").rpartition(" ")
    assert words(command) == answer
    assert choices == "right|wrong-stage|false"


def words(command: str) -> list[str]:
    """What a shell hands to ragtrace."""
    program, _, arguments = command.partition(" ")
    assert program == "ragtrace"
    done = subprocess.run(["sh", "-c", f"printf '%s\\0' {arguments}"], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


def test_the_segment_of_all_others_is_triaged_as_a_whole(tmp_path: Path) -> None:
    """`other` is the exporter's name; the store has none of it."""
    command = Fired(tmp_path, 0.8, 240, "other").annotation("triage")
    assert shlex.split(command)[1:] == ["triage", "segment", f"--service={SERVICE}", "--since=3h ago"]


def test_worse_faults_page_sooner(tmp_path: Path) -> None:
    """Minutes after the onset of a fault, with ten requests a minute."""
    made, alert = policy(known_registry(), read_settings()), "RagtraceRetrievalPage"
    series, expected = list[dict[str, str]](), dict[str, list[dict[str, str]]]()
    pages = {"all": (1.0, 13, 18), "most": (0.6, 22, 28), "some": (0.4, 44, 54)}
    for segment, (bad, _, _) in pages.items():
        series += judged(made, [Phase(180), Phase(120, {"retrieval": bad})], segment)
    for minute in sorted({minute for _, *minutes in pages.values() for minute in minutes}):
        paged = [segment for segment, (_, silent, firing) in pages.items() if minute >= firing]
        assert all(minute >= firing or minute <= silent for _, silent, firing in pages.values())
        labels = [{"alertname": alert, "service": SERVICE, "segment": segment} for segment in paged]
        expected[f"{180 + minute}m"] = labels
    assert_firing(tmp_path, series, expected, (alert,))


DOUBTED_OF = {"service": "s", "reference": "proxy", "judge": JUDGE}


def test_the_recorded_bound_is_wilsons(tmp_path: Path) -> None:
    """What promtool computes equals the formula; the scenarios choose their numbers by it."""
    series, samples = list[dict[str, str]](), list[tuple[dict[str, str], int]]()
    for bad, total in ((0, 3), (1, 3), (2, 4), (30, 60), (60, 60), (1, 1)):
        labels = {**DOUBTED_OF, "segment": f"{bad} of {total}", "stage": "retrieval"}
        counted = {**labels, "scope": "conditional", "stratum": "random"}
        series += written(
            {
                selector("ragtrace_sli_requests_total", counted): f"0x1 {total}x120",
                selector("ragtrace_sli_good_requests_total", counted): f"0x1 {total - bad}x120",
            }
        )
        samples.append((labels, round(wilson(bad, total, 1.645)[0] * 1e4)))
    assert_recorded(tmp_path, series, {"round(ragtrace:sli_bad:wilson1h * 1e4)": samples}, at="61m")


class Doubts(NamedTuple):
    """Requests in which a stage is in doubt, and all of them: in the hour before the last one, and in the last one."""

    before: tuple[int, int]
    now: tuple[int, int]

    @property
    def rise(self) -> float:
        """By how much the share is higher."""
        return self.now[0] / self.now[1] - self.before[0] / self.before[1]

    @property
    def effect(self) -> float:
        """The same after the arcsine transformation."""
        now, before = (asin(sqrt(part / total)) for part, total in (self.now, self.before))
        return 2 * (now - before)

    @property
    def z(self) -> float:
        """How many standard errors that is."""
        return self.effect / sqrt(1 / self.now[1] + 1 / self.before[1])

    @property
    def error(self) -> float:
        """The standard error of the rise, by the share of both hours; not 0 where all or none are in doubt."""
        p = (self.now[0] + self.before[0] + 0.5) / (self.now[1] + self.before[1] + 1)
        return sqrt(p * (1 - p) * (1 / self.now[1] + 1 / self.before[1]))


def doubted(stage: str, doubts: Doubts, segment: str) -> list[dict[str, str]]:
    """The counters of a segment's stage: each hour's requests come at its middle."""
    labels = {**DOUBTED_OF, "segment": segment, "stage": stage, "stratum": "random"}
    (x0, n0), (x1, n1) = doubts
    values = {
        selector("ragtrace_sli_requests_total", labels, scope="all"): (n0 - x0, n1 - x1),
        selector("ragtrace_sli_unjudged_requests_total", labels, scope="all", state="suspected", reason="low_match"): (
            x0,
            x1,
        ),
        selector("ragtrace_sli_doubted_requests_total", labels): (x0, x1),
    }
    return [{"series": name, "values": f"0x29 {then}x59 {then + more}x60"} for name, (then, more) in values.items()]


def assert_recorded(
    folder: Path,
    series: list[dict[str, str]],
    asked: dict[str, list[tuple[dict[str, str], int]]],
    at: str = "2h",
) -> None:
    """What each expression gives at a time, by labels."""
    checks = [
        {
            "expr": expr,
            "eval_time": at,
            "exp_samples": [{"labels": selector("", labels), "value": value} for labels, value in samples],
        }
        for expr, samples in asked.items()
    ]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": checks}
    done = run_promtool(folder, groups_behind(render(), *asked), test)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_recorded_rise_is_the_one_that_is_simulated(tmp_path: Path) -> None:
    """Share, usual share, distance, rise and its error; bench/alerting.py counts tickets by the same formulas."""
    series, asked = list[dict[str, str]](), dict[str, list[tuple[dict[str, str], int]]]()
    for doubts in (
        Doubts((20, 400), (30, 100)),
        Doubts((0, 60), (20, 40)),
        Doubts((5, 300), (60, 60)),
        Doubts((150, 300), (20, 100)),
        Doubts((0, 60), (0, 50)),
    ):
        (x0, n0), (x1, n1) = doubts
        numbers = {
            "z1h * 100": doubts.z * 100,
            "usual1h * 1e4": x0 / n0 * 1e4,
            "ratio_rate1h * 1e4": x1 / n1 * 1e4,
            "rise1h * 1e4": doubts.rise * 1e4,
            "error1h * 1e6": doubts.error * 1e6,
        }
        segment = f"{x0} of {n0}, then {x1} of {n1}"
        labels = {**DOUBTED_OF, "segment": segment, "stage": "ranking"}
        series += doubted("ranking", doubts, segment)
        for name, value in numbers.items():
            asked.setdefault(f"round(ragtrace:sli_doubted:{name})", []).append((labels, round(value)))
    assert_recorded(tmp_path, series, asked)


def began(doubts: dict[str, Doubts]) -> set[str]:
    """Where clear rises began, walking from the first stage on; nowhere while it is not sure. Stages in their order."""
    suspicion = read_settings().growth.suspected
    least = suspicion.windows[0].effect
    found: set[str] = set()
    for clear in doubts.values():
        if clear.effect < least or clear.rise < suspicion.windows[0].points or clear.z <= suspicion.z:
            continue
        limit = suspicion.part * clear.rise
        for stage, one in doubts.items():
            margin = suspicion.sure * one.error
            if one is not clear and one.rise + margin <= limit:
                continue  # it surely did not rise by so much
            if one is clear or one.rise - margin > limit:
                found.add(stage)
            break
    return found


BEGINNINGS: list[tuple[dict[str, int], set[str]]] = [
    ({"generation": 120}, {"generation"}),
    ({"generation": 120, "retrieval": 70}, {"retrieval"}),
    ({"generation": 100, "retrieval": 47}, {"retrieval"}),  # too little to be a clear rise by itself
    ({"generation": 120, "retrieval": 46}, set()),  # more than a quarter of the later rise, and not surely
    ({"generation": 120, "retrieval": 42}, set()),  # less, and not surely
    ({"generation": 120, "retrieval": 34}, {"generation"}),
    ({"generation": 120, "retrieval": 5}, {"generation"}),
    ({"generation": 120, "ranking": 60, "retrieval": 18}, {"ranking"}),
    ({"generation": 120, "ranking": 60, "retrieval": 60}, {"retrieval"}),
    ({"generation": 120, "ranking": 42}, set()),
    ({"citation": 110, "generation": 80}, {"generation"}),
    ({"citation": 110}, {"citation"}),
    ({"retrieval": 70}, {"retrieval"}),
    ({"retrieval": 42, "generation": 42}, set()),  # nothing rose clearly
]


def test_a_rise_is_put_down_to_the_stage_where_it_began(tmp_path: Path) -> None:
    """Of 200 requests, where 20 are usual. An earlier stage that rose as well is the cause; unsure, nobody is told."""
    series, samples = list[dict[str, str]](), list[tuple[dict[str, str], int]]()
    for now, stages in BEGINNINGS:
        doubts = {
            stage: Doubts((60, 600), (now.get(stage, 20), 200))
            for stage in ("retrieval", "ranking", "generation", "citation")
        }
        assert began(doubts) == stages
        segment = ", ".join(f"{stage} {count}" for stage, count in now.items())
        series += [one for stage, counts in doubts.items() for one in doubted(stage, counts, segment)]
        samples += [({"service": "s", "segment": segment, "stage": stage}, now[stage] * 50) for stage in stages]
    names = ("ragtrace:sli_doubted:risen1h", "ragtrace:sli_doubted:risen")
    assert_recorded(tmp_path, series, {f"round({name} * 1e4)": samples for name in names})
