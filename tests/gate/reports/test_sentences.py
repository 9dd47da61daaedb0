"""What a release manager reads first: the verdict in a sentence, and what to do next."""

from __future__ import annotations

import re

import msgspec
import numpy as np
import pytest

from ragtrace.gate import compare
from ragtrace.gate._breaks import stage_shares
from ragtrace.gate.reports import content
from ragtrace.gate.reports.sentences import cell_sentence, facts, flips, headline, next_steps, remarks
from ragtrace.gate.types import Cell, Comparison, Decision, GateReport, LabelUse, Policy, VersionChange
from ragtrace.types import Stage
from tests.gate import reported
from tests.gate.populations import RULES as EVERY_RULE, population
from tests.gate.reported import RULES, cell, comparison, empty, failed, grid, report, unclear


def test_blocked_in_a_segment() -> None:
    """Stage, segment, size, interval, margin, what changed, whose it is."""
    assert headline(reported.blocked()) == (
        "Blocked: generation got worse in segment claims-de: the share of requests with broken generation rose by "
        "60 points (90 % interval 56 to 64), margin 2; changed since the baseline: model gpt-x → gpt-y; "
        "owner generation-governance."
    )


def test_blocked_over_all() -> None:
    """The segment in which it is worst is named with it."""
    found = report("block", grid(failed("answer_coverage"), failed("answer_coverage", "claims-de", 0.4)))
    assert "generation got worse over all requests, most in segment claims-de: answer coverage" in headline(found)


def test_blocked_in_several_segments() -> None:
    """The worst one is named, the others are counted."""
    cells = grid(failed("answer_coverage", "limits"), failed("answer_coverage", "claims-de", 0.4))
    assert "in segment claims-de and in 1 more: answer coverage fell by 40 points" in headline(report("block", cells))


def test_the_first_stage_leads() -> None:
    """What comes after it may be its consequence, and is said so."""
    cells = grid(failed("answer_coverage", None, 0.5), failed("candidate_recall", None, 0.1))
    found = report("block", cells, first_broken="retrieval")
    assert headline(found).startswith("Blocked: retrieval got worse over all requests: candidate recall fell by 10")
    assert "owner retrieval-indexing" in headline(found)
    assert next_steps(found)[-1] == "Mend retrieval first: what comes after it may be its consequence."


def test_blocked_by_cost() -> None:
    """A metric of no stage speaks for itself."""
    found = report("block", grid(failed("latency", None, 0.5, action="block")))
    assert headline(found) == "Blocked: latency rose by 0.5 s (90 % interval 0.46 to 0.54 s), margin 0.28 s."


def test_blocked_by_a_floor() -> None:
    """The level, the floor, and how sure it is."""
    low = cell(family="floors", outcome="fail", baseline=None, difference=None, candidate=0.5, low=0.45, high=0.55,
               margin=0.0)  # fmt: skip
    assert headline(report("block", [low])).startswith(
        "Blocked: generation is not good enough over all requests: answer coverage is 50.0 % "
        "(90 % interval 45.0 % to 55.0 %), below the floor of 60.0 %"
    )


def test_blocked_by_missing_data() -> None:
    """Which segment, how many there are, how many it takes, and what to do."""
    found = reported.missing()
    assert headline(found) == (
        "Blocked: the policy requires segment claims-de, and there is too little data: "
        "12 of at least 30 questions have a value for candidate recall."
    )
    assert next_steps(found) == ("Ask at least 30 questions of segment claims-de; 12 could be judged.",)


def test_a_change_names_both_versions() -> None:
    """One that is the commonest on both sides, beside others, is named once: nothing changed into itself."""
    assert content.change(VersionChange(component="model", baseline="m-7", candidate=None)) == "model m-7 → none"
    mixed = VersionChange(component="index", baseline="i-1", candidate="i-1", mixed=True)
    assert content.change(mixed) == "index i-1 (several versions at once)"


def test_without_a_changed_version() -> None:
    """No release is made up."""
    same = comparison()
    found = report("block", grid(failed()), candidate=reported.side(same.baseline))
    assert "changed since" in headline(report("block", grid(failed())))
    found = report("block", grid(failed()), candidate=reported.side(same.baseline), breaks=tuple(
        type(each)(**{name: getattr(each, name) for name in each.__struct_fields__} | {"suspects": ()})
        for each in found.breaks
    ))  # fmt: skip
    assert "no recorded version changed" in headline(found)
    assert any("without a version" in step for step in next_steps(found))


