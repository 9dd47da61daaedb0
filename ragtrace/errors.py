"""The exceptions of ragtrace. Every message gives the value got, what is allowed, and the remedy.

RagtraceError
├── ConfigurationError      a setting or an argument that cannot be used
├── MissingExtraError       a package of an extra is not installed
├── RecordError             a record that cannot be written or read
├── InputError              requests that cannot be compared
├── RegistryError           metrics/ holds something that does not fit together
├── AttributionError        players, inputs or values to which nothing can be attributed
├── ModelError              a model that cannot be loaded, or does not do what is asked
│   ├── ServerError         a model's server that cannot be reached, refuses, or answers what cannot be read
│   ├── ScoringStopped      a server or a limit ended the scoring; it holds what was done
│   └── NotJudged           a judge could not judge: its budget, its server, or an answer that is none
├── ProbeError              a probe of the index fails, or returns what cannot be read
├── WorkerError             workers that cannot start, or end again and again
└── StoreError              the database or the spool
    ├── StoreUnavailable    cannot be opened or reached: try again, or mend the path or the server
    ├── CorruptStore        the file is no database, or a damaged one
    ├── SchemaMismatch      the schema is older or newer than this ragtrace
    └── NewerForm           what waits in a spool was written by a newer ragtrace
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from ragtrace.safe_text import masked

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "AttributionError",
    "ConfigurationError",
    "CorruptStore",
    "InputError",
    "MissingExtraError",
    "ModelError",
    "NewerForm",
    "NotJudged",
    "ProbeError",
    "RagtraceError",
    "RecordError",
    "RegistryError",
    "SchemaMismatch",
    "ScoringStopped",
    "ServerError",
    "StoreError",
    "StoreUnavailable",
    "WorkerError",
]


class RagtraceError(Exception):
    """Root of all errors that ragtrace raises on purpose."""


class ConfigurationError(RagtraceError):
    """A setting or an argument that cannot be used."""

    @classmethod
    def of(cls, name: str, value: object, allowed: str) -> Self:
        """The error for a setting: its value, without the password of a URL, and what to give instead."""
        return cls(f"{name} {masked(repr(value))} is not usable; give {allowed}")


class MissingExtraError(RagtraceError):
    """A package is not installed; the message names the `pip install` that mends it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; pip install 'ragtrace[{extra}]'")
        self.package = package
        self.extra = extra


class RecordError(RagtraceError):
    """A record that cannot be written or read."""


class InputError(RagtraceError):
    """Requests that cannot be compared: none, the same ones twice, scores of two makes."""


class RegistryError(RagtraceError):
    """The metric registry holds something that does not fit together."""


class AttributionError(RagtraceError):
    """Players, inputs or values to which nothing can be attributed."""


class ModelError(RagtraceError):
    """A model that cannot be loaded, or does not do what is asked."""


class ServerError(ModelError):
    """A model's server cannot be reached, refuses, or answers what cannot be read. `status`: HTTP's, if any."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ScoringStopped(ModelError):
    """A server or a limit ended the scoring; `scores` is what was done, with NaN in the rows of the other prompts."""

    def __init__(self, message: str, scores: NDArray[np.float64]) -> None:
        super().__init__(message)
        self.scores = scores


class NotJudged(ModelError):
    """A judge could not judge all of what it was asked, so that nothing of it counts, and words judge alone.

    reason: `budget`: nothing more may be spent in this hour; `server`: it does not answer, for a reason that may pass;
    `odd`: it answered something else than it was asked for.
    """

    def __init__(self, reason: Literal["budget", "server", "odd"], message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ProbeError(RagtraceError):
    """A probe of the index fails, or returns what cannot be read; the message begins with the kind of the error."""


class WorkerError(RagtraceError):
    """Workers of the analyzer cannot start, or end again and again."""


class StoreError(RagtraceError):
    """The database or the spool cannot be used."""


class StoreUnavailable(StoreError):
    """The store cannot be opened or reached."""


class CorruptStore(StoreError):
    """The file is no database, or a damaged one."""


class SchemaMismatch(StoreError):
    """The database's schema is older or newer than this ragtrace."""


class NewerForm(StoreError):
    """What waits in a spool was written by a newer ragtrace."""
