"""Instrumentors without any framework: names, errors, entry points, settings, suppression, patches, bounds."""

from __future__ import annotations

import logging
import subprocess
import sys
import tomllib
import types
from collections.abc import Iterator
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.instrumentation.dependencies import DependencyConflictError
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]
from opentelemetry.instrumentation.utils import suppress_instrumentation
from packaging.requirements import Requirement

import ragtrace
from ragtrace.errors import ConfigurationError, MissingExtraError
from ragtrace.record import active
from ragtrace.record.guard import guarded
from ragtrace.record.instrumentation import FRAMEWORKS
from ragtrace.record.instrumentation.base import (
    Instrumentor,
    Patches,
    Run,
    Runs,
    begin_generation,
    begin_stage,
    called_from,
    finish,
    read_question,
    usable_recorder,
)
from ragtrace.types import GenerateRun, PackRun

ROOT = Path(ragtrace.__file__).parents[1]
TEXT = "Employees may take twenty days of leave."


class Example(Instrumentor):
    """Instruments the module `ragtrace_example`, which tests make."""

    module = "ragtrace_example"
    _instruments = ("pytest >= 1",)

    def apply(self) -> None:
        """Doubles what its function returns."""
        double = lambda wrapped, instance, args, kwargs: wrapped(*args, **kwargs) * 2  # noqa: E731  # a one-liner
        self.patches.wrap(sys.modules[self.module], "call", double)


class Missing(Example):
    """Its framework is not there."""

    _instance = None  # a singleton of its own
    _instruments = ("no-such-distribution >= 1",)


class Changed(Example):
    """Its framework is not what it was."""

    _instance = None

    def apply(self) -> None:
        """Finds nothing to hold on to."""
        raise AttributeError("no such hook")


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    """The example's module, imported."""
    module = types.ModuleType("ragtrace_example")
    module.__dict__["call"] = lambda: 1
    monkeypatch.setitem(sys.modules, module.__name__, module)
    yield module
    for kind in (Example, Missing, Changed):
        if kind().is_instrumented_by_opentelemetry:
            kind().uninstrument()


@pytest.mark.parametrize("call", [ragtrace.instrument, ragtrace.uninstrument])
def test_an_unknown_name_is_refused(call: Any) -> None:
    """The message says what is allowed."""
    allowed = ", ".join(FRAMEWORKS)
    with pytest.raises(ConfigurationError, match=f"'chainlang' cannot be instrumented; give one of {allowed}"):
        call("chainlang")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_missing_framework_names_the_command(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One error with the pip command that mends it."""
    known = FRAMEWORKS[framework]
    _uninstall(known.distribution, monkeypatch)
    with pytest.raises(
        MissingExtraError, match=rf"{known.distribution} is not.*pip install 'ragtrace\[{known.extra}\]'"
    ):
        ragtrace.instrument(framework)


def test_a_missing_opentelemetry_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The base class and wrapt come with the extra `otel`."""
    found = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "1" if name == "openai" else found(name))
    _uninstall("opentelemetry-instrumentation", monkeypatch)
    with pytest.raises(MissingExtraError, match=r"pip install 'ragtrace\[otel\]'"):
        ragtrace.instrument("openai")


