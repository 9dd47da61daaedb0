"""Compresses what the store keeps."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import zstandard

__all__ = ["compress", "compress_against", "compress_texts", "decompress", "decompress_against"]

_LEVEL: Final = 1  # the usual 3 makes records 2 % smaller, and takes a quarter longer
_LEVEL_OF_TEXTS: Final = 2  # 2 % smaller as well; they are most of a store, and stay longest
_WINDOWS: Final = (17, 26)  # logarithms of bytes; a trace has 32 MiB at most
_TABLES: Final = (12, 22)  # logarithms of entries


class _Compressors(threading.local):
    """One of each thread: to make one takes longer than to compress a text, and none serves two threads at once."""

    def __init__(self) -> None:
        self.one = zstandard.ZstdCompressor(level=_LEVEL)
        self.of_texts = zstandard.ZstdCompressor(level=_LEVEL_OF_TEXTS)


_COMPRESSORS: Final = _Compressors()


def compress(body: bytes) -> bytes:
    """Zstandard of `body`."""
    return _COMPRESSORS.one.compress(body)


def compress_texts(body: bytes) -> bytes:
    """The same of several texts."""
    return _COMPRESSORS.of_texts.compress(body)


def decompress(body: bytes) -> bytes:
    """The reverse of both. Raises: zstandard.ZstdError when the bytes are damaged."""
    return zstandard.decompress(body)


def compress_against(bodies: Sequence[bytes], known: bytes) -> list[bytes]:
    """Zstandard of each of `bodies`, for one who has `known` as well: what stands in it takes next to nothing."""
    window = (max(map(len, bodies)) + len(known)).bit_length()  # so that all of `known` is within reach,
    table = len(known).bit_length() - 2  # and found: the level's own table would hold the last of it alone
    parameters = zstandard.ZstdCompressionParameters.from_level(
        _LEVEL,
        window_log=min(max(window, _WINDOWS[0]), _WINDOWS[1]),
        hash_log=min(max(table, _TABLES[0]), _TABLES[1]),
        write_checksum=True,  # else another text in its place would go unnoticed
    )
    one = zstandard.ZstdCompressor(dict_data=_dictionary(known), compression_params=parameters)
    return [one.compress(body) for body in bodies]


def decompress_against(body: bytes, known: bytes) -> bytes:
    """The reverse of `compress_against`. Raises: zstandard.ZstdError when the bytes are damaged, or `known` is
    another."""
    return zstandard.ZstdDecompressor(dict_data=_dictionary(known)).decompress(body)


def _dictionary(known: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(known, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
