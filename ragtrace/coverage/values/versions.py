"""Versions and what is asked of them: "v1.10", "version 3 or later", ">=2.1,<3", "2.x" (packaging's rules of order)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ragtrace.coverage.values.value import Value

__all__ = ["Constraint", "constraint_of", "constraints_in", "version_match", "versions_of", "versions_stated"]

_NUMERIC: Final = re.compile(r"\d+(?:\.\d+)*(?:[-+.]?(?:alpha|beta|a|b|rc|dev|post)[.-]?\d*)?(?![\w%])", re.IGNORECASE)
_VERSION: Final = re.compile(r"(?<![\w.])(?:v\d+(?:\.\d+)*|\d+(?:\.\d+){2,})(?![\w]|\.\d)", re.IGNORECASE)
_N: Final = r"v?\d+(?:\.\d+)*(?:\.[x*])?(?:[-+.]?(?:alpha|beta|a|b|rc|dev|post)[.-]?\d*)?"
_WORD: Final = r"(?:versions?|editions?|releases?|revisions?|rev\.?|ver\.?)"
_STATED: Final = re.compile(
    rf"(?:\b(?:{_WORD}|v\.?)\s*|(?<![\w.])(?=\d+\.\d))(?P<n>{_N})(?![\w%]|\.\d|\s*%)", re.IGNORECASE
)
_CLEAR: Final = re.compile(rf"\b(?:{_WORD}\s+(?=v?\d)|(?=v\d))(?P<n>{_N})(?![\w%]|\.\d)", re.IGNORECASE)
_CONSTRAINT: Final = re.compile(
    rf"""(?P<spec>(?:(?:[<>=~^]=?|!=)\s*{_N}\s*,?\s*)+)
    | (?P<between>\bbetween\s+)?
      (?P<lead>\b(?:before|prior\s+to|older\s+than|below|under|since|from|after|newer\s+than|above|later\s+than
        |up\s+to|through|until|at\s+least|at\s+most)\s+)?(?<![\w.])(?P<named>{_WORD}\s+)?(?P<n>{_N})(?![\w%]|\.\d)
      (?P<span>\s*(?(between)and|(?:-|–|to|through))\s*(?P<last>{_N})(?![\w%]|\.\d))?
      (?P<rest>\s*(?:\+|(?:or|and)\s+(?:later|newer|above|higher|up|upwards?|earlier|older|below|lower)\b|onwards?\b))?""",
    re.IGNORECASE | re.VERBOSE,
)
_VALUE: Final = re.compile(r"[<>=]\s*\d+|[<>=]=?\s*\d{3,}")  # of a parameter or an amount: limit=500, > 30, <= 100
_LEADS: Final = {
    "before": "<", "prior to": "<", "older than": "<", "below": "<", "under": "<", "since": ">=", "from": ">=",
    "after": ">", "newer than": ">", "above": ">", "later than": ">", "up to": "<=", "through": "<=", "until": "<=",
    "at least": ">=", "at most": "<=",
}  # fmt: skip
_OF: Final = ("from", "under")  # "under edition 2.0": in that edition
_DOWN: Final = ("earlier", "older", "below", "lower")


@dataclass(frozen=True, slots=True)
class Constraint:
    """What is asked of a version at `text[start:end]`: to be in `allowed`, or to be (a release of) `exact`."""

    start: int
    end: int
    allowed: SpecifierSet | None = None
    exact: Version | None = None
    wildcard: bool = False


def versions_in_values(text: str) -> list[Value]:
    """Versions of `text` that are no plain number, as values of kind `version`."""
    return [
        Value("version", match.start(), match.end(), raw=match.group().casefold().removeprefix("v"))
        for match in _VERSION.finditer(text)
    ]


@lru_cache(maxsize=4096)
def versions_of(text: str) -> tuple[Version, ...]:
    """Every number of `text` as a version: for a field that is known to state one."""
    return tuple(version for match in _NUMERIC.finditer(text[:200]) if (version := _version(match.group())))


def versions_stated(text: str) -> tuple[frozenset[Version], frozenset[Version]]:
    """Versions that a text states: those with a dot or behind "version", "edition" or a v, and of these the clear ones.

    "page 2" states none; "3.5" may be one, or a plain number, and is not clear.
    """
    every = {version for match in _STATED.finditer(text) if (version := _version(match.group("n")))}
    clear = {version for match in _CLEAR.finditer(text) if (version := _version(match.group("n")))}
    return frozenset(every | clear), frozenset(clear)


def constraints_in(text: str) -> list[Constraint]:
    """What a question asks of versions: bounds, ranges, wildcards, or one version; a bare number is no version."""
    return [found for match in _CONSTRAINT.finditer(text) if _is_version(match) and (found := _constraint(match))]


@lru_cache(maxsize=4096)
def constraint_of(text: str) -> Constraint | None:
    """What a facet's value asks for: as `constraints_in`, but a bare number ("2") is a version."""
    return next((found for match in _CONSTRAINT.finditer(text) if (found := _constraint(match))), None)


