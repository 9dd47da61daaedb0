"""Questions are read from JSON lines, tables and plain lines; each mistake names its line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ragtrace.errors import ConfigurationError
from ragtrace.gate.replay_inputs import Fields, Question, read_questions
from ragtrace.types import Facet, Gold
from tests.gate.replay.conftest import lines


def _read(folder: Path, text: str | bytes, name: str = "questions.jsonl", **fields: str) -> tuple[Question, ...]:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_questions(file, Fields(**fields))


def test_json_lines(tmp_path: Path) -> None:
    """All fields; a number is an id as well; blank lines, further fields and a byte order mark do not matter."""
    text = "\ufeff" + lines(
        {"id": 7, "question": " Is theft covered? ", "segment": "exception", "gold": ["c1", "c1", 2], "session": "s1",
         "document": "d1", "facets": [{"kind": "entity", "value": "theft"}], "else": None},
        {"id": "b", "question": "Is fire covered?"},
    ).replace("\n", "\r\n\r\n")  # fmt: skip
    first, second = _read(tmp_path, text)
    facets = (Facet(kind="entity", value="theft"),)
    assert first == Question("7", "Is theft covered?", "exception", "s1", "d1", ("c1", "2"), facets)
    assert second == Question("b", "Is fire covered?")


def test_tables(tmp_path: Path) -> None:
    """Quoted cells may hold commas and line ends; chunk ids stand between semicolons; empty cells are nothing."""
    text = 'id,question,segment,gold\n1,"Is theft,\nand fire, covered?",exception,c1; c2\n,Is water covered?,,\n'
    first, second = _read(tmp_path, text, "questions.csv")
    assert (first.text, first.gold) == ("Is theft,\nand fire, covered?", ("c1", "c2"))
    assert (second.segment, second.gold, len(second.id)) == (None, (), 12)
    assert _read(tmp_path, text.replace(",", "\t").replace('"', ""), "questions.tsv")[-1].text == "Is water covered?"


def test_a_question_that_no_chunk_answers(tmp_path: Path) -> None:
    """`[]` says so, as it does in gold sets; an empty cell, null, blank ids and no field at all say nothing."""
    none, nothing, blank, absent = _read(
        tmp_path,
        lines(
            {"question": "Is war covered?", "gold": []},
            {"question": "Is theft covered?", "gold": None},
            {"question": "Is hail covered?", "gold": [" "]},
            {"question": "Is fire covered?"},
        ),
    )
    assert none.as_gold("s").is_unanswerable
    assert not any(one.is_unanswerable or one.says_what_is_needed for one in (nothing, blank, absent))
    cell, empty = _read(tmp_path, "question,gold\nIs war covered?,[]\nIs theft covered?, \n", "questions.csv")
    assert (cell.is_unanswerable, cell.gold, empty.says_what_is_needed) == (True, (), False)
    with pytest.raises(ConfigurationError, match="have different gold"):
        _read(tmp_path, lines({"id": "a", "question": "q", "gold": []}, {"id": "b", "question": "q"}))


def test_plain_lines(tmp_path: Path) -> None:
    """Each line is a question, whose id follows from its words."""
    first, second = _read(tmp_path, "Is theft covered?\n\n  Is fire covered?\n", "questions.txt")
    assert second.text == "Is fire covered?"
    assert first.id == _read(tmp_path, "is THEFT  covered?", "other.txt")[0].id != second.id


def test_other_names_of_fields(tmp_path: Path) -> None:
    """As the options say."""
    row = {"key": "a", "q": "Is theft covered?", "class": "exception", "chunks": ["c1"], "user": "u"}
    names = {"id": "key", "question": "q", "segment": "class", "gold": "chunks", "session": "user"}
    assert _read(tmp_path, lines(row), **names) == (
        Question("a", "Is theft covered?", "exception", "u", None, ("c1",)),
    )


def test_one_text_may_stand_in_two_segments(tmp_path: Path) -> None:
    """Under two ids, with the same gold."""
    rows = [{"id": name, "question": "Is theft covered?", "gold": ["c1"]} for name in "ab"]
    assert len(_read(tmp_path, lines(*rows))) == 2


BROKEN = {
    "no JSON": ('{"question": "a"}\n{"question": \n', "line 2 is no JSON"),
    "no object": ('["a"]\n', "line 1 is no JSON object"),
    "no question": ('{"id": "a", "text": "b"}\n', r"1 has no field 'question'; it has id, text; .*--question-field"),
    "an empty question": ('{"question": "a"}\n\n{"question": "  "}\n', "line 3 has an empty question"),
    "a question that is none": ('{"question": 3}\n', "line 1 has an empty question"),
    "a doubled id": (lines({"id": "x", "question": "a"}, {"id": "x", "question": "b"}), "line 2 has the id 'x' of"),
    "a doubled question": (lines({"question": "a"}, {"question": "A "}), "line 2 has the id '.*' of line 1"),
    "an id that is none": ('{"id": ["a"], "question": "a"}\n', "line 1: its id is neither text nor"),
    "a long id": (lines({"id": "x" * 201, "question": "a"}), "line 1: its id cannot be used"),
    "an unprintable id": ('{"id": "a\\u0000", "question": "a"}\n', "line 1: its id cannot be used"),
    "gold that is none": ('{"question": "a", "gold": {"c": 1}}\n', "line 1 has gold that is no list of chunk ids"),
    "a broken facet": ('{"question": "a", "facets": [{"kind": "x", "value": "b"}]}\n', "line 1 has facets that cannot"),
    "two golds": (
        lines({"id": "a", "question": "q", "gold": ["c1"]}, {"id": "b", "question": "q", "gold": ["c2"]}),
        "'a' and 'b' ask the same and have different gold",
    ),
    "nothing": ("\n\n", "holds no question"),
    "no UTF-8": (b'{"question": "a"}\n{"question": "\xff"}\n', "line 2 is not UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said"), BROKEN.values(), ids=list(BROKEN))
def test_mistakes_are_named_with_their_line(tmp_path: Path, text: str | bytes, said: str) -> None:
    """In one sentence."""
    with pytest.raises(ConfigurationError, match=said):
        _read(tmp_path, text)


def test_tables_with_mistakes(tmp_path: Path) -> None:
    """A row that is longer than the header, a quote that does not end, no header's field."""
    for text, said in (
        ("question\na,b\n", "line 2 has 2 cells, its header 1"),
        ('question\n"a\n', "line 2 is no row of a table"),
        ("text\na\n", "has no field 'question'"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            _read(tmp_path, text, "questions.csv")


def test_a_named_field_must_be_there(tmp_path: Path) -> None:
    """A wrong name would leave every question without a segment."""
    with pytest.raises(ConfigurationError, match="has no field 'klass' for the segment; it has question, class"):
        _read(tmp_path, lines({"question": "a", "class": "b"}), segment="klass")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Missing, a folder, or of another kind."""
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        read_questions(tmp_path / "missing.jsonl")
    with pytest.raises(ConfigurationError, match=r"questions '.*\.parquet' is not usable; give \.jsonl"):
        read_questions(tmp_path / "questions.parquet")
    folder = tmp_path / "folder.txt"
    folder.mkdir()
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        read_questions(folder)


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_ROW = st.fixed_dictionaries(
    {"question": _JSON | st.text(min_size=1)},
    optional=dict.fromkeys(("id", "segment", "gold", "session", "document", "facets"), _JSON),
)
_FILES = st.one_of(
    st.tuples(st.sampled_from(["a.jsonl", "a.csv", "a.tsv", "a.txt"]), st.binary(max_size=200)),
    st.tuples(st.just("a.jsonl"), st.lists(_ROW, max_size=4).map(lambda rows: lines(*rows).encode())),
    st.tuples(st.just("a.csv"), st.text(max_size=80).map(lambda text: b"question,id,gold\n" + text.encode("utf-8"))),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_FILES)
def test_any_file_is_read_or_refused(tmp_path: Path, file: tuple[str, bytes]) -> None:
    """Whatever it holds; what is read has ids that are unique, and texts that can be stored."""
    name, content = file
    try:
        found = _read(tmp_path, content, name)
    except ConfigurationError:
        return
    assert len({question.id for question in found}) == len(found) > 0
    for question in found:
        assert question.text.strip()
        encode_gold = msgspec.json.encode(question.as_gold("assistant"))
        assert msgspec.json.decode(encode_gold, type=Gold) == question.as_gold("assistant")


def test_deep_and_unreal_lines_are_refused(tmp_path: Path) -> None:
    """A line that nests too deeply, and one with half of a character."""
    for line in ("[" * 100_000, '{"question": "a", "gold": ["\\ud800"]}'):
        with pytest.raises(ConfigurationError, match="line 1 is no JSON"):
            _read(tmp_path, line)
