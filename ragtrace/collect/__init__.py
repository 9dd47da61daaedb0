"""Takes finished items over from the host's threads and brings them to the store, through a spool on disk."""

from ragtrace.collect.chores import Chore
from ragtrace.collect.outside import Outside
from ragtrace.collect.recent import Recent
from ragtrace.collect.screening import Screen, Screening
from ragtrace.collect.sink import BackgroundSink, Writer
from ragtrace.collect.spool import Spool, default_folder, fallback_folder

__all__ = [
    "BackgroundSink",
    "Chore",
    "Outside",
    "Recent",
    "Screen",
    "Screening",
    "Spool",
    "Writer",
    "default_folder",
    "fallback_folder",
]
