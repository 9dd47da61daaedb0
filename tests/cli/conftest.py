"""Stores with recorded requests, and the command line as a user starts it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest
from typer.main import get_command

from ragtrace.store import Store
from ragtrace.types import (
    Candidate,
    Facet,
    Fault,
    GenerateRun,
    Generation,
    PackedChunk,
    Packing,
    PackRun,
    Query,
    RankMove,
    RequestRecord,
    RerankRun,
    RetrieveRun,
)
from tests.cli.command_server import CommandServer
from tests.engines.conftest import model_server, tiny_causal_lm, tiny_chat_lm

__all__ = ["model_server", "tiny_causal_lm", "tiny_chat_lm"]

Cli: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]

TEXT = "The deductible of policy HX-2 is 500 EUR from 2024."


def environment(**variables: str) -> dict[str, str]:
    """The environment of a command, free of ragtrace's own settings but for those given."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RAGTRACE")}
    root = str(Path(__file__).resolve().parents[2])
    return kept | {"PYTHONPATH": root, "COLUMNS": "200"} | variables


@pytest.fixture(scope="session", autouse=True)
def _verbs_are_built_once() -> Iterator[None]:
    """And not for each command that a test runs in its own process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(get_command))
        yield


@pytest.fixture(scope="session")
def command_server() -> Iterator[CommandServer]:
    """A process that has imported ragtrace and runs commands."""
    server = CommandServer()
    yield server
    server.close()


@pytest.fixture
def cli(tmp_path: Path, command_server: CommandServer, tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """Run `python -m ragtrace ARGUMENTS` in an empty folder."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        scratch = tmp_path_factory.mktemp("printed")
        return command_server.run(arguments, folder=tmp_path, environment=environment(**variables), scratch=scratch)

    return run


def recorded(request_id: str) -> RequestRecord:
    """A healthy request: one chunk, retrieved, kept, packed, quoted and cited."""
    return RequestRecord(
        request_id=request_id,
        service="support",
        segment="policy",
        trace_id="0af7651916cd43dd8448eb211c80319c",
        started_at=1_700_000_000_000_000_000,
        ended_at=1_700_000_001_000_000_000,
        query=Query(original="What is the deductible of HX-2?", facets=(Facet(kind="entity", value="HX-2"),)),
        versions={"model": "m-1"},
        stages=(
            RetrieveRun(candidates=(Candidate(chunk_id="hx-2", rank=1, score=0.9, text=TEXT),)),
            RerankRun(moves=(RankMove(chunk_id="hx-2", rank_before=1, rank_after=1),)),
            PackRun(packing=Packing(chunks=(PackedChunk(chunk_id="hx-2", position=1, text=TEXT),))),
            GenerateRun(generation=Generation(answer="The deductible of policy HX-2 is 500 EUR from 2024 [1].")),
        ),
    )


IDS = ("0190aaaa" + "0" * 24, "0190aabb" + "0" * 24)


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    """A SQLite store with two recorded requests that wait for analysis, and one fault."""
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    with Store.open(url) as store:
        fault = Fault(service="support", where="coerce.retrieve", kind="DataFrame", message="no rows", at=1)
        store.write([*(recorded(request_id) for request_id in IDS), fault])
    return url
