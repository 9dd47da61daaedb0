"""Domains made of documentation that Debian packages: manuals of PostgreSQL, Python, Debian's policy, and commands.

The texts of the RFCs are no domain: Debian 12 has them outside of `main` only, in doc-rfc.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from shutil import which
from typing import Final

from bench.verdicts.model import Domain, Passage, Question
from bench.verdicts.phrasing import Entry, Phrased, phrased

__all__ = ["CORPORA", "QUESTIONS", "Corpus", "read_debian"]

QUESTIONS: Final = 60
SHORTEST: Final = 60  # words of a passage
LONGEST: Final = 160
_DOCS: Final = Path("/usr/share/doc")
_ROOT: Final = Path(__file__).parents[2]
_POSTGRES: Final = "runtime-config-*.html app-*.html sql-*.html".split()
_PYTHON: Final = (
    "argparse base64 bisect builtins calendar collections configparser contextlib copy csv datetime decimal "
    "difflib email.message fileinput fnmatch fractions functions functools gettext glob gzip hashlib heapq html "
    "http.client inspect io ipaddress itertools json locale logging mailbox math mimetypes multiprocessing os "
    "os.path pathlib pickle platform pprint queue random re sched secrets select shelve shlex shutil signal "
    "socket sqlite3 ssl statistics stdtypes string struct subprocess sys tarfile tempfile textwrap threading time "
    "timeit tokenize traceback types unicodedata unittest urllib.parse urllib.request uuid warnings weakref "
    "xml.etree.elementtree zipfile zoneinfo"
)
_GIT: Final = (
    "add am apply archive bisect blame branch bundle checkout cherry-pick clean clone commit config describe diff "
    "fetch format-patch gc grep init log ls-files ls-tree merge mv notes pull push range-diff rebase reflog "
    "remote repack reset restore revert rm shortlog show sparse-checkout stash status submodule switch tag "
    "worktree"
)
_TOOLS: Final = (
    "ls cp mv rm mkdir ln chmod chown chgrp touch stat du df dd cat tac nl od head tail split csplit wc sort uniq "
    "comm cut paste join tr expand fold fmt pr tee date env nice nohup timeout sleep seq shuf truncate install "
    "mktemp realpath readlink tar gzip grep sed find xargs diff cmp patch"
)
_VOID: Final = frozenset("area base br col embed hr img input link meta param source track wbr".split())
_BLOCKS: Final = frozenset("p li td th tr div pre dd dt br h1 h2 h3 h4".split())
_UNREAD: Final = ("headerlink", "indexterm", "footnote")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z“\"(])")


@dataclass(frozen=True, slots=True)
class Corpus:
    """One domain's source. packages: what apt is to install for it; read: its entries, none where it is absent."""

    name: str
    packages: tuple[str, ...]
    read: Callable[[], Iterator[Entry]]


def read_debian(name: str, *, questions: int = QUESTIONS, install: bool = False) -> Domain:
    """The domain of a corpus. install: whether apt is to install it where it is absent.

    Raises: FileNotFoundError where it is absent all the same.
    """
    corpus = CORPORA[name]
    entries = list(corpus.read())
    if not entries and install:
        subprocess.run([_ROOT / ".ci" / "apt-install", *corpus.packages], check=False, stdout=sys.stderr)
        entries = list(corpus.read())
    if not entries:
        raise FileNotFoundError(name)
    passages, homes = _passages(entries)
    asked = _questions(entries, homes, passages)
    order = sorted(asked, key=lambda question: hashlib.blake2b(question.id.encode(), digest_size=8).digest())
    return Domain(name, passages, tuple(_spread(order, questions)), "debian")


# Passages and questions.


def _passages(entries: Sequence[Entry]) -> tuple[dict[str, Passage], dict[int, str]]:
    """The passages, and in which one each entry begins."""
    passages: dict[str, Passage] = {}
    homes: dict[int, str] = {}
    waiting: list[int] = []
    body: list[str] = []

    def close() -> None:
        if not body:
            return
        entry = entries[waiting[0]]
        place = _slug(f"{entry.page} {entry.subject or entry.heading}")[:60].strip("-")
        name = place if place not in passages else f"{place}-{len(passages)}"
        passages[name] = Passage(name, entry.heading, "\n".join(body))
        homes.update(dict.fromkeys((row for row in waiting if row not in homes), name))
        body.clear()
        waiting.clear()

    for row, entry in enumerate(entries):
        pieces = _pieces(entry)
        if waiting and (
            (entry.page, entry.heading) != (entries[waiting[0]].page, entries[waiting[0]].heading)
            or _words(body) >= SHORTEST
            or _words([*body, pieces[0]]) > LONGEST
        ):
            close()
        for piece in pieces:
            if body and _words([*body, piece]) > LONGEST:
                close()
            waiting.append(row)
            body.append(piece)
    close()
    return passages, homes


