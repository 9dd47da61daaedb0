"""The sentence above the panels: which stage fails, where, and since which release."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from ragtrace.dashboards.preview import Count, findings, least_bad_share
from ragtrace.dashboards.prometheus import PreviewScope, Prometheus, Series

Judged = Mapping[tuple[str, str], tuple[float, float]]  # (judged, sound) by stage and segment

SPAN = PreviewScope(0, 10_000)
HEALTHY = {
    (stage, segment): (200.0, 199.0) for stage in ("retrieval", "ranking", "generation", "citation") for segment in "ab"
}


class _Server(Prometheus):
    """Answers counts from a table; what is asked up to `broke_at` is answered as if all had been well."""

    def __init__(self, judged: Judged, broke_at: float = -1, judge: str = "j1") -> None:
        super().__init__("http://nowhere")
        self._judged, self._broke_at, self._judge = judged, broke_at, judge

    def query(self, expr: str, at: float) -> list[Series]:
        if "unjudged" in expr:
            return []
        judged = HEALTHY if at <= self._broke_at else self._judged
        place = 1 if "good" in expr else 0
        assert re.search(r'scope="conditional"', expr)
        common = {"service": "app", "reference": "oracle", "judge": self._judge}
        return [
            Series({**common, "stage": stage, "segment": segment}, {at: counts[place]})
            for (stage, segment), counts in judged.items()
        ]


class _Fewer(_Server):
    """Before it broke, hardly a request came."""

    def query(self, expr: str, at: float) -> list[Series]:
        if at > self._broke_at:
            return super().query(expr, at)
        return [each._replace(points={at: 3.0}) for each in super().query(expr, at)]


class _Services(Prometheus):
    """Answers counts from a table by service, stage and segment. An empty label is left out, as servers do."""

    def __init__(self, judged: Mapping[tuple[str, str, str], tuple[float, float]]) -> None:
        super().__init__("http://nowhere")
        self._judged = judged

    def query(self, expr: str, at: float) -> list[Series]:
        assert {"service", "judge"} <= set(expr.partition("by (")[2].partition(")")[0].split(", "))
        if "unjudged" in expr:
            return []
        place = 1 if "good" in expr else 0
        return [
            Series(
                {name: value for name, value in zip(("service", "stage", "segment"), key, strict=True) if value}
                | {"reference": "oracle", "judge": "j1"},
                {at: counts[place]},
            )
            for key, counts in self._judged.items()
        ]


class _Both(Prometheus):
    """Answers as several servers together."""

    def __init__(self, *servers: Prometheus) -> None:
        super().__init__("http://nowhere")
        self._servers = servers

    def query(self, expr: str, at: float) -> list[Series]:
        return [one for server in self._servers for one in server.query(expr, at)]


class _Unjudged(Prometheus):
    """Answers how many requests have each state and reason ("" where it is judged), by service, stage and judge."""

    def __init__(self, reasons: Mapping[tuple[str, str, str], Mapping[tuple[str, str], float]]) -> None:
        super().__init__("http://nowhere")
        self._reasons = reasons

    def query(self, expr: str, at: float) -> list[Series]:
        if "unjudged" not in expr:
            return []
        assert 'scope="all"' in expr
        return [
            Series(dict(zip(("service", "stage", "judge", "state", "reason"), (*key, *why), strict=True)), {at: count})
            for key, counts in self._reasons.items()
            for why, count in counts.items()
        ]


def _release(component: str, at: float, service: str = "app") -> Series:
    return Series({"service": service, "component": component, "version": "v2"}, {SPAN.end: at * 1000})


def _texts(server: Prometheus, *releases: Series) -> list[str]:
    return [each.text for each in findings(server, SPAN, releases)]


def test_healthy_service_is_said_to_be_healthy() -> None:
    """One sentence, and it is a good one."""
    (finding,) = findings(_Server(HEALTHY), SPAN, [])
    assert finding.good is True


def test_nothing_scored_is_no_health() -> None:
    """Silence is neither good nor bad."""
    (finding,) = findings(_Server({}), SPAN, [])
    assert finding.good is None


def test_broken_segment_is_named_with_the_release_that_broke_it() -> None:
    """The failing stage, its segment, its numbers, and the release after which they fell."""
    server = _Server({**HEALTHY, ("ranking", "b"): (200.0, 80.0)}, broke_at=4000)
    (text,) = _texts(server, _release("model", 5000), _release("reranker", 4000), _release("packer", 20_000))
    assert text.startswith("Ranking is failing in 1 of 2 segments (b): it is sound in 40% of their 200 requests that")
    assert "can be judged (target 95%)" in text
    assert "It fell from 100% to 40% with reranker v2" in text


def test_releases_of_one_minute_are_both_named() -> None:
    """No counter tells them apart, and either may be the one."""
    server = _Server({**HEALTHY, ("ranking", "b"): (200.0, 80.0)}, broke_at=4000)
    (text,) = _texts(server, _release("reranker", 4000), _release("packer", 3999))
    assert "with packer v2 or reranker v2" in text


class _Mended(_Server):
    """All is well in the last part of the time."""

    def query(self, expr: str, at: float) -> list[Series]:
        if f"[{(SPAN.end - SPAN.start) / 8:.0f}s]" in expr:
            return _Server(HEALTHY).query(expr, at)
        return super().query(expr, at)


def test_what_is_well_again_is_not_said_to_be_failing() -> None:
    """The share of the whole time is bad, that of its last part is not."""
    (finding,) = findings(_Mended({**HEALTHY, ("ranking", "b"): (200.0, 80.0)}), SPAN, [])
    assert finding.text.startswith("Ranking was failing in 1 of 2 segments (b)")
    assert finding.text.endswith("UTC it meets its target again, in 100% of 200 requests.")
    assert finding.good is None


def test_judges_are_never_summed() -> None:
    """What one judge sees as bad is bad, whatever another sees; both are named, and only then."""
    broken = {("ranking", segment): (200.0, 80.0) for segment in "ab"}
    (text,) = _texts(_Both(_Server(HEALTHY), _Server(broken, judge="j2")))
    assert text.startswith("Ranking is failing everywhere by judge j2: it is sound in 40% of 400 requests")
    (text,) = _texts(_Server(broken))
    assert "judge j" not in text


def test_a_change_of_judges_is_no_recovery() -> None:
    """What a judge saw that has ended was failing, and is not said to be well."""

    class _Ended(_Server):
        def query(self, expr: str, at: float) -> list[Series]:
            recent = f"[{(SPAN.end - SPAN.start) / 8:.0f}s]" in expr
            return [] if recent else super().query(expr, at)

    broken = {("ranking", "a"): (200.0, 80.0)}
    (finding,) = findings(_Both(_Ended(broken), _Server({("ranking", "a"): (200.0, 200.0)}, judge="j2")), SPAN, [])
    assert finding.text.startswith("Ranking was failing everywhere by judge j1")
    assert finding.text.endswith("Another judge has taken its place since.")
    assert finding.good is None
    (finding,) = findings(_Ended(broken), SPAN, [])
    assert finding.text.startswith("Ranking is failing everywhere")


def test_what_is_hardly_ever_judged_is_said_with_its_reason() -> None:
    """Stages that are sound or broken in next to no request, first stage first; nothing that can be judged is among
    them, and the others are said to be well as far as they can be judged."""
    reasons = {
        ("app", "generation", "j1"): {("", ""): 2.0, ("not_known", "language"): 98.0},
        ("app", "retrieval", "j1"): {("", ""): 1.0, ("not_known", "undecided"): 60.0, ("suspected", "low_match"): 39.0},
        ("app", "ranking", "j1"): {("", ""): 12.0, ("not_known", "undecided"): 88.0},
        ("app", "citation", "j1"): {("not_known", "undecided"): 9.0},
    }
    texts = _texts(_Both(_Server(HEALTHY), _Unjudged(reasons)))
    assert texts == [
        "Every stage that can be judged meets its target, in every segment.",
        "Next to nothing can be judged: retrieval (not known: undecided in 60% of 100 requests), generation (not "
        "known: language in 98% of 100 requests). `ragtrace doctor` says what would change it.",
    ]
    (finding,) = findings(_Unjudged(reasons), SPAN, [])
    assert finding.good is None


def test_the_judge_of_most_requests_tells_what_is_judged() -> None:
    """A judge that has ended, or has hardly begun, does not make a service look unjudged."""
    few, many = {("not_known", "undecided"): 50.0}, {("", ""): 500.0}
    reasons = {("app", "retrieval", "j1"): few, ("app", "retrieval", "j2"): many}
    assert _texts(_Both(_Server(HEALTHY), _Unjudged(reasons))) == ["Every stage meets its target, in every segment."]


def test_fault_everywhere_is_said_to_be_everywhere() -> None:
    """All segments of a stage fail, and no release of its components explains it."""
    server = _Server({**HEALTHY, ("retrieval", "a"): (200.0, 100.0), ("retrieval", "b"): (200.0, 100.0)})
    (text,) = _texts(server, _release("index", 5000))
    assert text.startswith("Retrieval is failing everywhere")
    assert "did not fall after a release" in text


def test_no_release_is_denied_that_could_not_be_compared() -> None:
    """Without a release of the stage's own components, or with few requests on a side of it, the sentence says so."""
    broken: Judged = {("retrieval", "a"): (12.0, 2.0)}
    (text,) = _texts(_Server({**HEALTHY, ("retrieval", "a"): (200.0, 100.0)}), _release("model", 5000))
    assert "No release of its components is known in this time." in text
    (text,) = _texts(_Fewer(broken, 4000), _release("index", 4000))
    assert "It cannot be told whether it fell after a release" in text


