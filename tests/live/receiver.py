"""A receiver as an operator runs it, for tests that send to it over HTTP and gRPC."""

from __future__ import annotations

import gzip
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from ragtrace.store import Store
from tests.live.test_serving import trace

__all__ = ["EXPORT", "Served", "free_port"]

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


class Served:
    """A receiver in a process of its own. options: further ones of `ragtrace serve`."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.url = f"sqlite:///{folder}/fuzzed.db"
        self.log = folder / "log"
        self.port, self.rpc_port = free_port(), free_port()
        ports = ["--port", str(self.port), "--grpc-port", str(self.rpc_port)]
        Store.open(self.url).close()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ragtrace", "serve", *ports, "--grace", "0.2", *options, "--store", self.url],
                stdout=log,
                stderr=log,
            )
        while b"taking spans" not in self.log.read_bytes():
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)

    @property
    def peak(self) -> int:
        """The most memory that it and the processes that it has started have had, in bytes."""
        return sum(
            int(status.partition("VmHWM:")[2].split()[0]) << 10
            for process in [self.process.pid, *children(self.process.pid)]
            if "VmHWM:" in (status := Path(f"/proc/{process}/status").read_text())
        )

    def stop(self) -> None:
        """End it as an operator does."""
        self.process.terminate()
        self.process.wait(60)

    def post(self, number: int) -> int:
        """Send one trace over HTTP as it should be."""
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/traces", trace(number), headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def export(self, number: int) -> bool:
        """Send one over gRPC as it should be."""
        import grpc

        with grpc.insecure_channel(f"127.0.0.1:{self.rpc_port}") as channel:
            try:
                export: Any = channel.unary_unary(EXPORT)
                export(gzip.decompress(trace(number)), timeout=30)
            except grpc.RpcError:
                return False
        return True


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    listed = Path(f"/proc/{process}/task").glob("*/children")
    return [int(each) for path in listed for each in path.read_text().split()]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
