"""Adapters: each reads the results of one library, and is loaded when a value of that library is met first."""

from ragtrace.record.coercion.dispatch import GROUP, Adapter

__all__ = ["GROUP", "Adapter"]
