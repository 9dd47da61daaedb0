"""What `bench/ingest.py` sends: traces of a RAG pipeline in OpenInference's words, prepared before the clock starts."""

from bench.sending.prose import Prose
from bench.sending.sender import Sending, Sent
from bench.sending.traces import Load, prepare

__all__ = ["Load", "Prose", "Sending", "Sent", "prepare"]
