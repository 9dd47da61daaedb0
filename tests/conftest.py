"""What all tests share: a scratch PostgreSQL on a free loopback port, and the capture matrix of what passed."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.captures.plugin import CapturePlugin
from tests.schemas import SchemaReplay

_PASSWORD = "s3cret-words"

settings.register_profile("repeatable", derandomize=True, deadline=None)  # what passes passes again: a release can wait
settings.register_profile("searching", deadline=None, max_examples=1_000, print_blob=True)  # `make fuzz`
settings.load_profile("repeatable")

os.environ.setdefault("GOGC", "400")  # promtool spends a quarter of its time on garbage that it has room for

os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch's threads would wait for each other, spinning, beside other tests

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job hands that down to what tests start
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--write-captures`."""
    parser.addoption(
        "--write-captures", action="store_true", help="write docs/reference/capture.md from the tests that passed"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Listen to the tests that are marked `captures`."""
    config.pluginmanager.register(CapturePlugin(config), "captures")


@pytest.fixture(scope="session", autouse=True)
def schema_replay() -> Iterator[SchemaReplay]:
    """Empty databases get their schema by statements that are known already."""
    replay = SchemaReplay()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("alembic.command.upgrade", replay.upgrade)
        yield replay


@pytest.fixture
def capture_plugin(pytestconfig: pytest.Config) -> CapturePlugin:
    """What has passed so far; a test that asks for it comes last."""
    plugin = pytestconfig.pluginmanager.get_plugin("captures")
    assert isinstance(plugin, CapturePlugin)
    return plugin


class PostgresServer:
    """A PostgreSQL server of our own, in a temporary folder, with password authentication."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.binaries = binaries
        self.folder = folder
        self.port = _free_port()
        self.password = _PASSWORD
        self._as: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []}
        if os.geteuid() != 0:
            self._as = {}
        self._numbers = itertools.count()
        self._process: subprocess.Popen[bytes] | None = None

    def create(self) -> None:
        """Make the cluster and start the server."""
        if self._as:
            shutil.chown(self.folder, "postgres", "postgres")
        secret = self.folder / "password"
        secret.write_text(self.password)
        secret.chmod(0o644)
        options = ["--auth=scram-sha-256", f"--pwfile={secret}", "--username=ragtrace", "--no-sync", "--encoding=UTF8"]
        subprocess.run(
            [self.binaries / "initdb", "-D", self.folder / "data", "--locale=C.UTF-8", *options],
            check=True,
            capture_output=True,
            cwd=self.folder,
            **self._as,
        )
        self.start()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        settings = [f"port={self.port}", f"unix_socket_directories={self.folder}", "listen_addresses=127.0.0.1"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self.binaries / "postgres",
                    *("-D", self.folder / "data", "-F"),
                    *(part for each in settings for part in ("-c", each)),
                ],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self._as,
            )
        for _ in range(600):
            if self._process.poll() is not None:
                break
            if subprocess.run(self._ready(), capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.05)
        raise RuntimeError(f"PostgreSQL did not start:\n{(self.folder / 'log').read_text()}")

    def _ready(self) -> list[str]:
        return [str(self.binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server and drop its connections; with SIGQUIT without writing anything to disk."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=60)
            self._process = None

    def kill(self) -> None:
        """Kill all of its processes at once, as the kernel may when memory runs out."""
        assert self._process is not None
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/children")
        children = [int(each) for task in tasks for each in task.read_text().split()]
        for each in (self._process.pid, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        self._process.wait(timeout=60)
        self._process = None
        while any(Path(f"/proc/{each}").exists() for each in children):
            time.sleep(0.05)

    def url(self, database: str, *, user: str = "ragtrace", password: str = _PASSWORD) -> str:
        """The store URL of a database of this server."""
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def run(self, statement: str, database: str = "postgres") -> None:
        """Run one statement as the superuser, outside a transaction."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def new_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"scratch_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name}")
        return self.url(name)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running PostgreSQL; the test is skipped where none can be started."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (pip install 'ragtrace[server]')")
    binaries = _postgres_binaries()
    with tempfile.TemporaryDirectory(prefix="ragtrace-postgres-", ignore_cleanup_errors=True) as folder:
        server = PostgresServer(binaries, Path(folder))
        try:
            server.create()
            yield server
        finally:
            server.stop(signal.SIGQUIT)


def _postgres_binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    on_path = shutil.which("initdb")
    if on_path:
        found.append(Path(on_path).resolve().parent)
    if not found:
        pytest.skip("PostgreSQL's initdb is not installed (apt-get install postgresql)")
    if os.geteuid() == 0 and subprocess.run(["id", "postgres"], capture_output=True, check=False).returncode:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres (apt-get install postgresql)")
    return found[-1]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
