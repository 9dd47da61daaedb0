"""What receives alerts: a real Alertmanager, and a webhook for each owner that keeps what was posted."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from tests.live.prometheus import await_, program

__all__ = ["Alertmanager", "Notification", "Webhook", "stop"]

STOP_SECONDS = 30


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that the test started, and wait for its end."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Notification(NamedTuple):
    """One POST of Alertmanager: when, to whom, of which severity, and what it says."""

    at: float
    owner: str
    severity: str
    body: dict[str, Any]

    @property
    def group(self) -> tuple[str, str]:
        """Service and stage."""
        labels = self.body["groupLabels"]
        return labels.get("service", ""), labels.get("stage", "")


class Webhook:
    """An owner's receiver on a port of its own; pages come to /page, tickets to /ticket."""

    def __init__(self, owner: str, into: list[Notification]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                into.append(Notification(time.time(), owner, self.path.strip("/"), body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def receivers(self) -> dict[str, Any]:
        """What stands under the owner's name in the settings of `ragtrace alerts render`."""
        url = f"http://127.0.0.1:{self._server.server_port}"
        return {name: {"webhook_configs": [{"url": f"{url}/{name}"}]} for name in ("page", "ticket")}

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Alertmanager:
    """A real Alertmanager on a free loopback port, without a cluster."""

    def __init__(self, folder: Path, config: Path) -> None:
        self._program = program("prometheus-alertmanager", "prometheus-alertmanager")
        self._config = config
        self._folder = folder
        folder.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.address = f"127.0.0.1:{taken.getsockname()[1]}"
        self.log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it answers."""
        command = [
            self._program,
            f"--config.file={self._config}",
            f"--storage.path={self._folder / 'data'}",
            f"--web.listen-address={self.address}",
            "--cluster.listen-address=",
        ]
        with self.log.open("ab") as file:
            self._process = subprocess.Popen(command, stdout=file, stderr=file)
        await_(self._is_ready, self.log)

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text(encoding="utf-8")
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        """End it, and wait for its end."""
        if self._process is not None:
            stop(self._process)
            self._process = None
