"""A language model in a GGUF file, as llama.cpp and its tools keep them: found by file or folder, and read as the
library's own model, so that scores, trees of prompts and gradients work as with any other.

Quantized weights are read as the numbers that they stand for. Which architectures can be read is the library's to say.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ragtrace.engines.models import load_package, load_pretrained
from ragtrace.errors import ModelError

__all__ = ["find_gguf", "read_gguf"]

_SUFFIX: Final = ".gguf"
_OUTPUT: Final = "lm_head.weight"


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
    load_package("gguf")
    return load_pretrained(file.parent, lambda folder, _local: _read(folder, file, precision))


def _read(folder: str, file: Path, precision: str) -> tuple[Any, Any]:
    library, torch = load_package("transformers"), load_package("torch")
    reader = load_package("transformers.modeling_gguf_pytorch_utils", package="transformers")
    named = {"gguf_file": file.name, "local_files_only": True}
    tokenizer = library.AutoTokenizer.from_pretrained(folder, **named)
    model = library.AutoModelForCausalLM.from_config(library.AutoConfig.from_pretrained(folder, **named))
    weights = reader.load_gguf_checkpoint(str(file), return_tensors=True, model_to_load=model)["tensors"]
    found = model.load_state_dict(weights, strict=False)
    shared = {_OUTPUT} if model.config.tie_word_embeddings else set()
    lacking = sorted({*found.missing_keys} - shared)
    if lacking or found.unexpected_keys:
        wrong = ", ".join([*lacking, *found.unexpected_keys][:3])
        raise ModelError(f"the file {str(file)!r} does not hold the weights of its architecture: {wrong}")
    return model.to(getattr(torch, precision)), tokenizer