def _uninstall(distribution: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = metadata.version

    def version(name: str) -> str:
        if name == distribution:
            raise metadata.PackageNotFoundError(name)
        return found(name)

    monkeypatch.setattr(metadata, "version", version)


def test_a_version_that_is_not_supported_is_refused() -> None:
    """The instrumentor says which one is."""

    class Old(Example):
        _instance = None
        _instruments = ("pytest < 1",)

    assert Example().conflict() is None
    assert "pytest < 1 is supported, pytest" in (Old().conflict() or "")
    assert "none is installed" in (Missing().conflict() or "")


def test_every_entry_point_is_an_instrumentor() -> None:
    """pyproject.toml names one for each framework, and `opentelemetry-instrument` can load it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = project["entry-points"]["opentelemetry_instrumentor"]
    assert set(declared) == {f"ragtrace_{framework}" for framework in FRAMEWORKS}
    for framework, known in FRAMEWORKS.items():
        module, _, name = declared[f"ragtrace_{framework}"].partition(":")
        assert (module, name) == (f"ragtrace.record.instrumentation.{framework}", known.instrumentor)
        instrumentor = getattr(import_module(module), name)()
        assert isinstance(instrumentor, BaseInstrumentor)
        assert [each.partition(" ")[0] for each in instrumentor.instrumentation_dependencies()] == [known.distribution]
        assert known.extra in project["optional-dependencies"]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_extra_installs_what_its_instrumentor_accepts(framework: str) -> None:
    """The versions that `pip install 'ragtrace[...]'` and `instrument()` take are the same, in every extra."""
    known = FRAMEWORKS[framework]
    instrumentor = getattr(import_module(f"ragtrace.record.instrumentation.{framework}"), known.instrumentor)()
    (accepted,) = map(Requirement, instrumentor.instrumentation_dependencies())
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    installed = {
        extra: requirement.specifier
        for extra, lines in extras.items()
        for requirement in map(Requirement, lines)
        if requirement.name == accepted.name
    }
    assert known.extra in installed
    assert installed == dict.fromkeys(installed, accepted.specifier)


def test_import_ragtrace_loads_nothing_of_it() -> None:
    """Neither OpenTelemetry's instrumentation nor wrapt nor a framework."""
    program = "import sys, ragtrace; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(done.stdout.split())
    assert not {name for name in loaded if name.startswith(("opentelemetry.instrumentation", "wrapt"))}
    assert "ragtrace.record.instrumentation" not in loaded


def test_instrumenting_loads_no_framework(tmp_path: Path) -> None:
    """Hooks wait for the import: a host that never imports torch does not pay for it."""
    program = (
        "import sys, ragtrace\n"
        "from ragtrace.errors import MissingExtraError\n"
        f"for name in {tuple(FRAMEWORKS)}:\n"
        "    try: ragtrace.instrument(name)\n"
        "    except MissingExtraError: pass\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    heavy = {"torch", "langchain_core", "llama_index.core", "haystack", "sentence_transformers", "openai"}
    assert heavy.isdisjoint(done.stdout.split())


def test_the_hosts_call_configures_nothing(example: Any) -> None:
    """`ragtrace.instrument` may come before `ragtrace.configure`."""
    Example().instrument(skip_dep_check=True, configure=False)
    assert active() is None
    assert example.call() == 2


def test_a_start_without_configure_takes_the_environment(
    example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`opentelemetry-instrument` calls `instrument(skip_dep_check=True)`, and nobody calls configure()."""
    monkeypatch.setenv("RAGTRACE_STORE", f"sqlite:///{tmp_path / 'ragtrace.db'}")
    monkeypatch.setenv("RAGTRACE_SERVICE", "assistant")
    Example().instrument(skip_dep_check=True)
    recorder = active()
    assert recorder is not None
    assert recorder.config.service == "assistant"
    Changed().instrument(skip_dep_check=True)
    assert active() is recorder
    ragtrace.shutdown()


def test_a_wrong_environment_does_not_stop_the_host(
    example: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged; the instrumentors of others follow."""
    monkeypatch.setenv("RAGTRACE_SAMPLE_RATE", "seven")
    Example().instrument(skip_dep_check=True)
    assert active() is None
    assert "nothing is recorded: RAGTRACE_SAMPLE_RATE 'seven' is not usable" in caplog.text


def test_without_its_framework_it_neither_configures_nor_hooks(example: Any) -> None:
    """The exception is the one that `opentelemetry-instrument` passes over."""
    with pytest.raises(DependencyConflictError):
        Missing().instrument(skip_dep_check=True)
    assert active() is None
    assert example.call() == 1


def test_a_changed_framework_hurts_nobody(example: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Hooks that do not fit are logged; the host's import goes on."""
    with caplog.at_level(logging.WARNING, "ragtrace"):
        Changed().instrument(skip_dep_check=True, configure=False)
    assert "instrument.ragtrace_example: AttributeError no such hook" in caplog.text


def test_uninstrumenting_restores(example: Any) -> None:
    """And instrumenting again works."""
    original = example.call
    for _ in range(2):
        Example().instrument(skip_dep_check=True, configure=False)
        assert example.call() == 2
        Example().uninstrument()
        assert example.call is original


def test_a_framework_that_comes_later_is_hooked_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The import triggers it; once uninstrumented, it does not."""
    (tmp_path / "ragtrace_later.py").write_text("def call():\n    return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    class Later(Example):
        _instance = None
        module = "ragtrace_later"

    for expected in (2, 1):
        Later().instrument(skip_dep_check=True, configure=False)
        if expected == 1:
            Later().uninstrument()
        assert import_module("ragtrace_later").call() == expected
        if expected == 2:
            Later().uninstrument()
        del sys.modules["ragtrace_later"]


def test_a_patch_under_another_one_is_inert_when_removed() -> None:
    """What somebody wrapped again is left where it is, and does nothing."""
    owner: Any = types.SimpleNamespace(call=lambda: 1)
    patches = Patches()
    patches.is_on = True
    patches.wrap(owner, "call", lambda wrapped, instance, args, kwargs: wrapped() * 2)
    patches.wrap(owner, "absent", lambda wrapped, instance, args, kwargs: wrapped())
    ours = owner.call
    owner.call = lambda: ours() + 10
    assert owner.call() == 12
    patches.remove()
    assert owner.call() == 11
    assert not hasattr(owner, "absent")


def test_a_hook_that_raises_is_counted(configure: Any) -> None:
    """The framework gets None."""
    recorded = configure(raise_errors=False)

    @guarded("instrument.example")
    def hook() -> int:
        raise KeyError("x")

    assert hook() is None
    assert recorded.faults == [("instrument.example", "KeyError")]


def test_suppressed_calls_are_not_recorded(recorded: Any) -> None:
    """OpenTelemetry's suppress_instrumentation is honored."""
    assert usable_recorder() is not None
    with suppress_instrumentation():
        assert usable_recorder() is None
        assert begin_stage("retrieve", "search", {"query": "q"}) is None
        assert Runs().begin(1, None, "chain", "q") is None
    assert recorded.items == []


def test_a_request_without_a_stage_leaves_no_record(recorded: Any) -> None:
    """An indexing pipeline is no request; a failed one is recorded."""
    runs = Runs()
    for error in (None, ValueError("x")):
        run = runs.begin(1, None, "chain", "q")
        assert run is not None
        assert runs.pop(1) is run
        finish(run, error)
    assert (recorded.record.status, recorded.record.query.original) == ("error", "q")
    assert all(span.end_time for span in recorded.spans.values())


def test_open_runs_are_bounded(recorded: Any) -> None:
    """The oldest is closed with what it has; its late end changes nothing."""
    runs = Runs(limit=2)
    for key in range(3):
        run = runs.begin(key, None, "chain", f"q{key}")
        assert run is not None
        run.stage = begin_stage("retrieve", "search", {"query": f"q{key}"}, run.request)
    assert len(runs) == 2
    assert recorded.record.query.original == "q0"
    assert runs.pop(0) is None


def test_children_share_their_parents_request(recorded: Any) -> None:
    """By the ids of the framework, whatever thread or context they end in."""
    runs = Runs()
    root, child = runs.begin("root", None, "chain", {"question": "q"}), runs.begin("child", "root", "model")
    assert isinstance(root, Run)
    assert isinstance(child, Run)
    assert child.request is root.request
    assert (root.owner, child.owner) == (True, False)


def test_a_prompt_shows_its_packing(recorded: Any) -> None:
    """Chunks are found in it; a prompt without any (one that rewrites the question) is no packing."""
    with ragtrace.request(query="q"):
        with ragtrace.retrieve(query="q") as retrieval:
            retrieval.candidates([{"id": "a", "text": TEXT, "score": 1.0}, {"id": "b", "text": TEXT[::-1]}])
        for prompt in ("Rewrite: q", f"Context: {TEXT}"):
            generation = begin_generation("model", "m", prompt)
            assert generation is not None
            generation.end("An answer.")
    (pack,) = [run for run in recorded.record.stages if isinstance(run, PackRun)]
    assert [chunk.chunk_id for chunk in pack.packing.chunks] == ["a"]
    assert [chunk.chunk_id for chunk in pack.packing.dropped] == ["b"]
    assert sum(isinstance(run, GenerateRun) for run in recorded.record.stages) == 2


def test_a_packing_of_the_hosts_is_kept(recorded: Any) -> None:
    """A packer that was recorded knows more than a prompt shows."""
    with ragtrace.request(query="q"):
        with ragtrace.retrieve(query="q") as retrieval:
            retrieval.candidates([{"id": "a", "text": TEXT}])
        with ragtrace.pack(budget=10) as packing:
            packing.packed([{"id": "a", "text": TEXT[:20]}])
        generation = begin_generation("model", "m", TEXT)
        assert generation is not None
        generation.end("An answer.")
    assert recorded.run(PackRun).packing.budget_tokens == 10


@pytest.mark.parametrize(
    ("given", "question"),
    [
        ("When?", "When?"),
        ({"question": "When?", "k": 3}, "When?"),
        ({"input": {"query": "When?"}}, "When?"),
        ({"retriever": {"top_k": 3}, "embedder": {"text": "When?"}}, "When?"),
        ([("system", "Be kind."), ("human", "Who?"), ("ai", "Me."), ("human", "When?"), ("ai", "…")], "When?"),
        ({"messages": [{"role": "user", "content": "When?"}]}, "When?"),
        ([{"role": "user", "content": [{"type": "text", "text": "When?"}]}], "When?"),
        ([types.SimpleNamespace(type="human", content="When?")], "When?"),
        ({"str_or_query_bundle": types.SimpleNamespace(query_str="When?")}, "When?"),
        ({"documents": [1, 2]}, None),
        ("", None),
        (None, None),
        (7, None),
    ],
)
def test_questions_are_found_in_inputs(given: Any, question: str | None) -> None:
    """Texts, mappings, nested inputs, messages of every shape."""
    assert read_question(given) == question


def test_the_caller_is_told_by_its_module() -> None:
    """Integrations of frameworks are recognized by the name of their package."""
    scope: dict[str, Any] = {"__name__": "langchain_openai.chat", "called_from": called_from}
    exec("found = called_from(0, 'langchain')", scope)
    assert scope["found"]
    assert not called_from(0, "langchain")