def test_undecided_says_how_many_would_tell() -> None:
    """The n that is there, the n that is needed, the margin that could be judged."""
    found = reported.undecided()
    assert headline(found) == (
        "Undecided: answer coverage fell by 1.1 points (90 % interval −1.2 to 3.4), margin 2, which may be harm "
        "or chance; about 1,900 questions would tell, there are 200."
    )
    assert next_steps(found) == (
        "Ask about 1,900 questions (200 now), then run the gate again.",
        "Or accept a margin of 4.5 points for answer coverage: smaller losses cannot be seen now.",
    )


def test_no_question_is_asked_for_what_only_warns() -> None:
    """What keeps the gate open says how many are needed; a metric that cannot block would ask for far more."""
    found = report("undecided", [unclear(), unclear("latency", action="warn", decides=44_686)])
    assert next_steps(found)[0] == "Ask about 1,900 questions (200 now), then run the gate again."
    assert next_steps(report("pass", [unclear("latency", action="warn", decides=44_686)])) == (
        "The candidate may go out.",
    )


@pytest.mark.parametrize("count", [40, 120])
def test_as_many_equal_questions_as_are_named_pass(count: int) -> None:
    """Two equal sides are undecided for want of questions alone; with as many as the report says, they pass."""
    policy = Policy(rules=tuple(rule for rule in EVERY_RULE if rule.kind == "score"))

    def decided(size: int) -> GateReport:
        values = {rule.metric: np.full(size, float(rule.direction == "higher")) for rule in policy.rules}
        sides = (population(values, name=name, analyzer_versions={"1": size}) for name in ("baseline", "candidate"))
        baseline, candidate = sides
        return compare(baseline, candidate, policy, same_questions=True)

    found = decided(count)
    assert found.decision == "undecided"
    named = {int(number) for text in (found.headline, *found.next_steps, *(cell.reason for cell in found.cells))
             for number in re.findall(r"(\d+) questions", text.replace(",", ""))} - {count}  # fmt: skip
    assert named == {found.needed}
    assert (found.needed or 0) < 400
    assert decided(found.needed or 0).decision == "pass"


def test_undecided_without_data() -> None:
    """Too few values over all requests are named as such, with how many it takes."""
    found = report("undecided", [empty("answer_coverage", None, decides=30)])
    assert headline(found) == "Undecided: too few questions have a value for answer coverage: 12."
    assert next_steps(found) == ("Ask about 500 questions (200 now), then run the gate again.",)


def test_undecided_since_no_candidate_could_pass() -> None:
    """Every question has a value, and they are still too few: one number, and no metric is to blame."""
    few = empty("answer_coverage", None, n=(200, 200), low=-0.02, least=299, decides=299)
    assert headline(report("undecided", [few])) == (
        "Undecided: 200 questions are too few to pass any candidate by this policy, even one without any difference; "
        "about 300 are enough."
    )


def test_a_stage_passes_nowhere_by_its_other_metrics_alone() -> None:
    """Where too few requests tell whether it is broken, that is said; what failed or is open stays so."""
    part = [empty("broken_generation"), cell("answer_coverage", "claims-de")]
    (stage,) = content.sections(report("pass", [cell("broken_generation"), cell(), *part]))
    assert (stage.of_all, stage.segments(), stage.result) == ("passed", {"no_data": ["claims-de"]}, "passed")
    (stage,) = content.sections(report("pass", [empty("broken_generation", None), cell()]))
    assert (stage.of_all, stage.result) == ("no_data", "no_data")
    (stage,) = content.sections(report("block", [empty("broken_generation", None), failed()]))
    assert stage.of_all == "failed"


def test_passed() -> None:
    """A plain sentence, and the word that it may go out."""
    assert headline(reported.passed()) == (
        "Passed: no metric got worse by more than its margin, over all requests and in each of 5 segments."
    )
    assert next_steps(reported.passed()) == ("The candidate may go out.",)


