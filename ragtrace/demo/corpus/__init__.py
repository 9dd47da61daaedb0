"""The fictional insurer's policy wordings and the questions about them, grown from the templates beside this file."""

from __future__ import annotations

from ragtrace.demo.corpus._documents import Corpus, Document, DocumentSection, load_corpus
from ragtrace.demo.corpus._questions import Question, load_questions

__all__ = ["Corpus", "Document", "DocumentSection", "Question", "load_corpus", "load_questions"]
