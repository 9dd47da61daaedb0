"""A language model in a GGUF file, as llama.cpp and its tools keep them: found by file or folder, and read as the
library's own model, so that scores, trees of prompts and gradients work as with any other.

Quantized weights are read as the numbers that they stand for. Which architectures can be read is the library's to say.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from ragtrace.engines.models import load_package, load_pretrained
from ragtrace.errors import ModelError

__all__ = ["find_gguf", "read_gguf"]

_SUFFIX: Final = ".gguf"
_OUTPUT: Final = "lm_head.weight"
_replacing: Final = threading.Lock()


def find_gguf(model: str | Path) -> Path | None:
    """The GGUF file that is named, or that a folder without a model of another form holds; None where there is none.

    Raises: ModelError for a file that is not there, and for a folder with several.
    """
    path = Path(model).expanduser()
    if path.suffix == _SUFFIX:
        if not path.is_file():
            raise ModelError(f"no model file at {str(path)!r}; give an existing GGUF file, or the folder that holds it")
        return path
    if not path.is_dir() or (path / "config.json").is_file():
        return None
    files = sorted(path.glob(f"*{_SUFFIX}"))
    if len(files) > 1:
        names = ", ".join(each.name for each in files)
        raise ModelError(f"the folder {str(path)!r} holds several models; give one of its files: {names}")
    return files[0] if files else None


def read_gguf(file: Path, precision: str) -> tuple[Any, Any]:
    """The model, on the CPU, and its tokenizer. precision: a torch type by name.

    Raises: ModelError for a file that cannot be read or an architecture that is not known, MissingExtraError.
    """
    with _parsed_once(load_package("gguf")):
        return load_pretrained(file.parent, lambda folder, _local: _read(folder, file, precision))


@contextmanager
def _parsed_once(package: Any) -> Iterator[None]:
    """While it lasts, the library parses a file once, makes its table of names once, and shows no bar of its own.

    Of itself it parses the vocabulary three times, for tokenizer, settings and weights, and makes the table anew for
    each module of the model: most of what loading a small model takes.
    """
    library = load_package("transformers.modeling_gguf_pytorch_utils", package="transformers")

    class Reader(package.GGUFReader):  # type: ignore[misc]
        """A reader of plain arrays: it cuts hundreds of thousands of pieces, and `numpy.memmap` is slow to cut."""

        data: Any

        def _get(self, *place: Any, **order: Any) -> Any:
            self.data = np.asarray(self.data)
            return super()._get(*place, **order)

    with _replacing:
        before, bar = (package.GGUFReader, package.get_tensor_name_map), library.tqdm
        package.GGUFReader, package.get_tensor_name_map = cache(Reader), cache(before[1])
        library.tqdm = lambda tensors, **_: tensors
        try:
            yield
        finally:
            (package.GGUFReader, package.get_tensor_name_map), library.tqdm = before, bar


def _read(folder: str, file: Path, precision: str) -> tuple[Any, Any]:
    library, torch = load_package("transformers"), load_package("torch")
    reader = load_package("transformers.modeling_gguf_pytorch_utils", package="transformers")
    named = {"gguf_file": file.name, "local_files_only": True}
    tokenizer = library.AutoTokenizer.from_pretrained(folder, **named)
    config = library.AutoConfig.from_pretrained(folder, **named)
    with _unfilled():
        model = library.AutoModelForCausalLM.from_config(config)
    weights = reader.load_gguf_checkpoint(str(file), return_tensors=True, model_to_load=model)["tensors"]
    found = model.load_state_dict(weights, strict=False)
    shared = {_OUTPUT} if model.config.tie_word_embeddings else set()
    lacking = sorted({*found.missing_keys} - shared)
    if lacking or found.unexpected_keys:
        wrong = ", ".join([*lacking, *found.unexpected_keys][:3])
        raise ModelError(f"the file {str(file)!r} does not hold the weights of its architecture: {wrong}")
    model.tie_weights()
    return model.to(getattr(torch, precision)), tokenizer


def _unfilled() -> AbstractContextManager[None]:
    """While it lasts, models are made without random weights, which those of the file would replace. Nor are weights
    tied then."""
    places = ("transformers.initialization", "transformers.modeling_utils")  # since 5, and before
    for name in places:
        if find_spec(name) is not None and hasattr(module := import_module(name), "no_init_weights"):
            found: AbstractContextManager[None] = module.no_init_weights()
            return found
    return nullcontext()
