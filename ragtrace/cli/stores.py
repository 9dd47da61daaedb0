"""Which store a verb works on, and which request in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ragtrace import config
from ragtrace.errors import RecordError, StoreUnavailable
from ragtrace.store import Store, check
from ragtrace.store.address import Address

if TYPE_CHECKING:
    from ragtrace.types import RequestRecord

__all__ = ["existing", "find_record", "shown"]

_MOST_FOUND: Final = 10  # requests that are looked for where the beginning of an id fits several
_SHOWN: Final = 3  # ids that an error names


def existing(store: str | None) -> str:
    """The URL of a store that is there already: `store`, else what the environment names, else the default.

    Raises: StoreUnavailable when it is missing or empty, since only `ragtrace db upgrade` and what records make one.
    """
    url = config.load(store=store).store
    if check(url).current is None:
        raise StoreUnavailable(
            f"store {shown(url)} does not exist or is empty; record into it (ragtrace demo --store {shown(url)}), "
            f"make it (ragtrace db upgrade --store {shown(url)}), or name another (--store URL or RAGTRACE_STORE)"
        )
    Store.open(url).close()  # says at once what is wrong with it
    return url


def shown(url: str) -> str:
    """The URL without its password."""
    return Address.parse(url).shown


def find_record(store: Store, beginning: str) -> RequestRecord:
    """The one record whose request id starts with `beginning`; a shortened id will do.

    Raises: RecordError when there is none, or more than one.
    """
    if record := store.get_record(beginning):
        return record
    found = store.find_request_ids(beginning, _MOST_FOUND)
    if len(found) > 1:
        first = ", ".join(found[:_SHOWN])
        many = f"{_MOST_FOUND} or more" if len(found) == _MOST_FOUND else len(found)
        raise RecordError(f"{many} requests begin with {beginning!r} ({first} ...); give more of the id")
    if found and (record := store.get_record(found[0])):
        return record
    newest = [row.request_id for row in store.find_requests(limit=_SHOWN)]
    remedy = f"give an id of it, such as the newest: {', '.join(newest)}" if newest else "it holds no request"
    raise RecordError(f"no request {beginning!r} in store {store.url}; {remedy}")
