"""Reads the PNGs that Chromium writes, as arrays; nothing in the project needs an imaging library."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

__all__ = ["pixels"]


def pixels(png: bytes) -> NDArray[np.uint8]:
    """The picture, `(height, width, channels)`; 8 bits for each channel, not interlaced, as Chromium writes it."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert depth == 8
    channels = {2: 3, 6: 4}[kind]
    raw = zlib.decompress(b"".join(_chunks(png, b"IDAT")))
    lines = np.frombuffer(raw, np.uint8).reshape(height, 1 + width * channels)
    picture = np.zeros((height, width * channels), np.uint8)
    above = np.zeros(width * channels, np.uint8)
    for row in range(height):
        above = _line(int(lines[row, 0]), lines[row, 1:], above, channels)
        picture[row] = above
    return picture.reshape(height, width, channels)


def _chunks(png: bytes, wanted: bytes) -> list[bytes]:
    found, at = [], 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == wanted:
            found.append(png[at + 8 : at + 8 + length])
        at += 12 + length
    return found


def _line(kind: int, line: NDArray[np.uint8], above: NDArray[np.uint8], channels: int) -> NDArray[np.uint8]:
    """One line without its filter. Source: PNG specification, section 9."""
    if kind == 0:
        return line
    if kind == 2:
        return line + above
    out = line.astype(np.int64)
    by_pixel = out.reshape(-1, channels)
    if kind == 1:
        return np.cumsum(by_pixel, axis=0).astype(np.uint8).reshape(-1)
    up = above.astype(np.int64).reshape(-1, channels)
    left = np.zeros(channels, np.int64)
    corner = np.zeros(channels, np.int64)
    for place in range(len(by_pixel)):
        predicted = (left + up[place]) // 2 if kind == 3 else _paeth(left, up[place], corner)
        left = (by_pixel[place] + predicted) & 255
        by_pixel[place] = left
        corner = up[place]
    return out.astype(np.uint8)


def _paeth(left: NDArray[np.int64], up: NDArray[np.int64], corner: NDArray[np.int64]) -> NDArray[np.int64]:
    guess = left + up - corner
    to_left, to_up, to_corner = abs(guess - left), abs(guess - up), abs(guess - corner)
    nearest = np.where(to_up <= to_corner, up, corner)
    return np.where((to_left <= to_up) & (to_left <= to_corner), left, nearest)
