"""What a tenant's token lets its spans say: which services they name, and how their requests were sampled.

A service belongs to a tenant. What tenant `acme` calls `shop` is stored as `acme/shop`, as its requests' ids begin with
`acme:`, so that all that is kept by service is the tenant's alone. A name that the tokens file lists for the tenant is
stored plainly. Names of tenants hold no slash, so that no tenant's names begin as those of another one do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ragtrace.store.database import clean
from ragtrace.types import RequestRecord, content_hash, replace

__all__ = ["LONGEST", "NO_RIGHTS", "Claim", "Rights", "believed", "own_service", "owned"]

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
