"""Who may send: bearer tokens by tenant, read from a file."""

from __future__ import annotations

import hmac
import logging
import re
from pathlib import Path
from typing import Final, Protocol

from ragtrace.errors import ConfigurationError

__all__ = ["Access", "Everybody", "Tokens"]

_LOG: Final = logging.getLogger("ragtrace.receive")
_TENANT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHORTEST: Final = 16  # characters of a token
_REMEDY: Final = "give lines of a tenant and its token"
_SCHEME: Final = "bearer "


class Access(Protocol):
    """Decides which tenant a request is of."""

    def tenant(self, authorization: str | None) -> str | None:
        """The tenant of a request with this header; None: it may do nothing."""
        ...


class Everybody:
    """No tokens: all requests are of the one tenant without a name."""

    def tenant(self, authorization: str | None) -> str | None:
        """Always the one."""
        return ""


class Tokens:
    """Tokens of a file: in each line a tenant and its token; `#` starts a comment. A tenant may have several tokens, so
    that one can be replaced without a gap. The file is read again when it has changed; one that cannot be used is told
    in the log, once for each change, and leaves the tokens as they were.

    Raises: ConfigurationError naming the line, where the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed = -1
        self._warned: tuple[int, str] | None = None  # of what, and about what
        self._tokens: list[tuple[bytes, str]] = []
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
        tokens = []
        for number, line in enumerate(lines, 1):
            words = line.split("#", 1)[0].split()
            if not words:
                continue
            where = f"{self._path}, line {number}"
            if len(words) != 2 or not _TENANT.fullmatch(words[0]):
                raise ConfigurationError(f"{where}: this is no tenant (letters, digits, . _ -) and a token; {_REMEDY}")
            if len(words[1]) < _SHORTEST:
                raise ConfigurationError(f"{where}: the token has {len(words[1])} characters, and needs {_SHORTEST}")
            tokens.append((words[1].encode(), words[0]))
        if not tokens:
            raise ConfigurationError(f"tokens file {self._path} holds no token; {_REMEDY}")
        if len({token for token, _ in tokens}) < len(tokens):
            raise ConfigurationError(f"{self._path}: a token stands there twice; each is of one tenant")
        self._tokens, self._changed = tokens, changed


def _spellings(token: str) -> set[bytes]:
    """The bytes of a token as they were sent: HTTP hands on each byte as a character of Latin-1, gRPC characters."""
    return {token.encode("utf-8", "replace"), token.encode("latin-1", "replace")}
