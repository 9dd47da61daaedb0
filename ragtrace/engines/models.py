"""Models by folder or Hugging Face name: their files, packages, devices, precision and memory.

What can go wrong becomes an error with a remedy. Want of memory is told from other errors, and what is cached is given
back.

A language model in a GGUF file, as llama.cpp and its tools keep them, is read as the library's own model, so that
scores, trees of prompts and gradients work as with any other. Quantized weights are read as the numbers that they stand
for. Which architectures can be read is the library's to say.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

from ragtrace.errors import ConfigurationError, MissingExtraError, ModelError, RagtraceError

__all__ = [
    "LoadedModel",
    "NumberFormat",
    "OutOfMemoryError",
    "as_precision",
    "available_cores",
    "best_device",
    "device_of",
    "digest_of",
    "find_gguf",
    "gpu_count",
    "load_package",
    "load_pretrained",
    "pass_on_unless_memory",
    "passes",
    "read_gguf",
    "resolve",
    "torch_threads",
    "weights_digest",
]

T = TypeVar("T")

_UNDERNEATH: Final = ("torch", "transformers")
"""What other packages of the models extra import."""
_HUB_SECONDS: Final = 10.0
_WHOLE: Final = 1 << 20
_SPOT, _SPOTS = 4096, 256


def load_package(name: str, *, package: str | None = None, extra: str = "models") -> Any:
    """Import module `name` of a package of an extra.

    Raises: MissingExtraError when the package is not installed, or one of `_UNDERNEATH` that it imports.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == name.partition(".")[0]:
            raise MissingExtraError(package or name, extra) from error
        if missing in _UNDERNEATH:
            raise MissingExtraError(missing, extra) from error
        raise


def resolve(model: str | Path) -> tuple[str, bool]:
    """What to load, and whether it is a local folder (which is then read without asking any server).

    Raises: ModelError when `model` is written as a path and no folder is there.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        return str(path), True
    if isinstance(model, Path) or path.is_absolute() or str(model).startswith((".", "~")):
        raise ModelError(f"no model folder at {str(path)!r}; give an existing folder or a Hugging Face model name")
    return str(model), False


def load_pretrained(model: str | Path, load: Callable[[str, bool], T]) -> T:
    """`load(name, local_only)` of a resolved model. Where the hub does not answer, only its cache is looked at: the
    libraries would ask the hub again for each file, for a minute and more.

    Raises: ModelError when there is no such model, or its files cannot be read.
    """
    name, local = resolve(model)
    silence = None if local else _hub_silence()
    try:
        with _quiet(local):
            return load(name, local or silence is not None)
    except (RagtraceError, ImportError):
        raise
    except Exception as error:  # the libraries have a way to fail for each way in which a file can be wrong
        reason = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        remedy = "give a local folder, or a name that the Hugging Face cache holds or the hub can be asked for"
        if local:
            remedy = "give a folder that holds config.json, a tokenizer and weights"
        elif silence is not None:
            reason = f"it is not in the Hugging Face cache, and {silence}"
            remedy = "give a local folder, or load the model once where the hub can be reached"
        raise ModelError(f"model {name!r} cannot be loaded: {reason}; {remedy}") from error


def _hub_silence() -> str | None:
    """Why the model hub does not answer, by one short request; None where it does."""
    constants = load_package("huggingface_hub.constants", package="huggingface_hub")
    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    address = constants.ENDPOINT
    try:
        load_package("huggingface_hub").get_session().head(address, timeout=_HUB_SECONDS)
    except Exception as error:  # of whichever HTTP client the library has
        reason = " ".join(str(error).split()) or type(error).__name__
        return f"{address} does not answer ({reason})"
    return None


@contextmanager
def _quiet(local: bool) -> Iterator[None]:
    """Reading a local folder needs no progress bar of the model library; a download keeps it."""
    logging = load_package("transformers.utils.logging", package="transformers")
    shown = local and logging.is_progress_bar_enabled()
    if shown:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


class _Threads:
    """Who has set torch's threads, and how many there were before the first one did."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0
        self.before = 0


_threads: Final = _Threads()


