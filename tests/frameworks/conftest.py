"""Checks what is read from a real library's objects, and with `--record` writes them down for where it is missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from ragtrace.record.coercion import Chunk, read_chunks
from tests.frameworks.look_alikes import build, describe

RECORDED: Final = Path(__file__).parent / "recorded"

Reads = Callable[..., None]


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--record NAME`."""
    parser.addoption("--record", metavar="NAME", help="write down what the libraries of this environment returned")


def as_data(chunk: Chunk) -> dict[str, Any]:
    """A chunk without what is as it is by default."""
    return {name: part for name, part in msgspec.to_builtins(chunk).items() if part != getattr(Chunk(), name)}


@pytest.fixture(scope="module")
def reads(request: pytest.FixtureRequest) -> Iterator[Reads]:
    """Asserts which chunks are read from a value, from the real one and from its look-alike, and keeps the value.

    The module says in `DISTRIBUTIONS` which versions the recording is of.
    """
    cases: dict[str, Any] = {}

    def check(case: str, value: Any, expected: list[Chunk]) -> None:
        read = read_chunks(value)
        assert [chunk for _, chunk in read.ranked] == expected
        assert read.unread == []
        data = describe(value)
        assert [chunk for _, chunk in read_chunks(build(json.loads(json.dumps(data)))).ranked] == expected
        cases[case] = {"value": data, "chunks": [as_data(chunk) for chunk in expected]}

    yield check
    if request.config.getoption("--record") and not request.session.testsfailed:
        module = request.module
        versions = {name: version(name) for name in module.DISTRIBUTIONS}
        path = RECORDED / f"{module.__name__.rpartition('.')[2].removeprefix('test_')}.json"
        content = {"recorded_with": versions, "cases": cases}
        path.write_text(json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")
