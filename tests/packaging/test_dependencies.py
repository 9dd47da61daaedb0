"""What the package imports is what `pyproject.toml` declares."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from ragtrace.installation import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
OF_THE_HOST = (
    "ragtrace/__init__.py",
    "ragtrace/__main__.py",
    "ragtrace/plausible_values.py",
    "ragtrace/collect/",
    "ragtrace/config.py",
    "ragtrace/explanations.py",
    "ragtrace/installation.py",
    "ragtrace/object_loading.py",
    "ragtrace/privacy.py",
    "ragtrace/prompts.py",
    "ragtrace/record/",
    "ragtrace/registry/instruments.py",
    "ragtrace/registry/types.py",
    "ragtrace/safe_text.py",
    "ragtrace/store/",
    "ragtrace/formats.py",
    "ragtrace/types.py",
)
OUTSIDE = (  # of an extra of its own
    "ragtrace/coverage/facets/_places.py",
    "ragtrace/dashboards/_grafana.py",
    "ragtrace/engines/",
    "ragtrace/export/push.py",
    "ragtrace/demo/",
    "ragtrace/gate/plugin.py",  # pytest itself loads it
    "ragtrace/http_client.py",
    "ragtrace/receive/_logs.py",
    "ragtrace/receive/_otlp.py",
    "ragtrace/receive/_otlp_json.py",
    "ragtrace/receive/_bodies.py",
    "ragtrace/receive/_http.py",
    "ragtrace/receive/_ingest.py",
    "ragtrace/receive/_meter.py",
    "ragtrace/receive/_rpc.py",
    "ragtrace/receive/server.py",
    "ragtrace/record/instrumentation/",
    "ragtrace/web/",
)


def _declared() -> tuple[set[str], dict[str, set[str]]]:
    """The packages of a plain install, and those of each extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {extra: {_name(it) for it in several} for extra, several in project["optional-dependencies"].items()}
    return {_name(requirement) for requirement in project["dependencies"]}, extras


def _allowed(name: str) -> set[str]:
    """What a module may import: the host's part what a plain install brings, all else what the analyzer has as well."""
    core, extras = _declared()
    if name.startswith(OUTSIDE):
        return core.union(*extras.values())
    return core if name.startswith(OF_THE_HOST) else core | extras["cli"] | extras["analyze"]


def _name(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def test_every_import_is_declared() -> None:
    """A third-party module that ragtrace imports belongs to a declared requirement, the host's to a plain install's."""
    distributions = metadata.packages_distributions()
    undeclared = []
    seen = set()
    for path in sorted((ROOT / "ragtrace").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        allowed = _allowed(name)
        for module in set(_imported(path)) - set(sys.stdlib_module_names) - {"ragtrace"}:
            seen.add(module)
            known = distributions.get(module, [module])  # one that is not installed goes by its own name
            if not {_name(distribution) for distribution in known} & allowed:
                undeclared.append(f"{name}: {module}")

    assert "sqlalchemy" in seen
    assert undeclared == []


def test_the_extra_of_the_analyzer_is_known_at_run_time() -> None:
    """What is looked for where the analyzer is missing are the packages that its extra declares."""
    _, extras = _declared()
    assert set(PACKAGES.values()) == (extras["analyze"] | extras["cli"]) - {"ragtrace"}
