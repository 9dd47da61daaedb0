"""The fictional insurer's policy wordings and the questions about them, grown from the templates beside this file."""

from __future__ import annotations

from ragtrace.demo.corpus._documents import Chunk, Corpus, Document, load_corpus
from ragtrace.demo.corpus._questions import Question, load_questions

__all__ = ["Chunk", "Corpus", "Document", "Question", "load_corpus", "load_questions"]
