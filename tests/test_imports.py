"""`import ragtrace` is light: a host pays for nothing that it does not use, and misses nothing that it does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ragtrace
from ragtrace.installation import PACKAGES

HEAVY = {"torch", "transformers", "sqlalchemy", "alembic", "yaml", "numpy", "typer", "click", "rich", "sentencex"}
HEAVY |= {"prometheus_client", "zstandard", "asyncio", "tempfile", "subprocess", "urllib.request", "http.client"}


def test_import_loads_nothing_heavy() -> None:
    """Neither models nor SQL nor YAML nor a terminal library."""
    environment = {**os.environ, "PYTHONPATH": str(Path(ragtrace.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import ragtrace"],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "ragtrace.record" in loaded
    assert {name for name in HEAVY if name in loaded} == set()


def test_adapters_can_be_imported_before_the_rest_of_the_record() -> None:
    """No circle joins them to coercion: each of the packages loads first, without what its parents load before it."""
    script = (
        "import importlib, sys, types\n"
        "for first in ('adapters', 'coercion', 'instrumentation'):\n"
        "    for name in [name for name in sys.modules if name.partition('.')[0] == 'ragtrace']:\n"
        "        del sys.modules[name]\n"
        "    for name, path in (('ragtrace', sys.argv[1]), ('ragtrace.record', sys.argv[1] + '/record')):\n"
        "        sys.modules[name] = types.ModuleType(name)\n"
        "        sys.modules[name].__path__ = [path]\n"
        "    importlib.import_module('ragtrace.record.' + first)\n"
    )
    root = Path(ragtrace.__file__).parent
    done = subprocess.run([sys.executable, "-c", script, str(root)], capture_output=True, text=True, check=False)
    assert done.stderr == ""


REFUSAL = """
import sys

class Refusing:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in REFUSED else self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Refusing, sys.meta_path)
"""
HOST = """
import os, threading, ragtrace
from ragtrace.store import Store

url = "sqlite:///host.db"

@ragtrace.request
def ask(question):
    hits = ragtrace.rerank(lambda query, hits: hits[::-1])(question, search(question))
    ragtrace.generate(lambda prompt: "30 days [1].")(ragtrace.pack(lambda hits: hits[0][1])(hits))
    return ragtrace.current_request()

@ragtrace.retrieve
def search(query):
    return [("a", "You can return a lamp within 30 days.", 0.5), ("b", "Bulbs are not covered.", 0.4)]

os.mkdir("host.db")  # no database can be opened here
ragtrace.configure(service="host", store=url)
ask("spooled?").flag("late")
assert not ragtrace.shutdown(0.2)
os.rmdir("host.db")
ragtrace.configure(service="host", store=url, sample_rate=0.0, sample_floor=0, low_score=0.6)
ask("screened?")
assert ragtrace.flush(30)
ragtrace.configure(service="host", store=url)
ask("stored?")
assert ragtrace.flush(30) and ragtrace.shutdown(30)
with Store.open(url) as store:
    records = store.get_records([row.request_id for row in store.find_requests(limit=9)])
    print([fault.kind for fault in store.faults()])
print(sorted((record.query.original, *record.flags) for record in records.values()))
print(sorted({name.partition(".")[0] for name in sys.modules} & REFUSED))
"""


def _without(packages: set[str], program: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program to which these packages are not installed."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RAGTRACE")}
    environment["PYTHONPATH"] = str(Path(ragtrace.__file__).parents[1])
    command = [sys.executable, "-c", f"REFUSED = {packages!r}\n{REFUSAL}{program}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)


def test_a_host_records_stores_and_spools_without_the_analyzer(tmp_path: Path) -> None:
    """Decorators, the background threads and SQLite need no package of the extra `analyze`, and load none."""
    done = _without(set(PACKAGES), HOST, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    faults, records, loaded = done.stdout.splitlines()
    assert faults == "['StoreUnavailable']"
    assert records == "[('screened?', 'low_retrieval_score'), ('spooled?', 'late'), ('stored?',)]"
    assert loaded == "[]"


def test_a_host_that_asks_for_the_analyzer_is_told_what_to_install(tmp_path: Path) -> None:
    """`screen` above 0 analyzes in the application: what is missing is named before anything is recorded."""
    program = "import ragtrace\nragtrace.configure(screen=0.05)"
    done = _without({"snowballstemmer"}, program, folder=tmp_path)
    assert done.stderr.endswith(
        "MissingExtraError: snowballstemmer is not installed; pip install 'ragtrace[analyze]'\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_test_runner_needs_no_analyzer(tmp_path: Path) -> None:
    """Every pytest of an environment that has ragtrace loads the plugin of the gate."""
    assert _without(set(PACKAGES), "import ragtrace.gate.plugin", folder=tmp_path).stderr == ""


MAIN = "from ragtrace.__main__ import main\nsys.argv[0] = 'ragtrace'\nsys.exit(main())"


@pytest.mark.parametrize("verb", ["--version", "analyze"])
def test_without_a_command_line_one_line_says_what_to_install(tmp_path: Path, verb: str) -> None:
    """`pip install ragtrace` brings the command, but not what it is made of."""
    done = _without(set(PACKAGES), MAIN, verb, folder=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.endswith(" is not installed; pip install 'ragtrace[analyze]'\n")


VERBS = """
from ragtrace.__main__ import main

codes = []
for verb in sys.argv[1:]:
    sys.argv = ["ragtrace", *verb.split(), "--store", "sqlite:///cli.db"]
    try:
        codes.append(main())
    except SystemExit as end:
        codes.append(end.code or 0)
print(codes)
"""


def test_the_store_is_kept_without_the_analyzer(tmp_path: Path) -> None:
    """With the extra `cli` alone a database is made, checked, pruned and reported; `analyze` names its extra."""
    verbs = ("db upgrade", "doctor", "doctor --json", "db check", "db prune --keep random=30d", "analyze")
    done = _without(set(PACKAGES) - {"rich", "typer"}, VERBS, *verbs, folder=tmp_path)
    assert done.stdout.splitlines()[-1] == "[0, 0, 0, 0, 0, 2]", done.stderr
    assert done.stderr.splitlines()[-1] == "ragtrace: numpy is not installed; pip install 'ragtrace[analyze]'"


RECEIVER = """
import importlib, pkgutil
import ragtrace.receive as receive

for module in pkgutil.walk_packages(receive.__path__, receive.__name__ + "."):
    importlib.import_module(module.name)
"""


def test_a_receiver_needs_no_analyzer(tmp_path: Path) -> None:
    """`ragtrace serve` takes spans with what the extra `serve` brings."""
    brought = {"numpy", "prometheus_client", "rich", "typer"}
    assert _without(set(PACKAGES) - brought, RECEIVER, folder=tmp_path).stderr == ""
