"""Tokens by tenant, out of a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragtrace.errors import ConfigurationError
from ragtrace.receive.server.access import Everybody, Tokens

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
