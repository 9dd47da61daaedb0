"""Public behind faces: what is not for others is private, and what is public has somebody outside who uses it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = sorted({path.parent for path in (ROOT / "ragtrace").rglob("*.py")} - {ROOT / "ragtrace"})
# One file for each framework, vocabulary, page, form or group of verbs: the folder is the list of them, and its
# `__init__` names each by its file.
PLUGINS = {
    "cli",
    "dashboards/contents",
    "gate/reports",
    "receive/dialects",
    "record/instrumentation",
}


def module_of(path: Path) -> str:
    """The dotted name of a module's file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, Path]:
    """Every module of the product."""
    return {module_of(path): path for path in (ROOT / "ragtrace").rglob("*.py")}


@cache
def tree_of(name: str) -> ast.Module:
    """A module's source, parsed."""
    return ast.parse(modules()[name].read_text(encoding="utf-8"))


@cache
def importers() -> dict[str, set[str]]:
    """Which modules of the product import each module, or name it in a text."""
    found: dict[str, set[str]] = defaultdict(set)
    for name in modules():
        for node in ast.walk(tree_of(name)):
            for target in _targets(node):
                known = next((each for each in _prefixes(target) if each in modules()), None)
                if known is not None:
                    found[known].add(name)
    return found


def _targets(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.findall(r"ragtrace(?:\.\w+)+", node.value) if " " not in node.value else []
    return []


def _prefixes(name: str) -> list[str]:
    """The name, and what it lies in."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


@cache
def taken() -> list[tuple[str, str, str]]:
    """(who, from which module, what) of every import of a name."""
    return [
        (name, node.module, alias.name)
        for name in modules()
        for node in ast.walk(tree_of(name))
        if isinstance(node, ast.ImportFrom) and node.module in modules()
        for alias in node.names
    ]


@cache
def named_for_people() -> str:
    """What tells people or tools which modules there are."""
    files = [
        ROOT / "README.md",
        ROOT / "pyproject.toml",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "metrics").glob("*.yaml"),
        *(ROOT / "migrations").rglob("*.py"),
    ]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT / "ragtrace")))
def test_what_only_its_package_uses_is_private_and_nothing_else(package: Path) -> None:
    """A module that begins with an underscore is imported by its package alone; any other one by somebody outside, or
    it is named to people as a thing to import."""
    inside = module_of(package / "__init__.py")
    strangers, unused = [], []
    for path in sorted(package.glob("*.py")):
        name = module_of(path)
        outside = {each for each in importers()[name] if each != inside and not each.startswith(f"{inside}.")}
        if path.stem.startswith("_") and path.stem != "__init__":
            strangers += [f"{each} imports {name}" for each in sorted(outside)]
        elif path.stem not in ("__init__", "__main__") and str(package.relative_to(ROOT / "ragtrace")) not in PLUGINS:
            told = re.search(rf"(?:from|import) {re.escape(name)}\b|{re.escape(name)}(?:[:.]\w|\")", named_for_people())
            unused += [name] if not outside and not told else []
    assert strangers == []
    assert unused == []


def test_pages_name_no_private_module_to_import() -> None:
    """What README and the pages import is public."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found = [
        f"{page.name}: {line.strip()}"
        for page in pages
        for line in page.read_text(encoding="utf-8").splitlines()
        if re.search(r"^\s*(?:from|import) ragtrace(?:\.\w+)*\._", line)
    ]
    assert found == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT / "ragtrace")))
def test_others_take_only_what_a_module_offers(package: Path) -> None:
    """What another package imports from a module here stands in the module's `__all__`."""
    inside = module_of(package / "__init__.py")
    hidden = [
        f"{who} takes {module}.{what}"
        for who, module, what in taken()
        if _lies_in(module, inside)
        and who != inside
        and not who.startswith(f"{inside}.")
        and what not in _offered(module)
        and f"{module}.{what}" not in modules()
    ]
    assert hidden == []


def _lies_in(name: str, package: str) -> bool:
    return package in (name, name.rpartition(".")[0])


@cache
def _offered(name: str) -> frozenset[str]:
    """The names of a module's `__all__`."""
    for node in tree_of(name).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            assert isinstance(node, ast.Assign | ast.AnnAssign)
            return frozenset(ast.literal_eval(node.value) if node.value is not None else ())
    return frozenset()
