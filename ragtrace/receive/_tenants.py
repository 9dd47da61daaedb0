"""Tenants: the bearer tokens by which they may send, and what their spans may say of services and sampling.

A service belongs to a tenant. What tenant `acme` calls `shop` is stored as `acme/shop`, as its requests' ids begin with
`acme:`, so that all that is kept by service is the tenant's alone. A name that the tokens file lists for the tenant is
stored plainly. Names of tenants hold no slash, so that no tenant's names begin as those of another one do.
"""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias
from urllib.parse import unquote

from ragtrace.errors import ConfigurationError
from ragtrace.store.database import clean
from ragtrace.types import RequestRecord, content_hash, replace

__all__ = [
    "LONGEST",
    "NO_RIGHTS",
    "Access",
    "Claim",
    "Everybody",
    "Rights",
    "Tokens",
    "believed",
    "own_service",
    "owned",
]

LONGEST: Final = 255
"""Characters of a service's name; PostgreSQL's indexes take no names of any length."""

_CUT: Final = 200  # characters of a longer name that stay before its digest
_DIGEST: Final = 16

Claim: TypeAlias = Literal["believed", "bounded", "ignored"]
"""What became of a sender's word on the sampling of a request."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What the lines of a tenant in the tokens file say beside its tokens.

    services: the names that are stored as they are. least_probability: the least sampling probability in (0, 1] that is
    believed; None: none is.
    """

    services: frozenset[str] = frozenset()
    least_probability: float | None = None


NO_RIGHTS: Final = Rights()
"""Those of a tenant of which no file says anything: services of its own, and no word on sampling."""


def owned(record: RequestRecord, tenant: str, rights: Rights) -> RequestRecord:
    """A record of a tenant's spans with its id and its service in the tenant's namespace, so that they touch no other
    tenant's. Without a tenant as it is."""
    if not tenant:
        return record
    request_id = f"{tenant}:{record.request_id}"
    feedback = tuple(replace(each, request_id=request_id) for each in record.feedback)
    service = own_service(tenant, record.service, rights)
    return replace(record, request_id=request_id, tenant_id=tenant, service=service, feedback=feedback)


def own_service(tenant: str, service: str, rights: Rights = NO_RIGHTS) -> str:
    """The name under which a tenant's service is stored. One of more than `LONGEST` characters is cut, and ends in a
    digest of the whole; characters that no database stores are replaced, so that it is one name everywhere."""
    if service in rights.services:
        return service
    service = clean(service)
    if len(service) > LONGEST:
        service = f"{service[:_CUT]}~{content_hash(service)[:_DIGEST]}"
    return f"{tenant}/{service}"


def believed(record: RequestRecord, tenant: str, rights: Rights) -> tuple[RequestRecord, Claim | None]:
    """The record with as much of its sender's word on sampling as the tenant's token carries, and what became of that
    word; None where there is none.

    Whether it was drawn, with which probability, and the flags for which it was kept are one word. Where it is not
    believed, the request counts as drawn with probability 1, without flags.
    """
    says_nothing = record.head_sampled and record.head_probability == 1.0 and not record.flags
    if not tenant or says_nothing:
        return record, None
    if rights.least_probability is None:
        return replace(record, head_sampled=True, head_probability=1.0, flags=()), "ignored"
    if record.head_probability >= rights.least_probability:
        return record, "believed"
    return replace(record, head_probability=rights.least_probability), "bounded"


_LOG: Final = logging.getLogger("ragtrace.receive")
_TENANT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHORTEST: Final = 16  # characters of a token
_REMEDY: Final = "give lines of a tenant and its token"
_SERVICES: Final = "services="
_SAMPLING: Final = "sampling="
_OPTIONS: Final = f"{_SERVICES}NAME,NAME and {_SAMPLING}PROBABILITY"
_SCHEME: Final = "bearer "


class Access(Protocol):
    """Decides which tenant a request is of."""

    def tenant(self, authorization: str | None) -> str | None:
        """The tenant of a request with this header; None: it may do nothing."""
        ...

    def rights(self, tenant: str) -> Rights:
        """What the tenant's spans may say."""
        ...


class Everybody:
    """No tokens: all requests are of the one tenant without a name."""

    def tenant(self, authorization: str | None) -> str | None:
        """Always the one."""
        return ""

    def rights(self, tenant: str) -> Rights:
        """Those of a tenant that another receiver of the store let in, of which nothing is said here."""
        return NO_RIGHTS


