"""Mutants: do the tests notice when the code is wrong? `make mutants`, which is no part of CI.

Random places of the packages are changed one at a time, in a copy of what git tracks: an operator, a condition, a
constant, what is returned. A mutant is killed where a test fails (or hangs) of those that are named after its module
or import it, in the tests that mirror its package. What survives is a test that is missing, or a change that makes no
difference: read it.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("coverage", "store", "gate")

_SWAPPED: Final[dict[type[ast.AST], type[ast.AST]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: `before` stands at these offsets, in bytes, of a file."""

    file: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        first, last = (" ".join(text.split())[:70] for text in (self.before, self.after))
        return f"{self.file}:{self.line}: {first}  →  {last}"

    def written(self, source: bytes) -> bytes:
        """The file with the change."""
        return source[: self.start] + self.after.encode() + source[self.end :]


def mutants_of(file: str, source: bytes) -> list[Mutant]:
    """All changes of a module; none in annotations, decorators, `__all__`, or f-strings, of which Python 3.11 does not
    say where their parts stand."""
    starts = [0]
    for line in source.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    found = []
    tree = ast.parse(source)
    tests = [each.test for each in ast.walk(tree) if isinstance(each, ast.If | ast.While)]
    results = [each.value for each in ast.walk(tree) if isinstance(each, ast.Return) and each.value is not None]
    for node in _nodes(tree):
        changes = list(_changes(node))
        if any(node is each for each in tests) and not changes:
            changes.append(ast.UnaryOp(ast.Not(), node))
        if any(node is each for each in results) and not isinstance(node, ast.Constant):
            changes.append(ast.Constant(None))
        for changed in changes:
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
            after = f"({ast.unparse(changed)})"
            found.append(Mutant(file, node.lineno, start, end, source[start:end].decode(), after))
    return found


def _nodes(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions that run, outermost first."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.JoinedStr) or not isinstance(child, ast.AST) or _is_listing(child):
                continue
            if isinstance(child, ast.expr):
                yield child
            yield from _nodes(child)


def _is_listing(node: ast.AST) -> bool:
    names = [each.id for each in getattr(node, "targets", ()) if isinstance(each, ast.Name)]
    return "__all__" in names or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))


def _changes(node: ast.expr) -> Iterator[ast.expr]:
    """What may stand in place of an expression."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _SWAPPED:
        yield _with(node, "ops", [_SWAPPED[type(node.ops[0])]()])
    elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in _SWAPPED:
        yield _with(node, "op", _SWAPPED[type(node.op)]())
    elif isinstance(node, ast.IfExp):
        yield _with(node, "test", ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
        yield _with(node, "func", ast.Name("max" if node.func.id == "min" else "min"))


def _with(node: ast.expr, name: str, value: object) -> ast.expr:
    changed = copy.copy(node)
    setattr(changed, name, value)
    return changed


def tests_of(file: str) -> list[str]:
    """The tests of a module: in the folder that mirrors its package those that are named after it or import it, else
    all that stand there."""
    module = Path(file)
    package = module.parts[1]
    dotted = ".".join(module.with_suffix("").parts)
    folder = ROOT / "tests" / package
    files = sorted(folder.rglob("test_*.py"))
    stem = module.stem.lstrip("_")
    own = [each for each in files if each.stem.startswith(f"test_{stem}") or f"{dotted} import" in each.read_text()]
    return [str(each.relative_to(ROOT)) for each in own or files]


def copied(into: Path) -> None:
    """What git tracks, as it stands here."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in names.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, into / name)


def fails(folder: Path, tests: Sequence[str], seconds: float) -> bool:
    """Whether a test fails, or all together take longer."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return True
    return done.returncode not in (0, 5)


def main() -> int:
    """Draw mutants and say which survive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--packages", nargs="+", default=PACKAGES)
    parser.add_argument("--seconds", type=float, default=600.0, help="that the tests of one mutant may take")
    given = parser.parse_args()
    files = [each for package in given.packages for each in sorted((ROOT / "ragtrace" / package).rglob("*.py"))]
    every = [one for each in files for one in mutants_of(str(each.relative_to(ROOT)), each.read_bytes())]
    drawn = random.Random(given.seed).sample(every, min(given.count, len(every)))
    killed, sound = 0, dict[tuple[str, ...], bool]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copied(folder)
        survivors = []
        for number, mutant in enumerate(drawn, 1):
            tests = tuple(tests_of(mutant.file))
            if tests not in sound:
                sound[tests] = not fails(folder, tests, given.seconds)
            if not sound[tests]:
                print(f"{number}: not judged, since its tests fail as they are: {mutant}", flush=True)
                continue
            target = folder / mutant.file
            source = target.read_bytes()
            target.write_bytes(mutant.written(source))
            is_killed = fails(folder, tests, given.seconds)
            target.write_bytes(source)
            killed += is_killed
            if not is_killed:
                survivors.append(mutant)
            print(f"{number}: {'killed' if is_killed else 'SURVIVED'} {mutant}", flush=True)
    judged = killed + len(survivors)
    share = 100 * killed / max(judged, 1)
    print(f"\n{killed} of {judged} killed ({share:.0f} %), of {len(every):,} possible; seed {given.seed}")
    for survivor in survivors:
        print(f"  {survivor}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
