"""Policies: read strictly from YAML, with defaults from the registry, and checked before anything is compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ragtrace.errors import ConfigurationError
from ragtrace.gate._metrics import METRICS, SCORES
from ragtrace.gate.policy import DEFAULTS, check_policy, default_policy, default_rule, example, read_policy
from ragtrace.gate.types import Policy, Rule
from ragtrace.registry.instruments import INSTRUMENTS


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """Writes a policy and reads it."""

    def read(text: str) -> Policy:
        file = tmp_path / "gate.yaml"
        file.write_text(text, encoding="utf-8")
        return read_policy(file)

    return read


def test_the_default_policy_holds() -> None:
    """Every default metric is known and its rule can be held; what hosts need not record is optional."""
    policy = read_policy()
    check_policy(policy)
    assert policy == default_policy()
    assert [rule.metric for rule in policy.rules] == list(DEFAULTS)
    assert all(rule.optional for rule in policy.rules)
    assert {rule.metric: rule.guardrail for rule in policy.rules}["contradiction_rate"]


def test_every_stage_is_judged_by_its_state() -> None:
    """Broken blocks, and so do answers to another question; suspected and not known can only warn. What moves with
    depth, length or the component itself explains; evidence is proof where it is gold."""
    rules = {rule.metric: rule for rule in default_policy().rules}
    for stage in ("retrieval", "ranking", "generation", "citation"):
        assert (rules[f"broken_{stage}"].action, rules[f"broken_{stage}"].segment_action) == ("block", "block")
        for hint in (f"suspected_{stage}", f"not_known_{stage}"):
            assert (rules[hint].action, rules[hint].segment_action, rules[hint].stage) == ("warn", "warn", stage)
    for estimate in ("evidence_presence", "query_coverage", "joint_query_coverage", "latency", "output_tokens"):
        assert rules[estimate].action == rules[estimate].segment_action == "warn"
    assert rules["answer_relevance"].action == "block"
    assert {metric for metric, rule in rules.items() if rule.gold} == {"candidate_recall", "evidence_recall"}


def test_an_action_is_the_last_word(written: Any) -> None:
    """Whoever writes one has weighed what the metric moves with."""
    policy = written("metrics: {evidence_recall: {action: block}, query_coverage: {action: block}, candidate_recall: }")
    assert [(rule.action, rule.gold) for rule in policy.rules] == [("block", False), ("block", False), ("block", True)]


def test_the_example_is_the_default(written: Any) -> None:
    """What `ragtrace gate policy` prints is read as what holds without a file."""
    assert written(example()) == default_policy()


def test_directions_agree_with_the_registry() -> None:
    """Where a metric has an objective, better is what meets it."""
    for metric in SCORES:
        objective = INSTRUMENTS[metric].objective
        if objective is not None:
            assert METRICS[metric].direction == ("higher" if objective.direction == ">=" else "lower"), metric


def test_metrics_name_all_that_is_judged(written: Any) -> None:
    """What is left open is as it is by default; kinds and stages come from the registry."""
    policy = written(
        "alpha: 0.1\nrequired_segments: [refunds]\n"
        "metrics:\n"
        "  answer_coverage: {margin: 0.05, segments: {refunds: 0.01}, floor: 0.8, minimum: 50, action: warn}\n"
        "  contradiction_rate:\n"
        "  latency: {margin: 15%}\n"
        "  evidence_recall: {margin: 5 %}\n"
    )
    coverage, contradiction, latency, recall = policy.rules
    assert coverage == msgspec.structs.replace(
        default_rule("answer_coverage"),
        margin=0.05, segment_margins={"refunds": 0.01}, floor=0.8, minimum=50, action="warn",
    )  # fmt: skip
    assert (coverage.margin_of("refunds"), coverage.margin_of("other"), coverage.margin_of(None)) == (0.01, 0.05, 0.05)
    assert contradiction == default_rule("contradiction_rate")
    assert (latency.margin, latency.relative) == (pytest.approx(0.15), True)
    assert (recall.margin, recall.relative) == (pytest.approx(0.05), True)
    assert (policy.alpha, policy.required_segments, policy.seed) == (0.1, ("refunds",), 0)


def test_an_empty_file_is_the_default(written: Any) -> None:
    """Nothing in it differs."""
    assert written("# nothing\n") == default_policy()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("metrics: {answer_coverag: {}}", "metric 'answer_coverag' is not known; give one of "),
        ("metrics: {answer_coverag: {}}", "did you mean answer_coverage?"),
        ("metrics: {}", "metrics [] is not usable; give at least one metric"),
        ("metrics: {answer_coverage: {margn: 1}}", "unknown field `margn` - at `metrics.answer_coverage`"),
        ("metrics: {errors: {action: stop}}", "Invalid enum value 'stop' - at `metrics.errors.action`"),
        (
            "metrics: {errors: {margin: 0}}",
            "metrics.errors.margin 0.0 is not usable; give a margin above 0 and below 1",
        ),
        ("metrics: {errors: {margin: -0.1}}", "margin -0.1 is not usable"),
        ("metrics: {errors: {margin: 1}}", "below 1: a larger one tolerates everything"),
        ("metrics: {errors: {margin: .nan}}", "margin nan is not usable"),
        ("metrics: {latency: {margin: .inf}}", "margin inf is not usable; give a margin above 0"),
        ("metrics: {answer_coverage: {margin: 100%}}", "margin '100%' is not usable"),
        (
            "metrics: {answer_coverage: {margin: lots}}",
            "margin 'lots' is not usable; give a number, or one with a percent",
        ),
        ("metrics: {answer_coverage: {segments: {a: 2}}}", "metrics.answer_coverage.segments.a 2.0 is not usable"),
        ("metrics: {latency: {segments: {a: 0.1}}}", "segments.a: margins of one metric are all in percent, or none"),
        (
            "metrics: {suspected_ranking: {action: block}}",
            "metrics.suspected_ranking.action 'block' is not usable; give warn: suspected ranking points to a break",
        ),
        ("metrics: {evidence_presence: {segment_action: block}}", "segment_action 'block' is not usable; give warn"),
        ("metrics: {answer_coverage: {floor: 1.2}}", "floor 1.2 is not usable; give a mean from 0 to 1"),
        ("metrics: {answer_coverage: {minimum: 0}}", "minimum 0 is not usable"),
        ("alpha: 0.5", "alpha 0.5 is not usable; give a share of false blocks above 0 and below 0.5"),
        ("alpha: .nan", "alpha nan is not usable"),
        ("power: 1", "power 1.0 is not usable"),
        ("resamples: 10", "resamples 10 is not usable; give 100 to"),
        ("seed: -1", "seed -1 is not usable"),
        ("margin: 1", "unknown field `margin`"),
        ("[1, 2]", "Expected `object`, got `array`"),
        ("alpha: 0.1\nalpha: 0.2", "'alpha' stands there twice"),
        ("a: b: c", "is no YAML"),
        ("[" * 5_000, "is no YAML"),
    ],
)
def test_what_cannot_hold_is_said(written: Any, text: str, complaint: str) -> None:
    """In one line that names the file and the place."""
    with pytest.raises(ConfigurationError) as caught:
        written(text)
    assert complaint in str(caught.value)
    assert "gate.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    """With what prints one."""
    with pytest.raises(ConfigurationError, match=r"cannot read the policy .*none.yaml'.*`ragtrace gate policy` prints"):
        read_policy(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"metric": "fame"}, "metric 'fame' is not known"),
        ({"direction": "lower"}, "is a score of which higher is better"),
        ({"margin": float("nan")}, "margin nan is not usable"),
    ],
)
def test_rules_made_in_code_are_checked_as_well(change: dict[str, Any], complaint: str) -> None:
    """`check_policy` trusts nobody."""
    rule = msgspec.structs.replace(default_rule("answer_coverage"), **change)
    with pytest.raises(ConfigurationError, match=complaint):
        check_policy(Policy(rules=(rule,)))


def test_a_metric_has_one_rule() -> None:
    """Two could contradict each other."""
    rule: Rule = default_rule("errors")
    with pytest.raises(ConfigurationError, match="metric 'errors' has two rules; keep one"):
        check_policy(Policy(rules=(rule, rule)))
