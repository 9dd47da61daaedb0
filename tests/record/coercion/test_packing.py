"""What a packer may return, and how packed chunks are recognized."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ragtrace.record.coercion import Known, Unreadable, read_packing
from ragtrace.types import Candidate, DroppedChunk, PackedChunk

TEXTS = {
    "a": "The first chunk, about motor insurance.",
    "b": "The second chunk, about travel.",
    "c": "The third chunk.",
}
KNOWN = Known([Candidate(chunk_id=name, rank=rank, text=text) for rank, (name, text) in enumerate(TEXTS.items(), 1)])


def pack(value: Any) -> tuple[list[tuple[str, bool]], list[tuple[str, str]]]:
    """Ids and truncation of the packed, ids and reasons of the dropped."""
    packing = read_packing(value, KNOWN, ["a", "b", "c"], None).packing
    return (
        [(chunk.chunk_id, chunk.truncated) for chunk in packing.chunks],
        [(chunk.chunk_id, chunk.reason) for chunk in packing.dropped],
    )


REST = [("b", "limit"), ("c", "limit")]
CUT = [("b", "budget"), ("c", "budget")]


@pytest.mark.parametrize(
    ("value", "packed", "dropped"),
    [
        (["a"], [("a", False)], REST),
        ([TEXTS["a"]], [("a", False)], REST),
        ([TEXTS["a"][:20] + "…"], [("a", True)], CUT),
        ([{"id": "a", "text": TEXTS["a"][:20]}], [("a", True)], CUT),
        ([{"id": "a", "tokens": 5, "tokens_full": 9}], [("a", True)], CUT),
        ([{"id": "a", "tokens": 5, "truncated": False}], [("a", False)], REST),
        ([SimpleNamespace(chunk_id="a", text=TEXTS["a"], truncated=True)], [("a", True)], CUT),
        (f"Use {TEXTS['c']} and {TEXTS['a']}", [("c", False), ("a", False)], [("b", "filter")]),
        ((["a"], "the prompt"), [("a", False)], REST),
        (("the prompt", ["a"]), [("a", False)], REST),
        ({"prompt": TEXTS["b"]}, [("b", False)], [("a", "filter"), ("c", "unknown")]),
        ([{"role": "user", "content": f"Use:\n{TEXTS['b']}"}], [("b", False)], [("a", "filter"), ("c", "unknown")]),
        ([SimpleNamespace(type="human", content=TEXTS["b"])], [("b", False)], [("a", "filter"), ("c", "unknown")]),
        ({"messages": [{"role": "user", "content": TEXTS["a"]}]}, [("a", False)], REST),
        ({"chunks": ["a"], "dropped": [("b", "budget")]}, [("a", False)], CUT),
        ({"chunks": ["a"], "dropped": {"b": "budget"}}, [("a", False)], CUT),
        (
            SimpleNamespace(chunks=["a"], dropped=[{"chunk_id": "c", "reason": "duplicate"}, "b"]),
            [("a", False)],
            [("c", "duplicate"), ("b", "limit")],
        ),
        ({"chunks": [], "dropped": []}, [], [("a", "unknown"), ("b", "unknown"), ("c", "unknown")]),
    ],
)
def test_what_a_packer_may_return(value: Any, packed: list[Any], dropped: list[Any]) -> None:
    """Chunks, prompts, mappings and objects; what was packed is in order, what was not has a reason."""
    assert pack(value) == (packed, dropped)


def test_tokens_budget_and_text() -> None:
    """The budget is the argument's, else the value's; a packed chunk without text has its candidate's."""
    value = {"chunks": [{"id": "a", "tokens": 5}], "budget_tokens": 7, "prompt": "p"}
    packed = read_packing(value, KNOWN, [], None)
    assert packed.packing.budget_tokens == 7
    assert packed.packing.chunks == (PackedChunk(chunk_id="a", position=1, tokens=5, tokens_full=5, text=TEXTS["a"]),)
    assert packed.prompt == "p"
    assert read_packing(value, KNOWN, [], 9).packing.budget_tokens == 9


