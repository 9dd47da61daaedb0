"""What a tenant's spans may say: its services are its own, and its word on sampling counts as far as its token says."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ragtrace import config
from ragtrace.receive._assembly import Assembler
from ragtrace.receive._tenants import LONGEST, NO_RIGHTS, Rights, believed, own_service, owned
from ragtrace.store import Store
from ragtrace.types import Feedback, RequestRecord
from tests.receive.test_assembly import request
from tests.receive.test_assembly_assembler import part

TENANTS = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,5}\Z")
SERVICES = st.text(st.sampled_from("ab/. ~é"), min_size=1, max_size=4) | st.text("a", max_size=2 * LONGEST)


@given(TENANTS, SERVICES, TENANTS, SERVICES)
def test_no_two_share_a_name(tenant: str, service: str, other: str, of_other: str) -> None:
    """Two names of services are stored as one where they are one name of one tenant, and only there."""
    is_one = own_service(tenant, service) == own_service(other, of_other)
    assert is_one == ((tenant, service) == (other, of_other))


@pytest.mark.parametrize(
    ("service", "stored"),
    [
        ("shop", "shop"),
        ("help", "acme/help"),
        ("acme/help", "acme/acme/help"),
        ("beta/help", "acme/beta/help"),
        ("Shop", "acme/Shop"),
        ("shop ", "acme/shop "),
        ("unknown_service", "acme/unknown_service"),
        ("/", "acme//"),
        ("sh\x00op", "acme/sh\ufffdop"),
    ],
)
def test_listed_names_are_stored_plainly(service: str, stored: str) -> None:
    """As they stand in the file, to the letter; all others in the tenant's namespace."""
    assert own_service("acme", service, Rights(frozenset({"shop"}))) == stored


def test_long_names() -> None:
    """They are cut, within the namespace, and stay apart."""
    stored = {own_service("acme", "s" * count) for count in (LONGEST, LONGEST + 1, LONGEST + 2, 5_000)}
    assert len(stored) == 4
    assert all(each.startswith("acme/sss") and len(each) <= LONGEST + len("acme/") for each in stored)


def test_a_record_is_its_tenants() -> None:
    """Its id, its service and its judgments; without a tenant it is as it was."""
    record = RequestRecord(
        request_id="r", service="shop", tenant_id="beta", feedback=(Feedback(request_id="r", score=1.0),)
    )
    own = owned(record, "acme", NO_RIGHTS)
    assert (own.request_id, own.service, own.tenant_id) == ("acme:r", "acme/shop", "acme")
    assert [each.request_id for each in own.feedback] == ["acme:r"]
    assert owned(record, "", Rights(frozenset({"other"}))) is record


@pytest.mark.parametrize(
    ("least", "claimed", "counted", "claim"),
    [
        (None, {"head_probability": 1e-6}, (True, 1.0, ()), "ignored"),
        (None, {"head_sampled": False, "flags": ("vip",)}, (True, 1.0, ()), "ignored"),
        (None, {}, (True, 1.0, ()), None),
        (0.05, {"head_probability": 1e-6}, (True, 0.05, ()), "bounded"),
        (0.05, {"head_probability": 0.05, "flags": ("vip",)}, (True, 0.05, ("vip",)), "believed"),
        (0.05, {"head_sampled": False, "head_probability": 0.5, "flags": ("vip",)}, (False, 0.5, ("vip",)), "believed"),
        (0.05, {"head_probability": math.nextafter(0.05, 0)}, (True, 0.05, ()), "bounded"),
        (1.0, {"head_probability": 0.5}, (True, 1.0, ()), "bounded"),
        (0.05, {}, (True, 1.0, ()), None),
    ],
)
def test_a_word_on_sampling(least: float | None, claimed: dict[str, Any], counted: Any, claim: str | None) -> None:
    """Not believed, the request counts once; believed, never for more than the token allows."""
    record = RequestRecord(request_id="r", service="shop", **claimed)
    found, what = believed(record, "acme", Rights(least_probability=least))
    assert ((found.head_sampled, found.head_probability, found.flags), what) == (counted, claim)
    assert believed(record, "", NO_RIGHTS) == (record, None)


def test_spans_of_a_tenant(store: Store) -> None:
    """Where a trace is assembled: by the rights of its tenant, and what its root claims is counted."""
    rights = {"acme": Rights(frozenset({"assistant"}), 0.25)}
    claims = list[str]()
    assembler = Assembler(
        store,
        config.load(),
        rights=lambda tenant: rights.get(tenant, NO_RIGHTS),
        counted=lambda fate, count: claims.append(fate),
    )
    store.add_spans([part(request(), tenant) for tenant in ("acme", "beta", "")], now=100)
    assembler.step(now=200)

    assert sorted((row.request_id.split(":")[0], row.service) for row in store.find_requests()) == [
        ("0af7651916cd43dd8448eb211c80319c", "assistant"),
        ("acme", "assistant"),
        ("beta", "beta/assistant"),
    ]
    assert claims == ["assembled"]
