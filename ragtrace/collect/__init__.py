"""Takes finished items over from the host's threads and brings them to the store, through a spool on disk."""

from ragtrace.collect._delivery import Writer
from ragtrace.collect._handover import Builder, HandOver, RecordWriter
from ragtrace.collect._screening import RecentRequests, Screen, Screening, UnsampledRequests
from ragtrace.collect._sink import BackgroundSink
from ragtrace.collect._threads import Periodic
from ragtrace.collect.spool import Spool, default_folder, fallback_folder

__all__ = [
    "BackgroundSink",
    "Builder",
    "HandOver",
    "Periodic",
    "RecentRequests",
    "RecordWriter",
    "Screen",
    "Screening",
    "Spool",
    "UnsampledRequests",
    "Writer",
    "default_folder",
    "fallback_folder",
]
