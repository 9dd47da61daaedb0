"""A GPU that is none: tensors that say they are on `cuda:0`, compute on the CPU, and refuse what a card would refuse.

Operations on tensors of two devices raise, memory can be scarce, and any allocation can fail. The numbers are those of
the CPU, so that what runs here can be compared exactly with what runs there.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="pip install 'ragtrace[models]'")

from torch.overrides import TorchFunctionMode  # noqa: E402  # after the check that torch is there
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map_only  # noqa: E402

__all__ = ["Card", "OnCard", "pretended"]

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
TOTAL = 1 << 34  # bytes that the card says it has; `room` is what it lets be used
_ACROSS = ("aten::_to_copy", "aten::copy_")
_INDEXED = ("aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_")


class _Life:
    """Ends with the tensor that has it: torch exchanges tensors that nothing refers to weakly."""


class OnCard(torch.Tensor):  # type: ignore[misc]  # torch is loaded late
    """A tensor on the card; `held` are its numbers."""

    held: Any
    life: _Life

    @staticmethod
    def __new__(cls: type[OnCard], held: Any) -> OnCard:
        """Of the same shape, strides and type."""
        made: OnCard = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device="meta",  # to torch's own code, which knows no CUDA here
            requires_grad=False,
        )
        made.held, made.life = held, _Life()
        return made

    @property
    def device(self) -> Any:
        """The card."""
        return CUDA

    @property
    def is_cuda(self) -> bool:
        """Yes."""
        return True

    def numpy(self, **_: Any) -> Any:
        """Refused, as by a card."""
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy it first.")

    def __array__(self, *_: Any, **__: Any) -> Any:
        """The same."""
        return self.numpy()

    def __repr__(self, **_: Any) -> str:
        """Where it is, and its numbers."""
        return f"OnCard({self.held!r})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Only with the card in place."""
        raise AssertionError(f"{func} outside of the block with the card")


