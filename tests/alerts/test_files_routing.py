"""Alertmanager's configuration: everybody has a receiver, and the first route that fits is the right one."""

from __future__ import annotations

from typing import Any

import yaml

from ragtrace.alerts import alertmanager, render
from ragtrace.alerts._annotations import labeled_owner
from tests.alerts.conftest import Made, Written


def test_every_owner_gets_pages_and_tickets(made: Made) -> None:
    """By stage and severity, at a receiver of each owner."""
    routing = alertmanager(made())
    found = {tuple(route["matchers"]): route["receiver"] for route in routing["route"]["routes"]}
    assert found['stage="retrieval"', 'severity="page"'] == "retrieval-indexing-page"
    assert found['stage="citation"', 'severity="ticket"'] == "release-guard-ticket"
    assert found['stage="platform"', 'severity="page"'] == "platform-page"
    assert len(found) == 10
    names = {receiver["name"] for receiver in routing["receivers"]}
    assert {*found.values(), routing["route"]["receiver"]} == names


def test_an_earlier_stage_inhibits_the_later_ones(made: Made) -> None:
    """In the same segment, and only where service and segment are known."""
    rules = alertmanager(made())["inhibit_rules"]
    by_stage = {rule["source_matchers"][0]: rule for rule in rules if rule["source_matchers"][0].startswith("stage")}
    assert set(by_stage) == {'stage="retrieval"', 'stage="ranking"', 'stage="generation"'}
    retrieval, ranking, generation = by_stage.values()
    assert retrieval["target_matchers"] == ['stage=~"ranking|generation|citation"', 'severity="page"']
    assert ranking["target_matchers"] == ['stage=~"generation|citation"', 'severity="page"']
    assert generation["target_matchers"] == ['stage=~"citation"', 'severity="page"']
    for rule in by_stage.values():
        assert rule["source_matchers"][1:] == ['severity="page"', 'service!=""', 'segment!=""']
        assert rule["equal"] == ["service", "segment"]


def test_receivers_of_ones_own_replace_the_placeholders(made: Made) -> None:
    """In Alertmanager's own words; the others stay."""
    own = {"pagerduty_configs": [{"routing_key_file": "/etc/key"}]}
    routing = alertmanager(made(receivers={"release-guard": {"page": own}}))
    receivers = {receiver["name"]: receiver for receiver in routing["receivers"]}
    assert receivers["release-guard-page"] == {"name": "release-guard-page", **own}
    assert "webhook_configs" in receivers["release-guard-ticket"]


def test_the_owner_of_a_segment_comes_first(made: Made) -> None:
    """Its route stands before the stage's, it has receivers, and the label `owner` names it."""
    settings: dict[str, Any] = {"segments": [{"segment": "legal", "owners": {"retrieval": "legal-search"}}]}
    policy = made(**settings)
    routes = alertmanager(policy)["route"]["routes"]
    assert routes[0]["matchers"] == ['stage="retrieval"', 'segment="legal"', 'severity="page"']
    assert routes[0]["receiver"] == "legal-search-page"
    assert "legal-search-ticket" in {receiver["name"] for receiver in alertmanager(policy)["receivers"]}


def test_the_first_override_that_fits_has_the_owner(made: Made) -> None:
    """Though a later one that fits as well names another: in the routes as in the label."""
    settings: dict[str, Any] = {
        "segments": [{"service": "shop", "alert": True}, {"segment": "legal", "owners": {"ranking": "lawyers"}}]
    }
    policy = made(**settings)
    found = [(route["matchers"], route["receiver"]) for route in alertmanager(policy)["route"]["routes"]]
    assert found[0] == (['stage="ranking"', 'service="shop"', 'severity="page"'], "ranking-context-page")
    assert found[2] == (['stage="ranking"', 'segment="legal"', 'severity="page"'], "lawyers-page")
    assert labeled_owner(policy, "ranking") == (
        '{{ if eq $labels.service "shop" }}ranking-context{{ else }}'
        '{{ if eq $labels.segment "legal" }}lawyers{{ else }}ranking-context{{ end }}{{ end }}'
    )


def test_triage_gets_every_alert_beside_its_owner(made: Made) -> None:
    """Where its address is given, and the owner's route is still looked for."""
    routing = alertmanager(made(triage="http://localhost:9465/alerts"))
    assert routing["route"]["routes"][0] == {"receiver": "triage", "matchers": ['stage!=""'], "continue": True}
    assert routing["receivers"][-1]["webhook_configs"][0]["url"] == "http://localhost:9465/alerts"
    assert "triage" not in str(alertmanager(made()))


def test_awkward_names_stay_one_string(written: Written) -> None:
    """A segment with quotes and braces is text in rules and routes, not syntax."""
    segment = 'a "b" {{c}} \\d'
    config = written(segments=[{"segment": segment, "targets": {"retrieval": 0.96}, "owners": {"ranking": "x"}}])
    files = render(config)
    matchers = yaml.safe_load(files["alertmanager.yml"])["route"]["routes"][0]["matchers"]
    assert matchers[1] == 'segment="a \\"b\\" {{c}} \\\\d"'
    assert 'segment="a \\"b\\" {{c}} \\\\d"' in files["recording.yml"]