@pytest.mark.parametrize(("same", "told"), [(203, "In 1 question the answer"), (150, "In 54 questions the answer")])
def test_passed_with_other_answers(same: int, told: str) -> None:
    """A run that passes says how many answers or prompts changed, and how to see them; nothing where none did."""
    sides = [msgspec.structs.replace(side, name=f"replay:{name}") for side, name in
             ((reported.passed().baseline, "a b"), (reported.passed().candidate, "c"))]  # fmt: skip
    found = report("pass", grid(), baseline=sides[0], candidate=sides[1], pairs=204, unchanged={"generation": same})
    assert dict(facts(found))["compared"] == (
        f"the same 204 questions on both sides; {same} of them with the same answer, and nothing lost from the prompt"
    )
    may_go, others = next_steps(found)
    assert may_go == "The candidate may go out."
    assert others.startswith(told)
    assert others.endswith("ragtrace gate compare 'replay:a b' replay:c")
    assert next_steps(msgspec.structs.replace(found, unchanged={"generation": 204})) == (may_go,)


def test_passed_with_open_segments() -> None:
    """What is not proven is said, and where to ask more."""
    found = report("pass", grid(unclear("answer_coverage", "limits")))
    assert headline(found).endswith("in 4 of 5 segments; the others are not proven.")
    assert next_steps(found) == ("The candidate may go out. Ask more questions of limits to judge them as well.",)


def test_passed_without_a_proven_segment() -> None:
    """It does not sound as if the segments were fine."""
    found = report("pass", [cell(), *(unclear("answer_coverage", name) for name in ("limits", "claims-de"))])
    assert headline(found).endswith("over all requests; of the 2 segments none has data enough to prove it.")


def test_passed_with_a_warning() -> None:
    """What got worse is said, though it does not block."""
    found = report("pass", grid(failed("latency", None, 0.5)))
    assert headline(found).startswith("Passed: nothing that blocks got worse, but latency rose by 0.5 s")


def test_passed_unproven_by_policy() -> None:
    """Where the policy lets an inconclusive metric pass, the sentence does not say that it is good."""
    found = report("pass", grid(unclear("answer_coverage", action="warn")))
    assert headline(found) == ("Passed: nothing got worse for certain; not proven over all requests: answer coverage.")


def test_the_indicator_of_a_stage_leads() -> None:
    """What a stage broke says more than a score, however much the score fell; the score follows in the table."""
    found = report("block", grid(failed("answer_coverage", None, 0.5), failed("broken_generation", None, 0.03)))
    assert "over all requests: the share of requests with broken generation rose by 3 points" in headline(found)


def test_what_only_points_to_a_break_leaves_nothing_unproven() -> None:
    """Open, it is neither a segment that is not proven nor a question to ask; risen, it is told and does not block."""
    open_hints = [unclear("suspected_generation", name, action="warn") for name in (None, "limits")]
    found = report("pass", grid(*open_hints))
    assert headline(found).endswith("over all requests and in each of 5 segments.")
    assert next_steps(found) == ("The candidate may go out.",)
    risen = report("pass", grid(failed("suspected_generation", action="warn"), failed("latency", None, 0.3)))
    assert headline(risen).startswith("Passed: nothing that blocks got worse, but latency rose by 0.3 s")
    alone = report("pass", grid(failed("suspected_generation", action="warn")))
    assert "but the share of requests with suspected generation rose by 12 points" in headline(alone)
    assert alone.breaks == ()


def test_the_share_that_could_be_judged_is_told() -> None:
    """Of each stage, and what it was before where that differs."""
    assert dict(facts(report("pass", grid())))["judged"] == (
        "retrieval 100 %, ranking 100 %, generation 100 %, citation 100 %"
    )
    states: dict[Stage, list[str]] = {
        "retrieval": ["sound"] * 4,
        "ranking": ["sound", "broken", "suspected", "not_known"],
    }
    before = population({"x": [1.0] * 4}, states=states | {"generation": ["", "", "", ""], "citation": ["sound"] * 4})
    after = population({"x": [1.0] * 4}, states=states | {"ranking": ["sound"] * 3 + ["suspected"]})
    shares = stage_shares(Comparison(before, after, None))
    assert dict(facts(report("pass", grid(), stages=shares)))["judged"] == (
        "retrieval 100 %, ranking 75 % (before 50 %), generation 100 % (before -), citation 100 %"
    )
    assert "judged" not in dict(facts(report("pass", grid(), stages=())))


