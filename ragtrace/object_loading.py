"""Finds an object of the application by its name, `module:attribute`, or what `module:factory()` makes."""

from __future__ import annotations

import importlib
import os
import sys
from operator import attrgetter
from typing import Any

from ragtrace.config import variable
from ragtrace.errors import ConfigurationError

__all__ = ["load_object"]


def load_object(name: str, what: str, allowed: str) -> Any:
    """The object of this name; its module is looked for in the current folder too.

    what: how messages call it; allowed: what they say is allowed. Raises: ConfigurationError.
    """
    module_name, _, path = name.strip().partition(":")
    parts = path.removesuffix("()").split(".")
    if not all(part.isidentifier() for part in (*module_name.split("."), *parts)):
        raise ConfigurationError.of(what, name, allowed)
    module = _module(module_name, what, allowed)
    try:
        found = attrgetter(".".join(parts))(module)
    except AttributeError:
        raise ConfigurationError(
            f"{what} {name!r}: module {module_name} ({module.__file__}) has no {'.'.join(parts)!r}; give {allowed}"
        ) from None
    if not path.endswith("()"):
        return found
    try:
        return found()
    except (Exception, SystemExit) as error:
        raise _broken(what, f"{name} failed", error) from error


def _module(name: str, what: str, allowed: str) -> Any:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ConfigurationError(
                f"{what}: no module {error.name!r} in {os.getcwd()} or among the installed packages; give {allowed}"
            ) from None
        raise _broken(what, f"module {name!r} cannot be imported", error) from error
    except (Exception, SystemExit) as error:
        raise _broken(what, f"module {name!r} cannot be imported", error) from error


def _broken(what: str, how: str, error: BaseException) -> ConfigurationError:
    return ConfigurationError(
        f"{what}: {how}: {type(error).__name__}: {error}; {variable('debug')}=1 shows the traceback"
    )
