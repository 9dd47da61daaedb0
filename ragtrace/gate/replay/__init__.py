"""Replays: the same questions through an application's own pipeline, recorded, for the gate to compare."""

from __future__ import annotations
