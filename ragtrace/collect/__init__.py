"""Takes finished items over from the host's threads and brings them to the store, through a spool on disk."""

from ragtrace.collect.sink import BackgroundSink, Writer
from ragtrace.collect.spool import Spool, default_folder, fallback_folder

__all__ = ["BackgroundSink", "Spool", "Writer", "default_folder", "fallback_folder"]