@contextmanager
def torch_threads(number: int | None) -> Iterator[None]:
    """So many torch threads on the CPU while it lasts; None leaves them alone.

    Beside other work one is fastest: threads that wait for one another spin. The setting is the process's: what stood
    there before the first of several that overlap is put back by each of them.
    """
    if number is None:
        yield
        return
    torch = load_package("torch")
    with _threads.lock:
        if not _threads.holders:
            _threads.before = torch.get_num_threads()
        _threads.holders += 1
        torch.set_num_threads(number)
    try:
        yield
    finally:
        with _threads.lock:
            _threads.holders -= 1
            torch.set_num_threads(_threads.before)


def available_cores() -> int:
    """The processor cores that this process may run on; at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def device_of(model: Any) -> str:
    """The kind of device that holds a model: `cpu`, `cuda` and the like."""
    return str(model.device).partition(":")[0]


def _revision_of(model: Any, folder: str | None) -> str | None:
    """The commit of the model hub from which the weights come, or the digest of its `folder`; None without either."""
    configurations = [getattr(module, "config", None) for module in model.modules()]
    commits = [getattr(each, "_commit_hash", None) for each in configurations]
    return next((str(commit) for commit in commits if commit), folder)


class LoadedModel:
    """A model that was loaded from a folder or by a name: what tells its weights from others, and where it runs."""

    def __init__(self, name: str, model: Any, folder: str | None = None) -> None:
        self.name = name
        self._model = model
        self._folder = folder

    @property
    def revision(self) -> str | None:
        """The commit of the model hub; of a local folder the digest of its files."""
        return _revision_of(self._model, self._folder)

    @property
    def device(self) -> str:
        """`cpu`, `cuda` and the like."""
        return device_of(self._model)


def digest_of(model: str | Path) -> str | None:
    """What tells the files of a local model, or its one file, from those of another one; None for a Hugging Face name.

    Of files larger than a megabyte, such as weights, spots in equal distances are read. Texts about a model do not
    count.
    """
    if Path(model).is_file():
        folder, files = Path(model).parent, [Path(model)]
    else:
        name, local = resolve(model)
        if not local:
            return None
        folder = Path(name)
        files = sorted(each for each in folder.rglob("*") if each.is_file() and each.suffix != ".md")
    found = hashlib.blake2b(digest_size=8)
    for path in files:
        parts = path.relative_to(folder).parts
        if not any(part.startswith(".") for part in parts):
            size = path.stat().st_size
            found.update(f"{'/'.join(parts)} {size}\0".encode("utf-8", "surrogateescape"))
            with path.open("rb") as file:
                for spot in _spots(size):
                    file.seek(spot)
                    found.update(file.read(size if size <= _WHOLE else _SPOT))
    return found.hexdigest()


def _spots(size: int) -> list[int]:
    if size <= _WHOLE:
        return [0]
    return [at * (size - _SPOT) // (_SPOTS - 1) for at in range(_SPOTS)]


NumberFormat: TypeAlias = Literal["float32", "bf16"]
_MEMORY_ERRORS: Final = (
    "can't allocate memory",
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "MPS backend out of memory",
)
"""Texts of errors that are not `torch.OutOfMemoryError`: of the CPU, of libraries on a GPU that is nearly full."""


def as_precision(text: str) -> NumberFormat:
    """The precision of this name. Raises: ConfigurationError for another one."""
    known: NumberFormat
    for known in get_args(NumberFormat):
        if text == known:
            return known
    raise ConfigurationError.of("precision", text, "float32 or bf16")


def best_device() -> str:
    """A GPU, if there is one."""
    torch = load_package("torch")
    return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"


def gpu_count() -> int:
    """How many CUDA devices torch sees; 0 without torch."""
    try:
        return int(load_package("torch").cuda.device_count())
    except MissingExtraError:
        return 0


def passes(device: str, precision: NumberFormat) -> AbstractContextManager[Any]:
    """In which a model's passes run on a kind of device."""
    import torch

    return torch.autocast(device, torch.bfloat16) if precision == "bf16" else nullcontext()


def weights_digest(model: Any) -> str:
    """Twelve hexadecimal digits that follow from all of a model's weights."""
    import torch

    digest = hashlib.blake2b(digest_size=6)
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


class OutOfMemoryError(ModelError):
    """A model finds no memory even for the least piece of work."""


def pass_on_unless_memory(error: RuntimeError | MemoryError) -> None:
    """Free what is cached on the GPU after an error for want of memory, there or on the CPU; raise any other again."""
    import torch

    wanted = isinstance(error, torch.OutOfMemoryError | MemoryError)
    if not wanted and not any(each in str(error) for each in _MEMORY_ERRORS):
        raise error
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


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
    import numpy as np

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
