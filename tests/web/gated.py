"""Replays of two tenants, one of them with a hostile name, and a run of the gate of each."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec

from ragtrace.analyze import worker
from ragtrace.safe_text import dumps
from ragtrace.store import GateRun, Store
from ragtrace.types import GenerateRun, Generation, PackedChunk, Packing, PackRun, Query, RequestRecord
from tests.gate.reported import passed

__all__ = ["COMPARED", "RIVALS", "RUN", "add_gate"]

RUN: Final = "0199-acme-run"
COMPARED: Final = f"/compare?a={quote('acme before')}&b={quote('acme after')}"
RIVALS: Final = (f"/compare?a={quote('rival before')}&b={quote('rival after')}", "/gate/0199-rival-run")
_AT: Final = 1_760_000_000_000_000_000


def add_gate(store: Store, evil: str) -> None:
    """Add them to a store."""
    for tenant in ("acme", "rival"):
        for place, (side, answer) in enumerate((("before", "EUR 19,500 is paid."), ("after", f"EUR 91,500 {evil}"))):
            store.write(_replay(tenant, f"{tenant} {side}", answer, place))
        report = msgspec.structs.replace(
            passed(), run_id=f"0199-{tenant}-run", service=f"{tenant}/tried", warnings=(f"{tenant} {evil}",)
        )
        run = GateRun(
            report.run_id, report.service or "", _AT, "pass", f"replay:{tenant} before", f"replay:{evil} {tenant}"
        )
        store.add_gate_run(run, dumps(msgspec.to_builtins(report)).encode())
    store.write(_replay("acme", evil, "EUR 1 is paid.", 5))
    worker.run(store)


def _replay(tenant: str, name: str, answer: str, place: int) -> list[RequestRecord]:
    text = "The most we pay for escape of water is EUR 19,500 for each event."
    return [
        RequestRecord(
            request_id=f"{tenant}-{place}-{number}",
            service=f"{tenant}/tried",
            tenant_id=tenant,
            started_at=_AT + number,
            ended_at=_AT + number + 10,
            query=Query(original=f"What is paid for escape of water, case {number}, to {tenant}?"),
            attributes={"ragtrace.replay.run": name, "ragtrace.replay.question": f"q{number}"},
            stages=(
                PackRun(packing=Packing(chunks=(PackedChunk(chunk_id="ie#limit", position=1, text=text),))),
                GenerateRun(generation=Generation(answer=answer)),
            ),
        )
        for number in range(3)
    ]