def version_match(wanted: Constraint, given: Version) -> float:
    """1 where the version is allowed; for one version also its releases (3 → 3.1), half for a coarser one (3.1 → 3)."""
    if wanted.allowed is not None:
        return float(wanted.allowed.contains(given, prereleases=True))
    if wanted.exact is None or wanted.exact == given:
        return float(wanted.exact is not None)
    asked, said = wanted.exact.release, given.release
    if asked == said or wanted.exact.is_prerelease:
        return 0.0
    if said[: len(asked)] == asked and len(said) > len(asked):
        return 1.0
    return 0.5 if asked[: len(said)] == said and not wanted.wildcard else 0.0


def _is_version(match: re.Match[str]) -> bool:
    if spec := match.group("spec"):
        return not _VALUE.fullmatch(spec.strip())
    if match.group("named"):
        return True
    number = match.group("n")
    if match.group("rest") and "." in number:
        return True
    return number[0] in "vV" or number.count(".") >= 2 or number.casefold().endswith((".x", ".*"))


def _constraint(match: re.Match[str]) -> Constraint | None:
    start, end = match.span()
    if _is_plain(match):
        start = match.start("named")
    end -= len(match.group()) - len(match.group().rstrip(" ,"))
    try:
        if match.group("spec"):
            return Constraint(start, end, allowed=SpecifierSet(_specifiers(match.group("spec"))))
        operator = _operator(match)
        number = match.group("n").casefold().removeprefix("v")
        wildcard = number.endswith((".x", ".*"))
        number = number[:-2] if wildcard else number
        if match.group("span"):
            last = match.group("last").casefold().removeprefix("v")
            return Constraint(start, end, allowed=SpecifierSet(f">={number},<={last}"))
        if operator:
            return Constraint(start, end, allowed=SpecifierSet(f"{operator}{Version(number)}"))
        return Constraint(start, end, exact=Version(number), wildcard=wildcard)
    except ValueError:  # no version, no specifier, or a number of thousands of digits
        return None


def _operator(match: re.Match[str]) -> str:
    rest, lead = match.group("rest"), match.group("lead")
    if rest:
        return "<=" if rest.casefold().endswith(_DOWN) else ">="
    return _LEADS[" ".join(lead.casefold().split())] if lead and not _is_plain(match) else ""


def _is_plain(match: re.Match[str]) -> bool:
    """Whether the word before an edition's number bounds nothing: under edition 2.0, from version 3.2."""
    lead, named, span = match.group("lead", "named", "span")
    return bool(lead and named and not span and not match.group("rest") and lead.strip().casefold() in _OF)


def _specifiers(written: str) -> str:
    """Python's operators for the common others: ^1.2 is >=1.2,<2; = is ==; a v before the number is dropped."""
    parts = []
    for operator, number in re.findall(rf"([<>=~^]=?|!=)\s*({_N})", written, re.IGNORECASE):
        plain = re.sub(r"\.[x*]$", ".*", number.casefold().removeprefix("v"))
        if operator == "^":
            parts.append(f">={plain},<{Version(plain).major + 1}")
        else:
            parts.append(f"{ {'=': '==', '~': '~=', '!': '!='}.get(operator, operator) }{plain}")
    return ",".join(parts)


@lru_cache(maxsize=4096)
def _version(written: str) -> Version | None:
    try:
        return Version(re.sub(r"\.[x*]$", "", written.casefold().removeprefix("v")))
    except ValueError:
        return None
