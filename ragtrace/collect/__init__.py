"""Takes finished items over from the host's threads and brings them to the store, through a spool on disk."""

from ragtrace.collect.delivery import Writer
from ragtrace.collect.screening import RecentRequests, Screen, Screening, UnsampledRequests
from ragtrace.collect.sink import BackgroundSink
from ragtrace.collect.spool import Spool, default_folder, fallback_folder
from ragtrace.collect.threads import Periodic

__all__ = [
    "BackgroundSink",
    "Periodic",
    "RecentRequests",
    "Screen",
    "Screening",
    "Spool",
    "UnsampledRequests",
    "Writer",
    "default_folder",
    "fallback_folder",
]