def test_two_faults_are_two_sentences_first_stage_first() -> None:
    """Independent faults both show, in the order of the stages."""
    server = _Server({**HEALTHY, ("citation", "a"): (200.0, 20.0), ("retrieval", "b"): (200.0, 20.0)})
    assert [text.split()[0] for text in _texts(server)] == ["Retrieval", "Citation"]


def test_few_requests_prove_nothing() -> None:
    """One bad request among three is no failure, and no health either; one among a hundred is none."""
    (finding,) = findings(_Server({("retrieval", "a"): (3.0, 2.0)}), SPAN, [])
    assert finding.good is None
    (finding,) = findings(_Server({**HEALTHY, ("retrieval", "a"): (3.0, 0.0)}), SPAN, [])
    assert finding.good is True


def test_a_failing_service_does_not_hide_behind_a_busy_one() -> None:
    """Both have a segment of the same name; the one that fails is named."""
    server = _Services(
        {("busy", "retrieval", "default"): (1000.0, 1000.0), ("small", "retrieval", "default"): (20.0, 0.0)}
    )
    (text,) = _texts(server)
    assert text.startswith("Retrieval of small is failing everywhere: it is sound in 0% of 20 requests")
    (finding,) = findings(
        _Services({("a", "retrieval", "x"): (100.0, 100.0), ("b", "retrieval", "x"): (3.0, 0.0)}), SPAN, []
    )
    assert "Too few requests were judged to tell of b." in finding.text
    assert "every segment of every service that can be judged" in finding.text


def test_a_release_of_another_service_is_not_blamed() -> None:
    """It came at the time of the fall, and the failing service never ran it."""
    server = _Server({**HEALTHY, ("ranking", "b"): (200.0, 80.0)}, broke_at=4000)
    (text,) = _texts(server, _release("reranker", 4000, service="other"))
    assert "No release of its components is known" in text


def test_labels_without_a_value_are_judged_too() -> None:
    """Prometheus leaves empty labels out of its answers."""
    judged = {("", "retrieval", ""): (100.0, 10.0), ("", "retrieval", "b"): (100.0, 100.0)}
    (text,) = _texts(_Services(judged))
    assert text.startswith("Retrieval is failing in 1 of 2 segments (the one without a name)")


@pytest.mark.parametrize(
    ("count", "bound"), [(Count(0, 0), 0.0), (Count(100, 100), 0.0), (Count(10, 5), 0.2693), (Count(1000, 500), 0.4741)]
)
def test_bound_is_wilsons(count: Count, bound: float) -> None:
    """Against values computed by hand at z = 1.645."""
    assert least_bad_share(count) == pytest.approx(bound, abs=5e-4)
