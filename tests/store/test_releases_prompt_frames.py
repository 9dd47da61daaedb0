"""Frames of prompts as versions: a change that nobody declared is a release, and what differs each time is none."""

from __future__ import annotations

from pathlib import Path

import ragtrace
from ragtrace.store import Store
from ragtrace.store._releases import PromptFrames, frame_hash
from ragtrace.types import GenerateRun, Generation, Query, RequestRecord

SAY = "Answer from the passages.\n\n{chunks}\n\nQuestion: {question}\nAnswer:"


def record(number: int, frame: str = SAY, chunks: int = 3, **fields: object) -> RequestRecord:
    """A request with numbered passages, other ones each time."""
    question = f"What does item {number} cost in {'abc'[number % 3]}?"
    passages = "\n".join(f"[{place}] {{chunk:{number}-{place}}}" for place in range(1, chunks + 1))
    template = frame.format(chunks=passages, question=question)
    made = GenerateRun(generation=Generation(answer="A.", prompt_template=template))
    return RequestRecord(
        request_id=f"r{number}",
        service="s",
        started_at=1_000 + number,
        query=Query(original=question),
        stages=(made,),
        **fields,  # type: ignore[arg-type]
    )


def test_a_frame_is_the_same_whatever_is_asked_and_found() -> None:
    """Question, chunks, how many there are, and numbers do not count; a changed word does."""
    hashes = {frame_hash(record(number, chunks=2 + number)) for number in range(6)}
    assert len(hashes) == 1
    assert None not in hashes
    assert frame_hash(record(1, SAY.replace("Answer from", "Reply from"))) not in hashes
    assert frame_hash(record(1, chunks=1)) is None


def test_a_prompt_that_changes_without_a_word_is_a_release(tmp_path: Path) -> None:
    """From the tenth request on; what the host states wins, and other versions stay."""
    with Store.open(f"sqlite:///{tmp_path / 's.db'}") as store:
        store.write([record(number, versions={"model": "m"}) for number in range(20)])
        store.write([record(number, SAY.replace("Answer from", "Guess from")) for number in range(20, 40)])
        store.write([record(50, versions={"prompt_hash": "own"})])
        found = [one for one in store.releases("s") if one.component == "prompt_hash"]
        assert [one.at for one in found] == [1_009, 1_029, 1_050]
        assert found[2].version == "own"
        last = store.get_record("r39")
        assert last is not None
        assert last.versions == {"prompt_hash": found[1].version}


def test_what_differs_in_each_request_is_no_version() -> None:
    """A conversation in the prompt would be a release a request."""
    frames = PromptFrames()
    talk = [record(number, f"Before: {'so ' * number}\n" + SAY) for number in range(300)]
    assert not any("prompt_hash" in frames.version(one).versions for one in talk)


def test_a_request_counts_once_however_often_it_is_written() -> None:
    """A database that is away has a batch tried again and again."""
    frames = PromptFrames()
    for _ in range(20):
        assert "prompt_hash" not in frames.version(record(1)).versions


def test_a_packer_that_returns_a_string_has_a_hash_and_counts(tmp_path: Path) -> None:
    """Its chunks are found in the prompt, by what the retriever returned."""
    from ragtrace.analyze._totals import stage_expenses

    url = f"sqlite:///{tmp_path / 's.db'}"
    ragtrace.configure(service="s", store=url, raise_errors=True)

    @ragtrace.retrieve
    def search(question: str) -> list[str]:
        return [f"The limit for fire is EUR {len(question)}00 in each year.", "Theft is paid after a report was made."]

    @ragtrace.pack
    def pack(question: str, chunks: list[str]) -> str:
        listed = "\n".join(f"[{number}] {chunk}" for number, chunk in enumerate(chunks, 1))
        return f"Use the passages.\n\n{listed}\n\nQuestion: {question}"

    @ragtrace.generate
    def answer(prompt: str) -> str:
        return "It is so."

    @ragtrace.request
    def ask(question: str) -> str:
        return answer(pack(question, search(question)))

    try:
        for number in range(12):
            ask("What is the limit for fire" + "?" * (1 + number % 3))
    finally:
        ragtrace.shutdown()
    with Store.open(url) as store:
        ids = [row.request_id for row in store.find_requests(limit=20)]
        records = store.get_records(ids).values()
        assert len({one.versions.get("prompt_hash") for one in records} - {None}) == 1
        expenses = {one.stage: one for one in stage_expenses(next(iter(records)))}
        assert expenses["pack"].output_tokens
        assert expenses["generate"].input_tokens
