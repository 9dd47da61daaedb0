"""A process that has imported ragtrace and runs each command in a fork of its own.

A command that is tested is then a process as a user's is, with its own environment, folder, output, exit code and
modules' state, without the second or two that the imports take each time. What a command imports or does not import is
tested with an interpreter of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import importlib
import json
import os
import pkgutil
import runpy
import subprocess
import sys
import threading
import traceback
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

__all__ = ["CommandServer"]

ROOT: Final = Path(__file__).resolve().parents[2]
OPTIONAL: Final = (
    "torch",
    "transformers",
    "sentence_transformers",
    "faiss",
    "scipy.stats",
    "pandas",
    "typer._adapters",  # with pydantic, by which typer reads options
)
LEFT_OUT: Final = ("ragtrace.__main__", "ragtrace._share")  # a command, and data
LONGEST: Final = 300.0  # seconds of a command; one that hangs then ends with the stacks of its threads


class CommandServer:
    """Runs commands one after another; started with the first one, ended by `close`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(
        self, arguments: tuple[str, ...], *, folder: Path, environment: dict[str, str], scratch: Path
    ) -> subprocess.CompletedProcess[str]:
        """What `python -m ragtrace ARGUMENTS` did in this folder with this environment; scratch: a folder for what it
        prints."""
        if self._process is None:
            self._process = self._started()
        out, err = scratch / "stdout", scratch / "stderr"
        order = {"arguments": arguments, "folder": str(folder), "environment": environment}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(order | {"out": str(out), "err": str(err)}) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
        except BaseException:  # a test's time is over, or the server has died: its next answer would be this one's
            self._process.kill()
            self.close()
            raise
        return subprocess.CompletedProcess(["ragtrace", *arguments], code, out.read_text(), err.read_text())

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            process, self._process = self._process, None
            with contextlib.suppress(BrokenPipeError):  # it has ended
                assert process.stdin is not None
                process.stdin.close()
            process.wait()

    @staticmethod
    def _started() -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, "-m", "tests.cli.command_server"]
        # One thread: what forks must not have others, which may hold a lock at that moment.
        variables = os.environ | {"PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(command, cwd=ROOT, env=variables, stdin=pipe, stdout=pipe, text=True)


def _import_all() -> None:
    """Import what commands import: all of ragtrace, and the libraries that take longest where they are installed; and
    build the verbs."""
    package = importlib.import_module("ragtrace")
    names = [module.name for module in pkgutil.walk_packages(package.__path__, "ragtrace.")]
    for name in (*OPTIONAL, *(name for name in names if not name.startswith(LEFT_OUT))):
        with contextlib.suppress(ImportError):  # an extra that is not installed
            importlib.import_module(name)
    cli = importlib.import_module("ragtrace.cli")
    vars(cli)["get_command"] = cache(cli.get_command)  # typer builds all verbs for each command
    cli.get_command(cli.app)


def _write_to(path: str, descriptor: int, *, errors: str | None = None, buffering: int = -1) -> IO[str]:
    """A stream on the standard descriptor, which goes to the file from now on."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, descriptor)
    os.close(file)
    return open(descriptor, "w", encoding="utf-8", closefd=False, errors=errors, buffering=buffering)


def _command(order: dict[str, Any]) -> int:
    """Run one command in this process, which ends afterwards; its exit code."""
    sys.stdout = _write_to(order["out"], 1)
    sys.stderr = _write_to(order["err"], 2, errors="backslashreplace", buffering=1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    sys.path.insert(0, order["folder"])
    sys.argv = ["ragtrace", *order["arguments"]]
    faulthandler.dump_traceback_later(LONGEST, exit=True)
    code = 0
    try:
        runpy.run_module("ragtrace", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]  # what an interpreter does at its end, in its order
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _serve() -> None:
    """Take orders, a line of JSON each, until the input ends; answer each with the exit code."""
    _import_all()
    gc.collect()
    gc.freeze()  # forks share what is imported
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        child = os.fork()
        if not child:
            os._exit(_command(json.loads(line)))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, file=answers, flush=True)


if __name__ == "__main__":
    _serve()
