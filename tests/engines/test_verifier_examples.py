"""Reading labelled claims, and the parts that their sources fall into."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtrace.engines.verifier_examples import DATASETS, is_held_out, part_of, read_examples
from ragtrace.errors import ConfigurationError
from tests.engines.verifiers import write_ragtruth

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def test_marked_spans_become_labels(tmp_path: Path) -> None:
    """A claim that a marked span touches is contradicted, its neighbors are supported, passages come apart."""
    wrong = [each for each in read_examples(write_ragtruth(tmp_path, [7])) if each.answer == "7/1"]
    assert [(each.claim, each.label) for each in wrong] == [
        ("The policy ends in May.", "entailment"),
        ("The limit is 70 days.", "contradiction"),
    ]
    assert wrong[0].evidence == ("The limit is 30 days.", "The policy ends in May.")


def test_all_examples_of_a_source_fall_into_one_part() -> None:
    """The part follows from the source alone; about one half is held out, an eighth calibrates."""
    parts = [part_of(str(number)) for number in range(4000)]
    assert all((part == "held_out") == is_held_out(str(number)) for number, part in enumerate(parts))
    assert parts.count("held_out") / 4000 == pytest.approx(0.5, abs=0.03)
    assert parts.count("calibrate") / 4000 == pytest.approx(0.125, abs=0.02)


def test_a_folder_without_data(tmp_path: Path) -> None:
    """The error names the folders that are looked for."""
    with pytest.raises(ConfigurationError, match="begin, clapnq, ragtruth, scifact, wice"):
        read_examples(tmp_path)


def test_sets_by_name(tmp_path: Path) -> None:
    """A set that is unknown or not there is an error that says so."""
    write_ragtruth(tmp_path, [7])
    assert read_examples(tmp_path, ["ragtruth-qa"])
    with pytest.raises(ConfigurationError, match="data set 'squad'"):
        read_examples(tmp_path, ["squad"])
    with pytest.raises(ConfigurationError, match="'wice' has no file"):
        read_examples(tmp_path, ["wice"])


def test_a_broken_file(tmp_path: Path) -> None:
    """The set that cannot be read is named."""
    write_ragtruth(tmp_path, [7])
    (tmp_path / "ragtruth" / "qa.jsonl").write_text('{"source_id": 1}\n')
    with pytest.raises(ConfigurationError, match=r"'ragtruth-qa' in .* cannot be read"):
        read_examples(tmp_path)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the published sets are not here")
@pytest.mark.parametrize("name", [each.name for each in DATASETS if each.name != "ragtruth-data2txt"])
def test_the_published_sets(name: str) -> None:
    """Each has supported and unsupported claims in each part, texts everywhere, and no source in two parts."""
    examples = read_examples(SHARED, [name])
    for part in ("train", "calibrate", "held_out"):
        assert {each.supported for each in examples if each.part == part} == {True, False}
    assert all(each.claim.strip() and all(text.strip() for text in each.evidence) for each in examples)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the published sets are not here")
def test_a_claim_of_two_abstracts_stays_on_one_side() -> None:
    """A claim of SciFact that cites abstracts of both sides is not trained on and held out at once."""
    sides: dict[str, set[bool]] = {}
    for each in read_examples(SHARED, ["scifact"]):
        sides.setdefault(each.claim, set()).add(is_held_out(each.source))
    assert max(map(len, sides.values())) == 1