class Card(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """The card while its block lasts.

    Attributes:
        room: bytes that fit; None: any number.
        fails: asked at each allocation, by its number from 1 on, whether it finds no memory.
        used, peak: bytes that live now, and the most that ever did.
        allocations, failed: how many there were, and how many of them found no memory.
        moves: copies from the card, for each of which the CPU waits.
    """

    def __init__(self, room: int | None = None, fails: Callable[[int], bool] = lambda number: False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.room, self.fails = room, fails
        self.used = self.peak = self.allocations = self.failed = self.moves = 0
        self._owners: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation on the numbers, if a card would."""
        kwargs = dict(kwargs or {})
        name = func._schema.name
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        on_card = any(isinstance(each, OnCard) for each in given)
        _refuse_mixed(name, args, given)
        goes = None if kwargs.get("device") is None else torch.device(kwargs["device"]).type
        if goes is not None:
            kwargs["device"] = CPU
            self.moves += on_card and goes == "cpu"
        self.moves += on_card and name == "aten::_local_scalar_dense"
        held = tree_map_only(OnCard, lambda each: each.held, (args, kwargs))
        found = func(*held[0], **held[1])
        if func._schema.arguments and getattr(func._schema.arguments[0].alias_info, "is_write", False):
            return args[0]  # in place
        if not (on_card if goes is None else goes in ("cuda", "meta")):
            return found
        return tree_map_only(torch.Tensor, self._put, found)

    def _put(self, held: Any) -> OnCard:
        storage = held.untyped_storage()
        key, size = storage.data_ptr() or id(held), storage.nbytes()
        if not self._owners.get(key):
            self.allocations += 1
            if self.fails(self.allocations) or (self.room is not None and self.used + size > self.room):
                self.failed += 1
                raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes")
            self.used += size
            self.peak = max(self.peak, self.used)
        self._owners[key] = self._owners.get(key, 0) + 1
        with torch.inference_mode(held.is_inference()):
            made = OnCard(held)
        weakref.finalize(made.life, self._freed, key, size)
        return made

    def _freed(self, key: int, size: int) -> None:
        self._owners[key] -= 1
        if not self._owners[key]:
            del self._owners[key]
            self.used -= size


class _Calls(TorchFunctionMode):
    """Leads around what asks for CUDA before it comes to an operation."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in ("to", "cuda", "cpu") and args and isinstance(args[0], torch.Tensor):
            return _moved(name, *args, **kwargs)
        if name == "tolist" and isinstance(args[0], OnCard):
            return func(_moved("cpu", args[0]))
        if name == "__getitem__" and isinstance(args[0], OnCard):
            args = (args[0], _listed(args[1]))
        goes = None if kwargs.get("device") is None else torch.device(kwargs["device"]).type
        if goes == "cuda":
            return _moved("cuda", func(*args, **(kwargs | {"device": CPU})))
        if goes == "meta":  # models are first built without numbers
            with _disable_current_modes():
                return func(*args, **kwargs)
        return func(*args, **kwargs)


def _listed(places: Any) -> Any:
    """Places that are given as lists, as tensors: torch's own code would put them where it thinks the card is."""
    if isinstance(places, tuple):
        return tuple(map(_listed, places))
    return torch.tensor(places) if isinstance(places, list) else places


def _moved(name: str, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """`Tensor.to` and its kin, by the one operation that they end in."""
    if name == "cpu":
        device, dtype = CPU, None
    elif name == "cuda":
        device, dtype = CUDA, None
    elif args and isinstance(args[0], torch.Tensor):
        device, dtype = args[0].device, args[0].dtype
    else:
        kwargs.pop("copy", None)
        device, dtype = _wanted(*args, **kwargs)
    device = tensor.device if device is None else torch.device(device)
    dtype = dtype or tensor.dtype
    if device.type == tensor.device.type and dtype == tensor.dtype:
        return tensor
    return torch.ops.aten._to_copy.default(tensor, dtype=dtype, device=device)


def _wanted(*args: Any, device: Any = None, dtype: Any = None, **_: Any) -> tuple[Any, Any]:
    for each in args:
        if isinstance(each, torch.dtype):
            dtype = each
        elif isinstance(each, str | torch.device):
            device = each
    return device, dtype


def _refuse_mixed(name: str, args: Any, given: list[Any]) -> None:
    """As CUDA does: numbers without a dimension may be the CPU's, and so may the places that a tensor is asked for."""
    if name in _INDEXED and isinstance(args[0], OnCard):
        given = [args[0]]
    on_card = [each for each in given if isinstance(each, OnCard)]
    others = [each for each in given if not isinstance(each, OnCard) and each.dim() > 0]
    if on_card and others and name not in _ACROSS:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! ({name})"
        )


def _cuda_of(card: Card) -> dict[str, Callable[..., Any]]:
    """What `torch.cuda` would say and do."""

    def forget() -> None:
        card.peak = card.used

    def allow(fraction: float) -> None:
        card.room = None if fraction == 1.0 else int(fraction * TOTAL)

    return {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "get_device_name": lambda device=None: "a card that is pretended",
        "get_device_properties": lambda device=None: SimpleNamespace(total_memory=TOTAL),
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "reset_peak_memory_stats": forget,
        "max_memory_allocated": lambda: card.peak,
        "set_per_process_memory_fraction": allow,
    }


@contextmanager
def pretended(
    monkeypatch: pytest.MonkeyPatch, room: int | None = None, fails: Callable[[int], bool] = lambda number: False
) -> Iterator[Card]:
    """A block in which torch finds one card. A model is put on it by `.to("cuda")`."""
    with monkeypatch.context() as patch:
        card = Card(room, fails)
        for name, stand_in in _cuda_of(card).items():
            patch.setattr(torch.cuda, name, stand_in)
        before = torch.__future__.get_swap_module_params_on_conversion()
        torch.__future__.set_swap_module_params_on_conversion(True)  # else parameters would lose what is held
        try:
            with card, _Calls():
                yield card
        finally:
            torch.__future__.set_swap_module_params_on_conversion(before)
