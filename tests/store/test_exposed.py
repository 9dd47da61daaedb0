"""Which label values are exported by name."""

from __future__ import annotations

from ragtrace.store import Store


def test_places_are_given_in_order_and_once(store: Store) -> None:
    """By label and service; a value that has a place keeps it, new ones stand behind."""
    assert store.exposed() == {}
    store.expose({("segment", "shop"): ["b", "a"], ("source", "shop"): ["a"]})
    store.expose({("segment", "shop"): ["c", "a", "c"], ("segment", "desk"): ["z"]})
    store.expose({})
    assert store.exposed() == {
        ("segment", "shop"): ("b", "a", "c"),
        ("source", "shop"): ("a",),
        ("segment", "desk"): ("z",),
    }


def test_any_text_may_be_a_value(store: Store) -> None:
    """As for the labels of totals, whatever a host calls its segments; the same value again takes no second place."""
    awkward = ["\x00", "\ud800", 'a "quoted"\nline', "é", ""]
    for _ in range(2):
        store.expose({("segment", "shop \x00"): awkward})
    assert store.exposed() == {("segment", "shop \x00"): tuple(awkward)}