def _pieces(entry: Entry) -> list[str]:
    """The entry's text in pieces of whole sentences, the first with its name."""
    pieces = [f"{entry.subject}:" if entry.subject else ""]
    for sentence in entry.sentences:
        if _words([pieces[-1], sentence]) > LONGEST and _words(pieces[-1:]) > 2:
            pieces.append(sentence)
        else:
            pieces[-1] = f"{pieces[-1]} {sentence}".strip()
    return pieces


def _questions(
    entries: Sequence[Entry], homes: Mapping[int, str], passages: Mapping[str, Passage]
) -> Iterator[Question]:
    """All of them, with as evidence every passage that says what the answer rests on."""
    holders: defaultdict[str, set[str]] = defaultdict(set)
    wanted = {sentence for entry in entries for each in phrased(entry) for sentence in each.rests_on}
    for passage in passages.values():
        for line in passage.text.split("\n"):
            for sentence in wanted & {line, *_SENTENCE.split(line), *_SENTENCE.split(line.partition(": ")[2])}:
                holders[sentence].add(passage.id)
    for row, entry in enumerate(entries):
        home = homes[row]
        for number, each in enumerate(phrased(entry)):
            there = set.intersection(*(holders[sentence] for sentence in each.rests_on))
            there = {
                name for name in there if entry.subject in passages[name].text
            }  # of another command it proves nothing
            if home in there:
                yield _question(f"{home}-{row}-{number}", each, home, there)


def _question(name: str, each: Phrased, home: str, there: set[str]) -> Question:
    answers = tuple(answer.replace("{}", f"{{{home}}}") for answer in each.answers)
    kind = "duplicate" if len(there) > 1 and each.kind == "plain" else each.kind
    return Question(name, kind, each.question, (frozenset(there),), answers)


def _spread(questions: Iterable[Question], count: int) -> Iterator[Question]:
    """The first `count`, no two of the same passage, and of no form much more than of another."""
    chosen: defaultdict[str, int] = defaultdict(int)
    homes: set[frozenset[str]] = set()
    for question in questions:
        form = question.id.rpartition("-")[2]
        if question.evidence[0] not in homes and chosen[form] < count / 4 and sum(chosen.values()) < count:
            homes.add(question.evidence[0])
            chosen[form] += 1
            yield question


# Sources.


def _postgres() -> Iterator[Entry]:
    folder = _DOCS / "postgresql-doc-15" / "html"
    for file in sorted(file for pattern in _POSTGRES for file in folder.glob(pattern)):
        tree = _tree(file)
        title = _text(tree.first("title"))
        what = "parameter" if file.name.startswith("runtime") else "option"
        command = title.split()[0] if file.name.startswith("app-") else title
        for term, description in tree.definitions():
            names = [_text(each) for each in term.every("code") if each.sort in ("varname", "option", "literal")]
            if not names:
                continue
            name = names[0] if what == "parameter" else f"{command} {names[0]}"
            yield from _entry(file.stem, title, name, what, "PostgreSQL", description)


def _python() -> Iterator[Entry]:
    folder = _DOCS / "python3.11" / "html" / "library"
    for name in _PYTHON.split():
        file = folder / f"{name}.html"
        if not file.exists():
            continue
        tree = _tree(file)
        title = _text(tree.first("title")).partition(" — Python")[0]
        for term, description in tree.definitions():
            if "." in term.name or (term.name and name == "functions"):
                is_called = "(" in _text(term)
                subject, what = (f"{term.name}()", "function") if is_called else (term.name, "attribute")
                yield from _entry(name, title, subject, what, "Python", description)


def _policy() -> Iterator[Entry]:
    folder = _DOCS / "debian-policy" / "policy.html"
    for file in sorted(folder.glob("*.html")):
        if not file.name.startswith(("ch-", "ap-")):
            continue
        for section in _tree(file).every("section"):
            heads = [each for each in section.parts if isinstance(each, _Element) and each.tag in ("h1", "h2", "h3")]
            paragraphs = [each for each in section.parts if isinstance(each, _Element) and each.tag == "p"]
            heading = re.sub(r"^(?:[A-Z]\.|\d+\.)+[\d.]*\s+|¶", "", _text(heads[0])) if heads else ""
            sentences = tuple(sentence for each in paragraphs for sentence in _sentences(_text(each)))
            if heading and sentences:
                yield Entry(f"{file.stem} {heading}", heading, "", "section", "Debian policy", sentences)