def test_pairs_that_are_not_judged_any_more_are_named() -> None:
    """Beside what flipped."""
    [found] = report("block", grid(failed("answer_coverage", "claims-de"))).breaks
    found = msgspec.structs.replace(found, recovered=2, now_suspected=3, now_not_known=1_000)
    assert flips(found) == (
        "26 questions were sound here and are broken; 2 the other way round; 3 now suspected; 1,000 now not known"
    )


def test_a_stage_that_is_judged_less_is_no_question_of_number() -> None:
    """More questions would hide as much: the report says what cannot be told, and what would tell it."""
    hidden = unclear("broken_generation", difference=0.0, unjudged=0.4, needed=None, decides=None)
    found = report("undecided", grid(hidden))
    assert headline(found) == (
        "Undecided: the share of requests in which generation is sound or broken fell by 40 points, and what is not "
        "judged may be broken."
    )
    assert next_steps(found) == (
        "See why generation is suspected or not known in more of the candidate's requests; to tell more of them, "
        "analyze with a model that verifies claims (--verifier).",
        "Or let somebody judge the questions that decide it: ragtrace gate label 0199",
    )
    both = report("undecided", grid(hidden, unclear()))
    assert headline(both).endswith("and what is not judged may be broken; 1 more verdict is open.")


def test_people_may_decide_what_is_open_by_a_stage() -> None:
    """As long as questions wait for labels; not where a score is open, and not of sides without pairs."""
    label = "Or let somebody judge the questions that decide it: ragtrace gate label 0199"
    open_ = grid(unclear("broken_generation"))
    found = report("undecided", open_)
    assert label in next_steps(found)
    used = LabelUse(of_run="0198", requests=4, waiting=2, changed=0, labelers=("ann",))
    assert label in next_steps(msgspec.structs.replace(found, labels=used))
    assert label not in next_steps(msgspec.structs.replace(found, labels=msgspec.structs.replace(used, waiting=0)))
    assert label not in next_steps(msgspec.structs.replace(found, paired=False))
    assert label not in next_steps(reported.undecided())


def test_a_stage_that_cannot_be_judged_says_what_helps() -> None:
    """There are questions enough: more of them would be judged as little."""
    found = report("undecided", [empty("broken_generation", None)])
    assert next_steps(found) == (
        "Of 200 questions only 12 tell whether generation is sound or broken: analyze with a model that verifies "
        "claims (--verifier).",
    )
    few = report("undecided", [empty("broken_generation", None)], pairs=20, needed=100)
    assert next_steps(few) == ("Ask about 100 questions (20 now), then run the gate again.",)


def test_worse_within_the_margin_is_told() -> None:
    """It passes, and nobody should learn of it later."""
    slightly = cell(difference=-0.01, low=-0.015, high=-0.005, p_adjusted=0.001)
    (told,) = remarks(report("pass", [slightly, cell("citation_coverage")]))
    assert told == (
        "all requests: answer coverage fell by 1 point (90 % interval 0.5 to 1.5), margin 2: "
        "worse for certain, within the margin"
    )


def test_a_guardrail_fails_within_its_margin() -> None:
    """The sentence says why a loss within the margin blocks."""
    found = report("block", [failed("contradiction_rate", None, 0.01, p_inferior=0.001)])
    assert "margin 2, but this metric is a guardrail: it must not get worse at all" in headline(found)


def test_a_loss_below_its_margin_says_why_it_fails() -> None:
    """Worse by 1 point for certain, margin 2, and the interval reaches 5: the size that could show it is named."""
    beside = failed("answer_coverage", None, 0.01, low=-0.05, high=-0.002, p_inferior=0.2, decides=441)
    found = report("block", [beside])
    why = "margin 2: it is worse for certain, and a loss beyond the margin is not ruled out"
    assert why in headline(found)
    assert [line for line in remarks(found) if why in line] == [f"all requests: {cell_sentence(beside, found)}"]
    more = "Or ask about 450 questions (200 now): the loss that was seen is within the margin"
    assert any(step.startswith(more) for step in next_steps(found))


