"""What the package imports is what `pyproject.toml` declares."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE_THE_CORE = (
    "ragtrace/coverage/facets/places.py",
    "ragtrace/dashboards/grafana.py",
    "ragtrace/engines/",
    "ragtrace/export/push_targets.py",
    "ragtrace/demo/",
    "ragtrace/gate/plugin.py",  # pytest itself loads it
    "ragtrace/http_client.py",
    "ragtrace/receive/logs.py",
    "ragtrace/receive/otlp.py",
    "ragtrace/receive/otlp_json.py",
    "ragtrace/receive/server/",
    "ragtrace/record/instrumentation/",
)


def _declared() -> tuple[set[str], set[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = {_name(requirement) for requirement in project["dependencies"]}
    extras = {_name(it) for requirements in project["optional-dependencies"].values() for it in requirements}
    return core, core | extras


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
    """A third-party module that ragtrace imports belongs to a declared requirement, the core's to a core one."""
    core, every = _declared()
    distributions = metadata.packages_distributions()
    undeclared = []
    seen = set()
    for path in sorted((ROOT / "ragtrace").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        allowed = every if name.startswith(OUTSIDE_THE_CORE) else core
        for module in set(_imported(path)) - set(sys.stdlib_module_names) - {"ragtrace"}:
            seen.add(module)
            known = distributions.get(module, [module])  # one that is not installed goes by its own name
            if not {_name(distribution) for distribution in known} & allowed:
                undeclared.append(f"{name}: {module}")

    assert "sqlalchemy" in seen
    assert undeclared == []
