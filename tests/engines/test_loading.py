"""Finding models, and errors with a remedy."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ragtrace.engines.causal_lm import CausalLM
from ragtrace.engines.cross_encoder import CrossEncoder
from ragtrace.engines.encoder import Encoder
from ragtrace.engines.loading import load_package, resolve
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