def _manuals(pages: str, prefix: str = "") -> Iterator[Entry]:
    """What the commands' manuals say of their options; the other paragraphs as prose."""
    for page in pages.split() if which("man") else ():
        command = f"{prefix} {page}".strip()
        options = {"MANWIDTH": "4000", "LC_ALL": "C.UTF-8", "MANPAGER": "cat"}
        shown = subprocess.run(["man", "--no-hyphenation", "--no-justification", f"{command.replace(' ', '-')}"],
                               capture_output=True, text=True, check=False, env={**os.environ, **options})  # fmt: skip
        for name, lines in _options(re.sub(r".\x08", "", shown.stdout)):
            sentences = tuple(sentence for line in lines for sentence in _sentences(line))
            if sentences:
                heading = f"Manual of {command}"
                yield Entry(page, heading, f"{command} {name}", "option", command, sentences)


def _options(text: str) -> Iterator[tuple[str, list[str]]]:
    """The options of a manual with the lines that describe them."""
    name, lines = "", list[str]()
    for line in text.split("\n"):
        depth = len(line) - len(line.lstrip())
        found = re.match(r"\s{3,7}(--?[\w?][^\s,=\[<]*)(\S*)(.*)$", line)
        if found or (line.strip() and depth < 8):
            if name:
                yield name, lines
            name, lines = "", []
        if found:
            tag, _, described = f"{found[2]}{found[3]}".partition("     ")
            long = re.search(r"--[a-z][a-z-]+", tag)
            name = long[0] if long else found[1]
            lines = [described.strip()] if described.strip() else []
        elif name and line.strip():
            lines.append(line.strip())
    if name:
        yield name, lines


def _entry(page: str, heading: str, name: str, what: str, where: str, described: _Element) -> Iterator[Entry]:
    own = [each for each in described.parts if isinstance(each, _Element) and each.tag == "p"]
    sentences = tuple(sentence for each in own for sentence in _sentences(_text(each)))
    if sentences and len(name) < 60:
        yield Entry(page, heading, name, what, where, sentences)


# Markup.


@dataclass(slots=True)
class _Element:
    """An element of a page. sort: its class; name: its id."""

    tag: str
    sort: str = ""
    name: str = ""
    parts: list[_Element | str] = field(default_factory=list)

    def every(self, tag: str) -> Iterator[_Element]:
        for part in self.parts:
            if isinstance(part, _Element):
                if part.tag == tag:
                    yield part
                yield from part.every(tag)

    def first(self, tag: str) -> _Element:
        return next(self.every(tag), _Element(tag))

    def definitions(self) -> Iterator[tuple[_Element, _Element]]:
        """Terms with what follows them, in all lists."""
        for found in self.every("dl"):
            term = None
            for part in found.parts:
                if isinstance(part, _Element) and part.tag == "dt":
                    term = part
                elif isinstance(part, _Element) and part.tag == "dd" and term is not None:
                    yield term, part
                    term = None


class _Parser(HTMLParser):
    """Builds a tree, leniently: what is not closed ends with its parent."""

    def __init__(self) -> None:
        super().__init__()
        self.root = _Element("root")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        element = _Element(tag, given.get("class") or "", given.get("id") or "")
        self._open[-1].parts.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].parts.append(_Element(tag))

    def handle_endtag(self, tag: str) -> None:
        for place in range(len(self._open) - 1, 0, -1):
            if self._open[place].tag == tag:
                del self._open[place:]
                break

    def handle_data(self, data: str) -> None:
        self._open[-1].parts.append(data)


def _tree(file: Path) -> _Element:
    parser = _Parser()
    parser.feed(file.read_text(encoding="utf-8", errors="replace"))
    return parser.root


def _text(element: _Element) -> str:
    def parts(of: _Element) -> Iterator[str]:
        for part in of.parts:
            if isinstance(part, str):
                yield part
            elif not part.sort.startswith(_UNREAD) and part.tag != "dl":
                yield from parts(part)
                yield " " if part.tag in _BLOCKS else ""

    return " ".join("".join(parts(element)).split())


def _sentences(text: str) -> list[str]:
    """Whole sentences, each with a full stop; one that leads to a list is left out."""
    found = [" ".join(each.split()) for each in _SENTENCE.split(text)]
    return [f"{each.rstrip('. ')}." for each in found if each.strip(". ") and not each.endswith(":")]


def _words(texts: Iterable[str]) -> int:
    return sum(len(text.split()) for text in texts)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


CORPORA: Final[Mapping[str, Corpus]] = {
    corpus.name: corpus
    for corpus in (
        Corpus("postgresql", ("postgresql-doc-15",), _postgres),
        Corpus("python", ("python3.11-doc",), _python),
        Corpus("debian-policy", ("debian-policy",), _policy),
        Corpus("man-git", ("man-db", "git-man"), lambda: _manuals(_GIT, "git")),
        Corpus("man-tools", ("man-db", "coreutils", "tar", "grep", "sed", "findutils", "diffutils"),
               lambda: _manuals(_TOOLS)),
    )
}  # fmt: skip
