"""Who takes the spans of `bench/ingest.py`: `ragtrace serve`, the floor under it, and other tools' servers."""

from bench.receivers.databases import Postgres, PostgresDatabase, SqliteFile
from bench.receivers.floor import Floor
from bench.receivers.model import Receiver
from bench.receivers.ours import GRACE, Ours
from bench.receivers.phoenix import Phoenix

__all__ = ["GRACE", "Floor", "Ours", "Phoenix", "Postgres", "PostgresDatabase", "Receiver", "SqliteFile"]
