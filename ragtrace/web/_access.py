"""Access to the pages: by tokens or by what a proxy says, each with a tenant and a role, or whoever sits at this
machine.

A token comes in the header Authorization, or once in a form, from when on a cookie stands for it. The cookie is signed,
ends, and ends at once when the token leaves the file. A form carries a signature of the cookie beside what is sent.
"""

from __future__ import annotations

import getpass
import hashlib
import hmac
import ipaddress
import logging
import re
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias, get_args

from ragtrace.errors import ConfigurationError

__all__ = ["COOKIE", "Access", "Everybody", "People", "Proxy", "Role", "Sessions", "Viewer"]

COOKIE: Final = "ragtrace"
Role: TypeAlias = Literal["numbers", "content", "judge"]
"""What somebody sees and does: numbers and verdicts without any text, texts as well, judging as well."""

_LOG: Final = logging.getLogger("ragtrace.web")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_SHORTEST: Final = 16  # characters of a token
_ROLES: Final[tuple[Role, ...]] = get_args(Role)
_LINE: Final = (
    "give lines of NAME TOKEN tenant=TENANT role=numbers|content|judge (tenant=* for all tenants; TOKEN is - for "
    "whom a proxy names)"
)
_SECONDS: Final = 12 * 3600  # for which a cookie is good


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks. tenant: whose requests there are for this viewer; None: all. is_proxied: a proxy signed them in."""

    name: str
    tenant: str | None = None
    role: Role = "content"
    is_proxied: bool = False

    @property
    def sees_content(self) -> bool:
        """Whether texts are shown."""
        return self.role != "numbers"

    @property
    def may_judge(self) -> bool:
        """Whether what this viewer says is kept."""
        return self.role == "judge"

    def owns(self, service: str) -> bool:
        """Whether all of a service's requests are this viewer's to see, whatever each says of its tenant."""
        return self.tenant is None or service.startswith(f"{self.tenant}/")


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that signs people in: the header in which it names them, and the addresses that it asks from. Of anybody
    else the header means nothing."""

    header: str
    addresses: tuple[str, ...] = ("127.0.0.1", "::1")

    def __post_init__(self) -> None:
        """Raises: ConfigurationError for a header or an address that there cannot be."""
        if not _HEADER.fullmatch(self.header):
            raise ConfigurationError.of("--proxy-header", self.header, "the name of a header, like X-Forwarded-User")
        for address in self.addresses:
            try:
                ipaddress.ip_address(address)
            except ValueError:
                raise ConfigurationError.of("--proxy-from", address, "an IP address, like 10.0.0.5") from None

    def named(self, peer: str | None, values: Sequence[str]) -> str | None:
        """Whom it names. peer: who asks; values: of the header; two of them name nobody."""
        return values[0].strip() if peer in self.addresses and len(values) == 1 else None


class Access(Protocol):
    """Who may look."""

    def viewer(self, token: str) -> Viewer | None:
        """Whose token it is; None: nobody's."""
        ...

    def known(self, digest: str) -> Viewer | None:
        """The viewer of a token with this digest, as a cookie has it."""
        ...

    def named(self, name: str) -> Viewer | None:
        """The viewer whom a proxy names so; None: it may name nobody so."""
        ...

    @property
    def asks(self) -> bool:
        """Whether a token is needed."""
        ...


class Everybody:
    """No tokens: whoever can reach the address, which is this machine's own."""

    asks: Final = False

    def __init__(self, *, may_judge: bool = False, name: str | None = None) -> None:
        self._viewer = Viewer(name or _user(), None, "judge" if may_judge else "content")

    def viewer(self, token: str) -> Viewer | None:
        """Always the one."""
        return self._viewer

    def known(self, digest: str) -> Viewer | None:
        """Always the one."""
        return self._viewer

    def named(self, name: str) -> Viewer | None:
        """Nobody: names need a file."""
        return None


