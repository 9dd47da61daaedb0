"""trulens: its `instrument` decorator on the four stages, recorded by a TruApp into SQLite."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from bench.subjects import Hits, Subject, Work
from bench.subjects.work import QUESTION

APPS: Final[Any] = import_module("trulens.apps.app")
CORE: Final[Any] = import_module("trulens.core")
INSTRUMENT: Final[Any] = import_module("trulens.core.otel.instrument").instrument
NAMES: Final[Any] = import_module("trulens.otel.semconv.trace").SpanAttributes


def subject(work: Work, folder: Path) -> Subject:
    """The decorated pipeline as an app."""
    session = CORE.TruSession(database_url=f"sqlite:///{folder / 'trulens.db'}")
    documents = {NAMES.RETRIEVAL.RETRIEVED_CONTEXTS: "return"}
    search = INSTRUMENT(span_type=NAMES.SpanType.RETRIEVAL, attributes=documents)(work.search)
    rerank, pack = INSTRUMENT()(work.rerank), INSTRUMENT()(work.pack)
    generate = INSTRUMENT(span_type=NAMES.SpanType.GENERATION)(work.generate)

    def request(self: object, question: str, hits: Hits) -> str:
        pack(rerank(question, search(question, hits)))
        return str(generate(question))

    app: Any = type("App", (), {"request": INSTRUMENT()(request)})()
    recorder = APPS.TruApp(app, app_name="bench", main_method=app.request)

    def run(hits: Hits) -> object:
        with recorder:
            return app.request(QUESTION, hits)

    def kept() -> int:
        events = session.get_events(app_name="bench", app_version=None)["record_attributes"]
        return max((len(set(re.findall(r"chunk-\d+", str(event)))) for event in events), default=0)

    return Subject("trulens", run, kept, flush=session.force_flush)
