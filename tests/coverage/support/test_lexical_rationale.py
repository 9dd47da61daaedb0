"""The sentence of a chunk by which a claim is supported or contradicted."""

from __future__ import annotations

import pytest

from ragtrace.coverage import judge_claims, rationales
from ragtrace.types import Candidate, PackedChunk, replace

LEASE = (
    "Lease of 14 Quay Street: heating and keys\n"
    "The boiler is serviced once a year by the landlord. The tenant bleeds the radiators every autumn. "
    "Lost keys must be reported within two weeks; a new lock costs 180 euros. No pets may be kept in the flat."
)
RULES = "House rules\nBicycles stand in the cellar. The laundry room closes at 9 p.m. Dogs may use the courtyard."
PACKED = (
    PackedChunk(chunk_id="lease", position=1, text=LEASE),
    PackedChunk(chunk_id="rules", position=2, text=RULES),
)


def quoted(answer: str, packed: tuple[PackedChunk, ...] = PACKED, others: tuple[Candidate, ...] = ()) -> list[str]:
    """Stance, chunk and sentence for each claim of an answer."""
    claims, _ = judge_claims(answer, packed, others)
    found = rationales(claims, packed, others)
    return [f"{each.stance} {each.chunk_id}: {each.text}" if each else "none" for each in found]


@pytest.mark.parametrize(
    ("answer", "quote"),
    [
        (
            "The landlord has the boiler serviced every year.",
            "supports lease: The boiler is serviced once a year by the landlord.",
        ),
        (
            "Report lost keys within 14 days.",
            "supports lease: Lost keys must be reported within two weeks; a new lock costs 180 euros.",
        ),
        ("At 9 p.m. the laundry room closes.", "supports rules: The laundry room closes at 9 p.m."),
        (
            "Lost keys must be reported within 5 weeks.",
            "contradicts lease: Lost keys must be reported within two weeks; a new lock costs 180 euros.",
        ),
        ("Pets may be kept in the flat.", "contradicts lease: No pets may be kept in the flat."),
    ],
)
def test_the_sentence_is_the_one_that_decides(answer: str, quote: str) -> None:
    """Among the sentences of the chunk that supports or contradicts, also where a value is put in other words."""
    assert quoted(answer) == [quote]


def test_a_claim_that_joins_two_sentences_has_both() -> None:
    """In the order of the chunk, with dots for what stands between them."""
    (found,) = quoted("The landlord services the boiler each year and a new lock costs 180 euros.")
    assert found == (
        "supports lease: The boiler is serviced once a year by the landlord. … "
        "Lost keys must be reported within two weeks; a new lock costs 180 euros."
    )


def test_a_heading_is_quoted_only_where_it_says_part_of_the_claim() -> None:
    """Behind the sentence that decides, never in its place; it is no part of the sentence below it."""
    plain, named = quoted("The tenant bleeds the radiators. At 14 Quay Street lost keys are reported in two weeks.")
    assert plain == "supports lease: The tenant bleeds the radiators every autumn."
    assert named == (
        "supports lease: Lease of 14 Quay Street: heating and keys … "
        "Lost keys must be reported within two weeks; a new lock costs 180 euros."
    )


def test_offsets_slice_the_chunk() -> None:
    """Each sentence says where in the chunk's text it stands."""
    claims, _ = judge_claims("A new lock costs 180 euros. Bicycles stand in the cellar.", PACKED)
    for found, text in zip(rationales(claims, PACKED), (LEASE, RULES), strict=True):
        assert found is not None
        assert [text[each.start : each.end] for each in found.sentences] == [each.text for each in found.sentences]


def test_what_is_not_supported_has_the_nearest_sentence_or_none() -> None:
    """Nearest: of the chunk that says most of it, without being taken for support. None where no chunk says anything
    of it, or where the sentence states nothing."""
    near, far, question = quoted(
        "The tenant bleeds the radiators of every neighbour on Sundays and wears gloves. "
        "Helicopters land on the roof garden. Anything else?"
    )
    assert near == "nearest lease: The tenant bleeds the radiators every autumn."
    assert (far, question) == ("none", "none")


def test_support_outside_of_the_prompt_is_quoted_from_there() -> None:
    """From the candidate that was not packed."""
    spare = Candidate(
        chunk_id="spare", rank=3, text="Parking\nA parking space costs 40 euros a month. Ask the caretaker."
    )
    (found,) = quoted("A parking space costs 40 euros a month.", others=(spare,))
    assert found == "supports spare: A parking space costs 40 euros a month."


def test_without_the_text_there_is_no_sentence() -> None:
    """Where only the hash of a chunk is kept."""
    claims, _ = judge_claims("Bicycles stand in the cellar.", PACKED)
    bare = tuple(replace(chunk, text=None) for chunk in PACKED)
    assert rationales(claims, bare) == (None,)


def test_a_sentence_without_an_end_is_quoted_in_part() -> None:
    """Text out of a table or a scan may lack full stops: a few hundred characters around what the claim says."""
    filler = " ".join(f"row {number} plain carpet" for number in range(200))
    scan = f"{filler} the awning on the balcony is cleaned with mild soap only {filler}"
    packed = (PackedChunk(chunk_id="scan", position=1, text=scan),)
    claims, _ = judge_claims("The awning on the balcony is cleaned with mild soap only.", packed)
    (found,) = rationales(claims, packed)
    assert found is not None
    assert "awning" in found.text
    assert "mild soap" in found.text
    assert len(found.text) <= 450


def test_a_heading_that_contradicts_is_quoted_itself() -> None:
    """The year of an edition stands in its heading alone; the sentence below it contradicts nothing."""
    edition = PackedChunk(
        chunk_id="edition",
        position=1,
        text="Northgate Travel, United Kingdom, edition 3.4 (2021): Baggage\nSuitcases and their contents are insured "
        "against theft and damage by a carrier. Baggage cover is limited to GBP 1,600 for each insured person.",
    )
    said = "In edition 3.4 (2019), baggage cover is limited to GBP 1,600 for each insured person [1]."
    assert quoted(said, (edition,)) == [
        "contradicts edition: Northgate Travel, United Kingdom, edition 3.4 (2021): Baggage"
    ]
