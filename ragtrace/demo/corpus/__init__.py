"""The fictional insurer's policy wordings and the questions about them, grown from the templates beside this file."""

from __future__ import annotations

from ragtrace.demo.corpus._corpus import Corpus, Document, DocumentSection, Question, load_corpus, load_questions

__all__ = ["Corpus", "Document", "DocumentSection", "Question", "load_corpus", "load_questions"]
