"""README and docs: their Python runs as printed, their links lead somewhere, their commands exist."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import typer

from ragtrace.cli import app

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("**/*.md")),
]
_BLOCK: Final = re.compile(r"(?:<!-- (.*?) -->\n)?^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_SHELL: Final = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+ (.*)$", re.MULTILINE)
_FENCED: Final = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


_COMMAND: Final = re.compile(r"^ragtrace (.*)$", re.MULTILINE)


class Block(NamedTuple):
    """Python on a page. A comment before it names a package that it needs, or says why it is not run."""

    name: str
    code: str
    mark: str

    @property
    def runnable(self) -> str:
        """Where it is not run, what it imports at least."""
        if not self.mark.startswith("not run: "):
            return self.code
        imports = [node for node in ast.parse(self.code).body if isinstance(node, ast.Import | ast.ImportFrom)]
        return "\n".join(map(ast.unparse, imports))

    @property
    def missing(self) -> str | None:
        """A package that it needs and that is not installed."""
        needed = self.mark.removeprefix("needs ") if self.mark.startswith("needs ") else None
        return needed if needed is not None and importlib.util.find_spec(needed) is None else None


BLOCKS: Final = [
    Block(f"{page.name}-{number}", code, mark)
    for page in PAGES
    for number, (mark, code) in enumerate(_BLOCK.findall(page.read_text()), 1)
]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_python_runs_as_printed(block: Block, tmp_path: Path) -> None:
    """In a process and a folder of its own, with nothing but what the block says."""
    if block.missing is not None:
        pytest.skip(f"needs {block.missing}")
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAGTRACE_", "OTEL_"))}
    done = subprocess.run(
        [sys.executable, "-c", block.runnable],
        cwd=tmp_path,
        env=kept | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def test_blocks_are_found() -> None:
    """Nearly all are run, and a mark is one of the two that there are."""
    assert len(BLOCKS) > 10
    assert sum(not block.mark for block in BLOCKS) > len(BLOCKS) / 2
    assert [block.name for block in BLOCKS if block.mark and not block.mark.startswith(("needs ", "not run: "))] == []


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as GitHub makes them."""
    headings = _HEADING.findall(_FENCED.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """To files of the project and to headings in them."""
    for link in _LINK.findall(_FENCED.sub("", page.read_text())):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@cache
def _all_verbs() -> Any:
    """The command with all of its verbs, built once: that takes longer than all that is asked of it."""
    return typer.main.get_command(app)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page: Path) -> None:
    """Verbs and options that stand in blocks for the shell."""
    for line in (line for block in _SHELL.findall(page.read_text()) for line in _COMMAND.findall(block)):
        words = line.partition(" #")[0].split()
        command = _all_verbs()
        while words and (further := getattr(command, "commands", None)):
            assert words[0] in {*further, "--version", "--help"}, line
            command = further.get(words.pop(0), command)
            if words and words[0].startswith("--"):
                break
        options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= options, line


def test_every_page_is_listed_in_the_index() -> None:
    """A page that nobody links to is read by nobody."""
    docs = ROOT / "docs"
    listed = set(_LINK.findall((docs / "README.md").read_text()))
    pages = [page.relative_to(docs) for page in docs.glob("*/*.md") if page.parent.name != "runbooks"]
    assert len(pages) > 30
    assert [page for page in pages if str(page) not in listed] == []