class Tokens:
    """Tokens of a file: in each line a tenant, its token, and what its spans may say; `#` starts a comment. A tenant
    may have several tokens, so that one can be replaced without a gap; its lines say the same. The file is read again
    when it has changed; one that cannot be used is told in the log, once for each change, and leaves all as it was.

    has_rights: whether lines may say anything beside a name and its token.

    Raises: ConfigurationError naming the line, where the file cannot be used.
    """

    def __init__(self, path: Path, *, has_rights: bool = True) -> None:
        self._path = path
        self._has_rights = has_rights
        self._changed = -1
        self._warned: tuple[int, str] | None = None  # of what, and about what
        self._tokens: list[tuple[bytes, str]] = []
        self._rights: Mapping[str, Rights] = {}
        self._load()

    def tenant(self, authorization: str | None) -> str | None:
        """The tenant whose token it is. Each token is compared in constant time, and always all of them."""
        self._refresh()
        given = authorization or ""
        token = given[len(_SCHEME) :].strip() if given[: len(_SCHEME)].lower() == _SCHEME else ""
        found = None
        for sent in _spellings(token):
            for known, tenant in self._tokens:
                if hmac.compare_digest(known, sent):
                    found = tenant
        return found

    def rights(self, tenant: str) -> Rights:
        """What the file says of a tenant; of one that it does not name, nothing."""
        self._refresh()
        return self._rights.get(tenant, NO_RIGHTS)

    def _refresh(self) -> None:
        """A file that was broken since keeps its last good tokens."""
        changed = -1
        try:
            changed = self._path.stat().st_mtime_ns
            if changed != self._changed:
                self._load()
            fault = None
        except (OSError, ConfigurationError) as error:
            fault = changed, str(error)
        if fault is not None and fault != self._warned:
            _LOG.warning("the tokens stay as they were: %s", fault[1])
        self._warned = fault

    def _load(self) -> None:
        try:
            changed = self._path.stat().st_mtime_ns
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"tokens file {self._path} cannot be read: {error}; {_REMEDY}") from None
        entries = [
            _line(f"{self._path}, line {number}", words, has_rights=self._has_rights)
            for number, line in enumerate(lines, 1)
            if (words := line.split("#", 1)[0].split())
        ]
        if not entries:
            raise ConfigurationError(f"tokens file {self._path} holds no token; {_REMEDY}")
        if len({entry.token for entry in entries}) < len(entries):
            raise ConfigurationError(f"{self._path}: a token stands there twice; each is of one tenant")
        rights = _rights(entries)
        self._tokens = [(entry.token, entry.tenant) for entry in entries]
        self._rights, self._changed = rights, changed


class _Line(NamedTuple):
    where: str
    tenant: str
    token: bytes
    rights: Rights


def _line(where: str, words: list[str], *, has_rights: bool) -> _Line:
    """What a line says; no message shows a word that may be a token. Raises: ConfigurationError."""
    if len(words) < 2 or not _TENANT.fullmatch(words[0]):
        raise ConfigurationError(f"{where}: this is no tenant (letters, digits, . _ -) and a token; {_REMEDY}")
    if len(words[1]) < _SHORTEST:
        raise ConfigurationError(f"{where}: the token has {len(words[1])} characters, and needs {_SHORTEST}")
    services, least = list[str](), None
    for place, word in enumerate(words[2:], 3):
        if not has_rights:
            raise ConfigurationError(f"{where}: there are {len(words)} words; give a name and its token, and no more")
        if word.startswith(_SERVICES):
            services += _names(where, word.removeprefix(_SERVICES))
        elif word.startswith(_SAMPLING) and least is None:
            least = _probability(where, word.removeprefix(_SAMPLING))
        else:
            raise ConfigurationError(
                f"{where}: word {place} says nothing that is known; behind the token may stand {_OPTIONS}"
            )
    return _Line(where, words[0], words[1].encode(), Rights(frozenset(services), least))


def _names(where: str, written: str) -> Iterator[str]:
    """The names of services, in each of which a space, a comma, `#` and `%` are written as in a URL."""
    for each in written.split(","):
        try:
            name = unquote(each, errors="strict")
        except UnicodeDecodeError:
            name = ""
        if not name or len(name) > LONGEST or "\0" in name:
            raise ConfigurationError(
                f"{where}: {_SERVICES} holds {each[:60]!r}; give names of 1 to {LONGEST} characters with commas "
                "between them, and write a space as %20, a comma as %2C, `#` as %23 and `%` as %25"
            )
        yield name


def _probability(where: str, written: str) -> float:
    try:
        found = float(written)
    except ValueError:
        found = 0.0
    if not 0 < found <= 1:
        raise ConfigurationError(
            f"{where}: {_SAMPLING}{written[:20]} is no probability; give the least one that the tenant's applications "
            "sample with, above 0 and up to 1: their `sample_rate`"
        )
    return found


def _rights(lines: Iterable[_Line]) -> dict[str, Rights]:
    """By tenant. Raises: ConfigurationError where lines contradict each other, or a service would be of two tenants."""
    first: dict[str, _Line] = {}
    for line in lines:
        if first.setdefault(line.tenant, line).rights != line.rights:
            raise ConfigurationError(
                f"{line.where}: tenant {line.tenant!r} has other {_SERVICES} or {_SAMPLING} in "
                f"{first[line.tenant].where}; the lines of one tenant say the same"
            )
    owners: dict[str, _Line] = {}
    for line in first.values():
        for name in sorted(line.rights.services):
            owner = owners.setdefault(name, line)
            if owner is not line:
                raise ConfigurationError(
                    f"{line.where}: service {name!r} is listed for tenant {owner.tenant!r} in {owner.where}; a service "
                    "belongs to one tenant"
                )
            if (space := name.partition("/")[0]) in first and "/" in name:
                raise ConfigurationError(
                    f"{line.where}: service {name!r} cannot be listed: names that begin with {space + '/'!r} are "
                    f"those of tenant {space!r}, whose own services need no listing"
                )
    return {tenant: line.rights for tenant, line in first.items()}


def _spellings(token: str) -> set[bytes]:
    """The bytes of a token as they were sent: HTTP hands on each byte as a character of Latin-1, gRPC characters."""
    return {token.encode("utf-8", "replace"), token.encode("latin-1", "replace")}
