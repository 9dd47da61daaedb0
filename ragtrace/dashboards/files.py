"""The files of the dashboards that ship with ragtrace, with a user's own data source, metric prefix and trace URL."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from ragtrace import resources
from ragtrace.errors import ConfigurationError

__all__ = ["dashboard_files", "write_files"]

_QUERIES: Final = frozenset({"expr", "query", "definition"})
_METRIC: Final = re.compile(r"\bragtrace_")
_PREFIX: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


def dashboard_files(
    *, datasource: str | None = None, metric_prefix: str = "", trace_url: str | None = None
) -> dict[str, str]:
    """The JSON of every dashboard by the name of its file.

    datasource: the name of the data source that is chosen when a dashboard opens. metric_prefix: what a collector or a
    remote store puts before the metrics' names. trace_url: where a trace is shown, up to its id.
    Raises: ConfigurationError when the prefix cannot begin a metric's name.
    """
    if metric_prefix and not _PREFIX.fullmatch(metric_prefix):
        raise ConfigurationError.of("--metric-prefix", metric_prefix, "letters, digits and _, like myapp_")
    chosen = {"datasource": datasource, "trace_url": trace_url}
    files = sorted((resources.folder("dashboards") / "generated").glob("*.json"))
    if not files:
        raise ConfigurationError("no dashboard is there; run `python -m ragtrace.derive` in the checkout")
    return {file.name: _text(json.loads(file.read_text(encoding="utf-8")), chosen, metric_prefix) for file in files}


def write_files(folder: Path, dashboards: dict[str, str]) -> list[Path]:
    """Write each dashboard into the folder, which is made where it is missing; the files.

    Raises: ConfigurationError when that cannot be.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in dashboards.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot write dashboards into {folder}: {error}; give another --out") from error
    return [folder / name for name in dashboards]


def _text(dashboard: dict[str, Any], chosen: dict[str, str | None], prefix: str) -> str:
    for variable in dashboard["templating"]["list"]:
        value = chosen.get(variable["name"])
        if value is not None:
            variable["current"] = {"selected": True, "text": value, "value": value}
            if variable["type"] == "textbox":
                variable["query"] = value
    return json.dumps(_prefixed(dashboard, prefix), indent=2, ensure_ascii=False) + "\n"


def _prefixed(value: Any, prefix: str, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _prefixed(each, prefix, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_prefixed(each, prefix, key) for each in value]
    return _METRIC.sub(f"{prefix}ragtrace_", value) if isinstance(value, str) and key in _QUERIES else value