@pytest.mark.parametrize("other", [failed("citation_coverage", None), failed("citation_coverage", "claims-de", 0.01)])
def test_more_questions_help_only_where_nothing_else_blocks(other: Cell) -> None:
    """A loss beyond its margin, or a segment of which nobody knows how many questions it takes."""
    beside = failed("answer_coverage", None, 0.01, p_inferior=0.2, decides=441)
    assert not any("Or ask about" in step for step in next_steps(report("block", [beside, other])))


@pytest.mark.parametrize(("decision", "count"), [("block", 1), ("undecided", 2)])
def test_a_blocked_gate_lists_no_cell_that_has_too_little_data(decision: Decision, count: int) -> None:
    """It is counted below; in an undecided one it may be what is missing."""
    stages = content.sections(report(decision, [failed("answer_coverage", None), empty("citation_coverage", None)]))
    assert sum(len(section.listed()) for section in stages) == count
    assert ("1 too few" in content.hidden(stages)) == (decision == "block")


@pytest.mark.parametrize(
    ("count", "text"), [(1, "a"), (6, "a, b, c, d, e, f"), (7, "a, b, c, d, e and 2 more"), (0, "")]
)
def test_no_line_hides_few_segments(count: int, text: str) -> None:
    """Where some are not named, it says how many."""
    assert content.segment_names("abcdefg"[:count]) == text


def test_unpaired_sides_count_requests() -> None:
    """There are no questions to ask of both."""
    found = report("undecided", [unclear()], comparison=comparison(paired=False))
    assert "about 1,900 requests of each side would tell" in headline(found)
    assert dict(facts(found))["compared"] == "as independent samples"


@pytest.mark.parametrize(
    ("difference", "text"),
    [(-0.12, "fell by 12 points"), (0.0, "is the same"), (-0.0004, "fell by 0.04 points"), (0.01, "rose by 1 point ")],
)
def test_sizes(difference: float, text: str) -> None:
    """Points, as few digits as it takes."""
    found = cell(difference=difference)
    assert f"answer coverage {text}" in cell_sentence(found, report("pass", [found]))


def test_the_confidence_follows_alpha() -> None:
    """Two one-sided questions at alpha make an interval of 1 - 2 alpha."""
    found = report("pass", [cell()], alpha=0.01, policy=Policy(rules=RULES, alpha=0.01))
    assert "98 % interval" in cell_sentence(cell(), found)
    assert dict(facts(found))["false alarms"].startswith("at most 1 %")


def test_too_few_sessions_are_no_lack_of_questions() -> None:
    """Forty questions of three sessions: the number that is asked for is reached, and says nothing."""
    cells = [cell(), empty(required=True, n=(40, 40))]
    found = report("block", cells)
    assert "the 40 questions with a value for answer coverage are of too few sessions or documents" in found.headline
    assert "Ask questions of more sessions or documents in segment claims-de." in found.next_steps
    alone = report("undecided", [empty(segment=None, n=(40, 40))])
    assert alone.headline.endswith("are of too few sessions or documents.")


def test_ten_requests_are_the_fewest_whatever_the_policy_says() -> None:
    """A minimum of one is raised to what a verdict takes."""
    policy = Policy(rules=tuple(msgspec.structs.replace(rule, minimum=1) for rule in RULES))
    found = report("block", [cell(), empty(required=True, n=(5, 5))], policy=policy)
    assert "5 of at least 10 questions" in found.headline


def test_a_share_of_nothing_is_explained() -> None:
    """More questions would not help."""
    found = report("undecided", [unclear("latency", action="block", margin=0.0, needed=None)])
    assert "its margin is a share of the baseline's mean, which is 0" in found.headline


def test_a_margin_that_is_not_resolved_is_no_zero() -> None:
    """A fifth of a mean that nobody knows."""
    assert content.width(empty("latency", margin=0.0), 0.0) == "-"
    assert content.width(cell("latency"), 0.28) == "0.28 s"
    assert [content.signed(cell("latency"), each) for each in (3.9e-05, -0.00017, 0.0)] == ["0 s", "−0.00017 s", "0 s"]
