"""Tokens by tenant, out of a file."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from ragtrace.errors import ConfigurationError
from ragtrace.receive._tenants import NO_RIGHTS, Everybody, Rights, Tokens

GOOD = "# tenants\nalpha  alpha-token-0123456789\nbeta beta-token-0123456789  # new\n\nbeta beta-token-9876543210\n"
GOOD += "gamma gamma-größe-0123456789\n"


def tokens(tmp_path: Path, body: str = GOOD) -> Tokens:
    """Those of a file with this body."""
    path = tmp_path / "tokens"
    path.write_text(body, encoding="utf-8")
    return Tokens(path)


@pytest.mark.parametrize(
    ("header", "tenant"),
    [
        ("Bearer alpha-token-0123456789", "alpha"),
        ("bearer beta-token-9876543210", "beta"),
        ("Bearer alpha-token-012345678", None),
        ("Bearer ", None),
        ("Basic alpha-token-0123456789", None),
        ("alpha-token-0123456789", None),
        ("Bearer gamma-größe-0123456789", "gamma"),
        ("Bearer gamma-größe-0123456789".encode().decode("latin-1"), "gamma"),
        ("Bearer gamma-gr??e-0123456789", None),
        ("Bearer é\udcff", None),
        ("", None),
        (None, None),
    ],
)
def test_tenant(tmp_path: Path, header: str | None, tenant: str | None) -> None:
    """Whose token it is; anything else is nobody's. HTTP's server hands on bytes as characters of Latin-1."""
    assert tokens(tmp_path).tenant(header) == tenant


def test_everybody() -> None:
    """Without tokens there is one tenant."""
    assert Everybody().tenant(None) == ""


def test_changed_file(tmp_path: Path) -> None:
    """A change counts at once; a broken file leaves the last good tokens."""
    access = tokens(tmp_path)
    path = tmp_path / "tokens"
    for at, body in ((1, "gamma gamma-token-0123456789\n"), (2, "gamma\n")):
        path.write_text(body, encoding="utf-8")
        os.utime(path, (at, at))
        assert access.tenant("Bearer gamma-token-0123456789") == "gamma"
        assert access.tenant("Bearer alpha-token-0123456789") is None
    path.unlink()
    assert access.tenant("Bearer gamma-token-0123456789") == "gamma"


def test_broken_file_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once for each change, however many requests come; never the token."""
    access = tokens(tmp_path)
    path = tmp_path / "tokens"
    for at, body in ((1, "alpha short\n"), (2, "alpha short\n"), (3, GOOD), (4, "alpha short\n")):
        path.write_text(body, encoding="utf-8")
        os.utime(path, (at, at))
        for _ in range(3):
            assert access.tenant("Bearer alpha-token-0123456789") == "alpha"
    path.unlink()
    for _ in range(3):
        access.tenant(None)

    assert len(caplog.messages) == 4
    assert all(each.startswith("the tokens stay as they were: ") for each in caplog.messages)
    assert [f"{path}, line 1: the token has 5 characters" in each for each in caplog.messages] == [True] * 3 + [False]
    assert "No such file" in caplog.messages[-1]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "holds no token"),
        ("alpha\n", "line 1: this is no tenant"),
        ("al/pha alpha-token-0123456789\n", "line 1: this is no tenant"),
        ("alpha short\n", "line 1: the token has 5 characters, and needs 16"),
        ("alpha alpha-token-0123456789\nbeta alpha-token-0123456789\n", "a token stands there twice"),
        ("alpha alpha-token-0123456789 alpha-token-9876543210\n", "line 1: word 3 says nothing that is known"),
        ("alpha alpha-token-0123456789 sampling=1 sampling=0.1\n", "line 1: word 4 says nothing"),
        ("alpha alpha-token-0123456789 services=\n", "services= holds ''"),
        ("alpha alpha-token-0123456789 services=a,,b\n", "services= holds ''"),
        ("alpha alpha-token-0123456789 services=%FF\n", "services= holds '%FF'"),
        ("alpha alpha-token-0123456789 services=a%00\n", "services= holds 'a%00'"),
        (f"alpha alpha-token-0123456789 services={256 * 'a'}\n", "1 to 255 characters"),
        ("alpha alpha-token-0123456789 sampling=0\n", "sampling=0 is no probability"),
        ("alpha alpha-token-0123456789 sampling=nan\n", "sampling=nan is no probability"),
        ("alpha alpha-token-0123456789 sampling=believed\n", "sampling=believed is no probability"),
        ("a alpha-token-0123456789 services=s\na alpha-token-9876543210\n", "line 2: tenant 'a' has other .* line 1"),
        (
            "a alpha-token-0123456789 services=s,t\nb beta-token-9876543210 services=t\n",
            "line 2: service 't' is listed for tenant 'a' in .*line 1",
        ),
        (
            "a alpha-token-0123456789 services=b/t\nb beta-token-9876543210\n",
            "line 1: service 'b/t' cannot be listed: names that begin with 'b/' are those of tenant 'b'",
        ),
        ("a alpha-token-0123456789 services=a/t\n", "those of tenant 'a', whose own services need no listing"),
    ],
)
def test_bad_file(tmp_path: Path, body: str, reason: str) -> None:
    """The line and the remedy; never the token."""
    with pytest.raises(ConfigurationError, match=reason) as raised:
        tokens(tmp_path, body)
    assert "alpha-token" not in str(raised.value)


def test_no_file(tmp_path: Path) -> None:
    """A file that is not there."""
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Tokens(tmp_path / "nowhere")


def test_rights(tmp_path: Path) -> None:
    """Names as in a URL, of several words too; the least probability; nothing for whoever is not there."""
    line = " services=shop,help%20desk services=b/c,100%25%2C%23  sampling=0.05 # since May\n"
    access = tokens(tmp_path, "".join(f"a alpha-token-{number:010}{line}" for number in range(2)) + GOOD)
    assert access.rights("a") == Rights(frozenset({"shop", "help desk", "b/c", "100%,#"}), 0.05)
    assert access.rights("alpha") == access.rights("nobody") == Everybody().rights("a") == NO_RIGHTS


def test_rights_of_a_changed_file(tmp_path: Path) -> None:
    """They change with the file, and a broken one leaves them: in a process that was started with them as well."""
    access = tokens(tmp_path, "a alpha-token-0123456789 services=shop\n")
    path = tmp_path / "tokens"
    path.write_text("a alpha-token-0123456789 services=\n", encoding="utf-8")
    os.utime(path, (1, 1))
    other = pickle.loads(pickle.dumps(access))
    assert access.rights("a").services == other.rights("a").services == {"shop"}
    path.write_text("a alpha-token-0123456789 services=desk\n", encoding="utf-8")
    os.utime(path, (2, 2))
    assert access.rights("a").services == other.rights("a").services == {"desk"}


def test_scrapers_have_no_rights(tmp_path: Path) -> None:
    """Who scrapes metrics names no services."""
    path = tmp_path / "scrapers"
    path.write_text("prometheus scraper-token-0123456789 services=shop\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="line 1: there are 3 words; give a name and its token, and no more"):
        Tokens(path, has_rights=False)