def test_a_truncated_chunk_without_text_has_none() -> None:
    """The full text did not stand in the prompt."""
    packed = read_packing([{"id": "a", "tokens": 1, "tokens_full": 9}], KNOWN, [], None)
    assert packed.packing.chunks[0].text is None


def test_a_dropped_chunk_is_named_once() -> None:
    """A chunk that was packed after all is not dropped too."""
    packed = read_packing({"chunks": ["a"], "dropped": ["a", "b"]}, KNOWN, ["a", "b"], None)
    assert packed.packing.dropped == (DroppedChunk(chunk_id="b", reason="limit", inferred=True),)


@pytest.mark.parametrize("value", [5, None, object(), {"x": 1}])
def test_what_holds_neither_chunks_nor_prompt_is_unreadable(value: Any) -> None:
    """It is named by its type."""
    with pytest.raises(Unreadable) as caught:
        read_packing(value, KNOWN, [], None)
    assert caught.value.kind == type(value).__name__


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (TEXTS["a"][:25] + "…", (True, 0, 25)),
        ("…" + TEXTS["a"][10:], (True, 10, 38)),
        ("[...] " + TEXTS["a"][4:30], (True, 4, 30)),
        (TEXTS["a"][4:30], (True, 4, 30)),
        ("Policy: " + TEXTS["a"].replace(" ", "\n"), (False, None, None)),
        (TEXTS["a"] + "\n", (False, None, None)),
        ("In short: cars.", (False, None, None)),
    ],
)
@pytest.mark.parametrize("chunk_id", ["a", None])
def test_where_a_listed_chunk_was_cut(chunk_id: str | None, body: str, part: tuple[bool, int, int]) -> None:
    """By the text that was given; without an id it tells the chunk too, as far as it is the chunk's own words."""
    item = {"id": chunk_id, "text": body} if chunk_id else body
    (chunk,) = read_packing([item], KNOWN, [], None).packing.chunks
    if chunk_id or "short" not in body:
        assert chunk.chunk_id == "a"
    assert (chunk.truncated, chunk.given_start, chunk.given_end) == part
    assert chunk.text == body


def test_the_prompt_tells_how_listed_chunks_were_given() -> None:
    """Ids beside a prompt in which a chunk was cut."""
    text = "The fourth chunk is about household contents and what burglars leave of them."
    known = Known([*KNOWN.by_id.values(), Candidate(chunk_id="d", rank=4, text=text)])
    value = (["d", "b"], f"Use:\n\n{TEXTS['b']}\n\n{text[:41]}...\n\nWhy?")
    first, second = read_packing(value, known, [], None).packing.chunks
    assert (first.chunk_id, first.text, first.truncated, first.given_end) == ("d", text[:41] + "...", True, 41)
    assert (second.chunk_id, second.text, second.truncated) == ("b", TEXTS["b"], False)


CHUNKS: list[Any] = [{"id": "a", "text": TEXTS["a"]}, {"id": "b", "text": TEXTS["b"]}]


@pytest.mark.parametrize(
    "value", [(CHUNKS, 17), (CHUNKS, "the prompt", 17), (17, "the prompt", CHUNKS), (CHUNKS, [0.9, 0.5])]
)
def test_chunks_and_what_a_packer_returns_beside_them(value: Any) -> None:
    """A count of tokens, a prompt, scores: the chunks are those of the list."""
    assert [chunk_id for chunk_id, _ in pack(value)[0]] == ["a", "b"]


def test_of_two_lists_nobody_knows_which_was_packed() -> None:
    """The second may be the dropped ones: a prompt beside them tells, else they are unread."""
    assert pack((CHUNKS[:1], CHUNKS[1:], f"Use: {TEXTS['b']}"))[0] == [("b", False)]
    with pytest.raises(Unreadable):
        pack((CHUNKS[:1], CHUNKS[1:]))