class People:
    """Tokens of a file, read again when it has changed; one that cannot be used is told in the log, and the tokens
    stay as they were. may_judge: whether the role `judge` has its rights, which is so where pages may write.

    Raises: ConfigurationError naming the line, where the file cannot be used.
    """

    asks: Final = True

    def __init__(self, path: Path, *, may_judge: bool = False) -> None:
        self._path, self._may_judge = path, may_judge
        self._read_at = -1
        self._viewers: Mapping[str, Viewer] = {}
        self._named: Mapping[str, Viewer] = {}
        self._load()

    def viewer(self, token: str) -> Viewer | None:
        """Whose token it is."""
        return self.known(digest_of(token))

    def known(self, digest: str) -> Viewer | None:
        """Each digest is compared in constant time, and always all of them."""
        self._refresh()
        found = None
        for known, viewer in self._viewers.items():
            if hmac.compare_digest(known.encode(), digest.encode("utf-8", "replace")):
                found = viewer
        return found

    def named(self, name: str) -> Viewer | None:
        """Who stands there with this name and without a token."""
        self._refresh()
        return self._named.get(name)

    def _refresh(self) -> None:
        try:
            if self._path.stat().st_mtime_ns != self._read_at:
                self._load()
        except (OSError, ConfigurationError) as error:
            _LOG.warning("the tokens stay as they were: %s", error)

    def _load(self) -> None:
        try:
            read_at, text = self._path.stat().st_mtime_ns, self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"tokens file {self._path} cannot be read: {error}; {_LINE}") from None
        found: dict[str, Viewer] = {}
        named: dict[str, Viewer] = {}
        self._read_at = read_at  # of one that cannot be used, too: it is told once
        for number, line in enumerate(text.splitlines(), 1):
            if words := line.split("#", 1)[0].split():
                where = f"{self._path}, line {number}"
                digest, viewer = self._line(where, words)
                known, key = (found, digest) if digest else (named, viewer.name)
                if key in known:
                    raise ConfigurationError(
                        f"{where}: this {'token' if digest else 'name'} stands there twice; {_LINE}"
                    )
                known[key] = viewer
        if not found and not named and not self._viewers and not self._named:
            raise ConfigurationError(f"tokens file {self._path} holds no token; {_LINE}")
        self._viewers, self._named = found, named

    def _line(self, where: str, words: list[str]) -> tuple[str, Viewer]:
        """The digest of a line's token, empty where it has none, and whose it is; no message shows a word that may be a
        token."""
        if len(words) != 4 or not _NAME.fullmatch(words[0]):
            raise ConfigurationError(f"{where}: these are {len(words)} words; {_LINE}")
        is_proxied = words[1] == "-"
        if len(words[1]) < _SHORTEST and not is_proxied:
            raise ConfigurationError(f"{where}: the token has {len(words[1])} characters, and needs {_SHORTEST}")
        given = dict(word.partition("=")[::2] for word in words[2:])
        tenant = given.get("tenant", "")
        role = next((one for one in _ROLES if one == given.get("role")), None)
        if not tenant or role is None:
            raise ConfigurationError(f"{where}: tenant or role is missing or unknown; {_LINE}")
        if role == "judge" and not self._may_judge:
            role = "content"
        viewer = Viewer(words[0], None if tenant == "*" else tenant, role, is_proxied)
        return "" if is_proxied else digest_of(words[1]), viewer


class Sessions:
    """Signs cookies and forms with a key of this process."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._key = secrets.token_bytes(32)
        self._ended: dict[str, int] = {}  # cookies that were signed out, with when they would have ended
        self._ending = threading.Lock()

    def viewer(self, authorization: str | None, cookie: str | None, named: str | None = None) -> Viewer | None:
        """Who asks, by a header or a cookie. named: whom a proxy names, which goes before both."""
        if not self._access.asks:
            return self._access.viewer("")
        if named is not None:
            return self._access.named(named)
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            return self._access.viewer(token.strip())
        until, _, rest = (cookie or "").partition(".")
        digest, _, signature = rest.partition(".")
        is_signed = hmac.compare_digest(self._sign(f"{until}.{digest}").encode(), signature.encode("utf-8", "replace"))
        if not is_signed or cookie in self._ended or not until.isdecimal() or int(until) < time.time():
            return None
        return self._access.known(digest)

    def begin(self, token: str | None) -> str | None:
        """The cookie of a new session; None where it is nobody's token. token: None where none is needed."""
        if token is not None and self._access.viewer(token) is None:
            return None
        content = f"{int(time.time()) + _SECONDS}.{secrets.token_hex(16) if token is None else digest_of(token)}"
        return f"{content}.{self._sign(content)}"

    def end(self, cookie: str | None) -> None:
        """End a session: its cookie is good no more, whoever has a copy of it."""
        until = (cookie or "").partition(".")[0]
        if cookie and self.viewer(None, cookie) is not None and until.isdecimal():
            now = time.time()
            with self._ending:
                self._ended = {each: at for each, at in self._ended.items() if at >= now} | {cookie: int(until)}

    def form_token(self, cookie: str | None) -> str:
        """What a form of this session carries."""
        return self._sign(f"form {cookie or ''}")

    def is_own(self, cookie: str | None, form_token: str) -> bool:
        """Whether a form is one of this session's."""
        expected = self.form_token(cookie).encode()
        return bool(cookie) and hmac.compare_digest(expected, form_token.encode("utf-8", "replace"))

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def digest_of(token: str) -> str:
    """A token's digest; the token is found in no cookie and no log."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return "local"
