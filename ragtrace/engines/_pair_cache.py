"""A cache of what models said of pairs of texts, by a hash of both: no text is kept, and the memory is bounded."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final, TypeAlias

from ragtrace.errors import ConfigurationError

__all__ = ["CACHE_BYTES", "PairCache", "pair_key"]

CACHE_BYTES: Final = 16 << 20
ENTRY_BYTES: Final = 320  # of a key, its numbers and its place, measured with three numbers

Shares: TypeAlias = tuple[float, ...]


def pair_key(first: str, second: str, kind: str = "") -> bytes:
    """The key of a pair: 16 bytes that follow from both texts and from what is asked of them."""
    digest = blake2b(digest_size=16)
    for text in (kind, first, second):
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(encoded) + encoded)
    return digest.digest()


class PairCache:
    """Numbers by key, for many threads; what was asked for longest ago goes first.

    max_bytes: what its entries may take; 0: nothing is kept. Raises: ConfigurationError below 0.
    """

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        if max_bytes < 0:
            raise ConfigurationError.of("cache_bytes", max_bytes, "0 or more")
        self.capacity = max_bytes // ENTRY_BYTES
        self._entries: OrderedDict[bytes, Shares] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: bytes) -> Shares | None:
        """The numbers of a key, which is now the last to go; None where there are none."""
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
            return found

    def put(self, said: Mapping[bytes, Shares]) -> None:
        """Keep these, in place of what was asked for longest ago."""
        with self._lock:
            self._entries.update(said)
            while len(self._entries) > self.capacity:
                self._entries.popitem(last=False)
