"""Labelled claims of published sets, read as their authors ship them, the part of the data of each source, and the
pairs that a verifier is trained on.

A training pair is a function of the seed and its number, so that a resumed run goes on where it was. Some are labelled
by people. Some are made: a supported claim, or a sentence of the evidence, with a number, a name, a word or the sense
turned, and where.
"""

from __future__ import annotations

import ast
import csv
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from ragtrace.coverage import split_claims
from ragtrace.coverage.answer import score_answer
from ragtrace.coverage.citations import without_citations
from ragtrace.coverage.text import sentences
from ragtrace.coverage.verifier import containment, gather, terms
from ragtrace.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.random import Generator

__all__ = [
    "DATASETS",
    "ENTAILED",
    "Example",
    "Label",
    "LabelledClaim",
    "PairDraw",
    "Part",
    "TrainingPair",
    "contradicted",
    "is_held_out",
    "made",
    "names_of",
    "numbers_of",
    "part_of",
    "read_examples",
]

Label: TypeAlias = Literal["entailment", "neutral", "contradiction", "unsupported"]
"""`unsupported`: neutral or contradiction, the data do not say which."""
Part: TypeAlias = Literal["train", "calibrate", "held_out"]
ENTAILED: Final = "entailment"
_CALIBRATE: Final = 4  # one in so many development sources


@dataclass(frozen=True, slots=True)
class Example:
    """A claim, the texts that it should rest on, and whether it does.

    Attributes:
        source: what the texts come from; all examples of a source fall into the same part.
        answer: the answer that it is a part of, where the data have answers.
        lexical: the support by words alone, where the claim is part of an answer.
        certain: False where people marked it as unsupported but true by general knowledge.
        wrong: start and end of what people marked in the claim; None where they did not mark.
    """

    dataset: str
    source: str
    claim: str
    evidence: tuple[str, ...]
    label: Label
    answer: str | None = None
    lexical: float | None = None
    certain: bool = True
    wrong: tuple[tuple[int, int], ...] | None = None

    @property
    def supported(self) -> bool:
        """Whether the evidence entails the claim."""
        return self.label == ENTAILED

    @property
    def part(self) -> Part:
        """Where its source falls."""
        return part_of(self.source)


def is_held_out(source: str) -> bool:
    """Whether nothing may be fitted or chosen on `source`: one half of all sources, by a hash of the name."""
    return _draw(source) % 2 == 1


def part_of(source: str) -> Part:
    """Held out, or for training, or for the calibration (a quarter of what is not held out)."""
    if is_held_out(source):
        return "held_out"
    return "calibrate" if _draw(source) // 2 % _CALIBRATE == 0 else "train"


def _draw(source: str) -> int:
    return int.from_bytes(hashlib.blake2b(source.encode(), digest_size=8).digest(), "big")


_PASSAGE: Final = re.compile(r"\s*passage \d+:")
_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_SPACE_BEFORE: Final = re.compile(r"\s+([.,;:!?%)]|'s\b|n't\b)")


class _Dataset(NamedTuple):
    """One set: its folder, the reader of a folder, and what whoever ships a trained model has to state."""

    name: str
    folder: str
    read: Callable[[Path], Iterator[Example]]
    license: str
    origin: str


def read_examples(folder: str | Path, names: Sequence[str] | None = None) -> list[Example]:
    """The examples of all sets that `folder` holds, or of those named; in the order of `DATASETS`.

    Raises: ConfigurationError where there is none, a named one is unknown or missing, or a file cannot be read.
    """
    root = Path(folder).expanduser()
    unknown = set(names or ()) - {each.name for each in DATASETS}
    if unknown:
        raise ConfigurationError.of("data set", ", ".join(sorted(unknown)), ", ".join(each.name for each in DATASETS))
    chosen = [each for each in DATASETS if each.name in names] if names else list(DATASETS)
    found: list[Example] = []
    for each in chosen:
        try:
            found += each.read(root / each.folder)
        except FileNotFoundError as error:
            if names:
                raise ConfigurationError(f"data set {each.name!r} has no file {error.filename!r}") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(f"data set {each.name!r} in {str(root)!r} cannot be read: {error!r}") from error
    if not found:
        folders = ", ".join(sorted({each.folder for each in DATASETS}))
        raise ConfigurationError.of("data folder", str(root), f"one that holds some of the folders {folders}")
    return found


def _ragtruth(file: str) -> Callable[[Path], Iterator[Example]]:
    name = f"ragtruth-{file.removesuffix('.jsonl')}"

    def read(folder: Path) -> Iterator[Example]:
        for row in _json_lines(folder / file):
            source = row["source"]
            question = source.get("question") if isinstance(source, dict) else None
            for number, response in enumerate(row["responses"]):
                yield from _answer(name, str(row["source_id"]), number, _passages(source), question, response)

    return read


def _answer(
    name: str, source: str, number: int, evidence: tuple[str, ...], question: str | None, response: Any
) -> Iterator[Example]:
    """The factual claims of one answer; a claim is unsupported when a marked span touches it."""
    for claim in score_answer(response["response"], evidence, query=question):
        marks = [mark for mark in response["labels"] if mark["start"] < claim.end and mark["end"] > claim.start]
        if claim.factual:
            yield Example(
                name,
                source,
                claim.text,
                evidence,
                _marked(marks),
                answer=f"{source}/{number}",
                lexical=claim.support,
                certain=not marks or not all(mark["implicit_true"] for mark in marks),
                wrong=tuple(_inside(mark, claim.start, claim.end) for mark in marks),
            )


def _inside(mark: Any, start: int, end: int) -> tuple[int, int]:
    """Where the mark stands in the claim."""
    return max(mark["start"], start) - start, min(mark["end"], end) - start


def _marked(marks: Sequence[Any]) -> Label:
    if not marks:
        return "entailment"
    return "contradiction" if any("Conflict" in mark["label_type"] for mark in marks) else "neutral"


def _passages(source: Any) -> tuple[str, ...]:
    if isinstance(source, str):
        return (source.strip(),)
    if "passages" in source:
        return tuple(text.strip() for text in _PASSAGE.split(source["passages"]) if text.strip())
    return ("\n".join(_lines(source)),)


def _lines(data: Any, path: str = "") -> Iterator[str]:
    """Structured data as lines such as `hours Monday: 9:0-17:0.`"""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _lines(value, f"{path} {re.sub(r'(?<=[a-z])(?=[A-Z])|_', ' ', str(key))}".strip())
    elif isinstance(data, list):
        for value in data:
            yield from _lines(value, path)
    else:
        said = (
            {True: "yes", False: "no", None: "unknown"}.get(data, data)
            if not isinstance(data, int | float) or (isinstance(data, bool))
            else data
        )
        yield f"- {path}: {said}"


def _wice(folder: Path) -> Iterator[Example]:
    seen: set[tuple[str, str]] = set()
    for file in ("entailment/dev.jsonl", "tokens/dev.jsonl", "tokens/train.jsonl"):
        for row in _json_lines(folder / file):
            source = _digest(" ".join(row["evidence"]))
            if (source, row["claim"]) not in seen:
                seen.add((source, row["claim"]))
                label: Label = "entailment" if row["label"] == "supported" else "unsupported"
                yield Example("wice", source, row["claim"], ("\n\n".join(row["evidence"]),), label)


def _begin(folder: Path) -> Iterator[Example]:
    labels: dict[str, Label] = {"Fully attributable": "entailment", "Not fully attributable": "unsupported"}
    for file in ("begin_dev_wow.tsv", "begin_test_wow.tsv"):
        with (folder / file).open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines, delimiter="\t"):
                if row["begin_label"] in labels and row["knowledge"] and row["response"]:
                    source = _digest(re.sub(r"\W+", "", row["knowledge"].casefold()))
                    claim, evidence = _tidy(row["response"]), _tidy(row["knowledge"])
                    yield Example("begin", source, claim, (evidence,), labels[row["begin_label"]])


def _scifact(folder: Path) -> Iterator[Example]:
    """A claim beside each abstract that it cites; where two abstracts fall into different parts, beside the first."""
    with (folder / "corpus_train.csv").open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines)
        abstracts = {row["doc_id"]: f"{row['title']}\n\n{_joined(row['abstract'])}" for row in rows}
    labels: dict[str, Label] = {"SUPPORT": "entailment", "CONTRADICT": "contradiction", "": "neutral"}
    seen: set[tuple[str, str]] = set()
    for file in ("claims_train.csv", "claims_validation.csv"):
        with (folder / file).open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                cited = re.findall(r"\d+", row["cited_doc_ids"])
                doc = row["evidence_doc_id"] or (cited[0] if cited else "")
                same = bool(cited) and is_held_out(doc) == is_held_out(cited[0])
                if same and doc in abstracts and (row["id"], doc) not in seen:
                    seen.add((row["id"], doc))
                    yield Example("scifact", doc, row["claim"], (abstracts[doc],), labels[row["evidence_label"]])


def _clapnq(folder: Path) -> Iterator[Example]:
    """An answer's claims beside the passage; and beside what is left of it without the sentences that they rest on."""
    for row in _json_lines(folder / "clapnq_dev_answerable.jsonl"):
        passage = row["passages"][0]["sentences"]
        title = row["passages"][0]["title"]
        chosen = set(row["output"][0]["selected_sentences"])
        rest = [sentence for sentence in passage if sentence not in chosen]
        for claim in split_claims(_tidy(row["output"][0]["answer"])):
            if claim.factual:
                whole = f"{title}\n\n{_tidy(' '.join(passage))}"
                yield Example("clapnq", row["id"], claim.text, (whole,), "entailment")
                if rest and len(rest) < len(passage):
                    without = f"{title}\n\n{_tidy(' '.join(rest))}"
                    yield Example("clapnq", row["id"], claim.text, (without,), "neutral")


def _json_lines(path: Path) -> Iterator[Any]:
    with path.open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def _joined(printed: str) -> str:
    """The sentences of an array as numpy prints it."""
    return " ".join(str(ast.literal_eval(part)) for part in _QUOTED.findall(printed))


def _tidy(tokenized: str) -> str:
    """Text without the spaces that a tokenizer put before punctuation."""
    return _SPACE_BEFORE.sub(r"\1", tokenized).strip()


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


DATASETS: Final = (
    _Dataset("ragtruth-qa", "ragtruth", _ragtruth("qa.jsonl"), "MIT", "RAGTruth, ParticleMedia"),
    _Dataset("ragtruth-summary", "ragtruth", _ragtruth("summary.jsonl"), "MIT", "RAGTruth, ParticleMedia"),
    _Dataset("ragtruth-data2txt", "ragtruth", _ragtruth("data2txt.jsonl"), "MIT", "RAGTruth, ParticleMedia"),
    _Dataset("wice", "wice", _wice, "ODC-BY; texts CC BY-SA", "WiCE, Kamoi et al. 2023"),
    _Dataset("begin", "begin", _begin, "CC BY 4.0", "BEGIN, Google"),
    _Dataset("scifact", "scifact", _scifact, "CC BY 4.0; abstracts ODC-BY", "SciFact, AllenAI"),
    _Dataset("clapnq", "clapnq", _clapnq, "Apache-2.0", "CLAP-NQ, PrimeQA"),
)
"""What `read_examples` reads. A model that is trained on them has to be shipped with these licenses and origins."""


_Spans = tuple[tuple[int, int], ...]
_WEIGHTS: Final = {"ragtruth-qa": 2.0, "ragtruth-summary": 1.5, "ragtruth-data2txt": 2.0, "begin": 1.5, "wice": 0.5}
"""How often a set is drawn from, beside 1: by its number of claims, and by how like those verified later they are."""
_LEAST: Final = 0.6  # of the words of evidence: no two readings of a claim are alike
_GROUP: Final = 8  # batches whose pairs are sorted together
_ORDER: Final = 1  # tells the order of batches from the pairs
_SHARES: Final = {"as it is": 0.25, "contradicted": 0.3, "without": 0.2, "spliced": 0.2, "elsewhere": 0.05}
_SHORTEST, _LONGEST = 6, 45  # words of a sentence that is made a claim
_HOLDS: Final = 0.35  # a sentence with this share of the claim's terms may be what it rests on
_STILL: Final = 0.7  # evidence that holds this share without those sentences may still support it
_NUMBER: Final = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)*(?![\w])")
_NAME: Final = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+(?: [A-Z][a-z]+)*")
_VERB: Final = re.compile(
    r"\b(is|are|was|were|can|will|should|must|has|have|had|does|do|did|could|would|may)\b(?! not\b)"
)
_NOT: Final = re.compile(r"\b(is|are|was|were|can|will|should|must|has|have|had|does|do|did|could|would|may) not\b")
_PAIRS: Final = [
    pair.split("/")
    for pair in (
        "increase/decrease increases/decreases increased/decreased increasing/decreasing higher/lower highest/lowest "
        "more/less most/least before/after minimum/maximum first/last always/never with/without above/below left/right "
        "hot/cold warm/cool north/south east/west largest/smallest larger/smaller longer/shorter earlier/later "
        "early/late open/closed male/female inside/outside public/private positive/negative better/worse best/worst "
        "many/few older/younger old/new high/low long/short large/small big/little up/down top/bottom front/back "
        "allowed/forbidden required/optional include/exclude includes/excludes included/excluded same/different "
        "common/rare dry/wet permanent/temporary easy/difficult safe/dangerous slow/fast slowly/quickly daily/weekly "
        "monthly/yearly both/neither"
    ).split()
]
_OPPOSITES: Final = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_OPPOSED: Final = re.compile(rf"\b({'|'.join(_OPPOSITES)})\b")


class TrainingPair(NamedTuple):
    """What the model reads, what it should say, and which parts of the claim have no support (None: not known)."""

    claim: str
    evidence: str
    label: Label
    wrong: _Spans | None


class PairDraw:
    """Draws pairs from `examples`: sets by weight, supported and unsupported alike often in each.

    Args:
        made: the share of pairs that are made from others.
        words: about how long the evidence is at most; its sentences that are nearest to the claim are taken.
    """

    def __init__(self, examples: Sequence[Example], *, seed: int, made: float, words: int) -> None:
        self._pools: dict[str, dict[bool, list[Example]]] = defaultdict(lambda: defaultdict(list))
        for each in examples:
            self._pools[each.dataset][each.supported].append(each)
        if not any(len(pool) == 2 for pool in self._pools.values()):
            raise ConfigurationError("nothing to learn from: give both supported and unsupported claims")
        self._examples = list(examples)
        self._datasets = sorted(self._pools)
        weights = [_WEIGHTS.get(each, 1.0) for each in self._datasets]
        self._shares = [weight / sum(weights) for weight in weights]
        self._seed, self._made_share, self._words = seed, made, words
        self._group: tuple[int, list[TrainingPair]] = (-1, [])

    def batch(self, step: int, size: int, total: int) -> list[TrainingPair]:
        """The pairs of a step, when each step reads `size` and all together read `total`.

        Of so many steps the pairs are sorted by length, which spares padding, and their batches come in random order.
        """
        import numpy as np

        group, place = divmod(step, _GROUP)
        first, last = group * _GROUP * size, min((group + 1) * _GROUP * size, total)
        if self._group[0] != group:
            drawn = [self.pair(number) for number in range(first, last)]
            self._group = group, sorted(drawn, key=lambda pair: len(pair.claim) + len(pair.evidence))
        batches = -(-(last - first) // size)
        chosen = int(np.random.default_rng((self._seed, group, _ORDER)).permutation(batches)[place])
        return self._group[1][chosen * size : (chosen + 1) * size]

    def pair(self, number: int) -> TrainingPair:
        """The pair of this number."""
        import numpy as np

        draw = np.random.default_rng((self._seed, number))
        found = self._made(draw) if draw.random() < self._made_share else None
        claim, evidence, label, wrong = found or self._labelled(draw)
        limit = int(draw.integers(int(_LEAST * self._words), self._words, endpoint=True))
        return TrainingPair(claim, gather(claim, evidence, limit=limit), label, wrong)

    def _labelled(self, draw: Generator) -> LabelledClaim:
        pool = self._pools[self._datasets[int(draw.choice(len(self._datasets), p=self._shares))]]
        side = pool[bool(draw.integers(2))] or pool[True] or pool[False]
        chosen = side[int(draw.integers(len(side)))]
        wrong = () if chosen.label == ENTAILED else chosen.wrong
        return LabelledClaim(without_citations(chosen.claim).rstrip(), chosen.evidence, chosen.label, wrong)

    def _made(self, draw: Generator) -> LabelledClaim | None:
        one, other = (self._examples[int(draw.integers(len(self._examples)))] for _ in range(2))
        return made(one, other, draw)


class LabelledClaim(NamedTuple):
    """A claim, its texts, what they say of it, and which parts of it have no support (None: not known)."""

    claim: str
    evidence: Sequence[str]
    label: Label
    wrong: _Spans | None


def made(example: Example, other: Example, draw: Generator) -> LabelledClaim | None:
    """One from `example`, with what has to come from elsewhere taken from `other`; None where the way drawn fails."""
    claim = _base(example, draw)
    if claim is None:
        return None
    way = str(draw.choice(list(_SHARES), p=list(_SHARES.values())))
    if way == "as it is":
        return LabelledClaim(claim, example.evidence, "entailment", ())
    if way == "contradicted":
        text = " ".join(example.evidence)
        changed = contradicted(claim, names_of(text), numbers_of(text), draw)
        if changed is None:
            return None
        return LabelledClaim(changed.text, example.evidence, "contradiction", ((changed.start, changed.end),))
    if way == "without":
        return _without(claim, example.evidence)
    if other.source == example.source:
        return None
    if way == "elsewhere":
        return LabelledClaim(claim, other.evidence, "neutral", None)
    return _spliced(claim, example, other, draw)


def _base(example: Example, draw: Generator) -> str | None:
    """The claim itself, if it is supported; as often, or else, a sentence of the evidence."""
    own = without_citations(example.claim).strip()
    if example.supported and draw.integers(2) and _SHORTEST <= len(own.split()) <= _LONGEST:
        return own
    return _sentence(example, draw)


def _sentence(example: Example, draw: Generator) -> str | None:
    found = [each.text for text in example.evidence for each in sentences(text)]
    found = [each for each in found if _SHORTEST <= len(each.split()) <= _LONGEST]
    return found[int(draw.integers(len(found)))] if found else None


def _without(claim: str, evidence: Sequence[str]) -> LabelledClaim | None:
    """Beside what is left without the sentences that may have told it."""
    said = terms(claim)
    left = [
        " ".join(each.text for each in sentences(text) if len(terms(each.text) & said) < _HOLDS * len(said))
        for text in evidence
    ]
    left = [text for text in left if text]
    if not said or not left or containment(claim, " ".join(left)) >= _STILL:
        return None
    return LabelledClaim(claim, left, "neutral", None)


def _spliced(claim: str, example: Example, other: Example, draw: Generator) -> LabelledClaim | None:
    """With half of a sentence from elsewhere behind it."""
    tail = _sentence(other, draw)
    if tail is None:
        return None
    said = tail.split()
    end = " ".join(said[: max(_SHORTEST, len(said) // 2)] if draw.integers(2) else said[len(said) // 2 :])
    start = claim.rstrip(" .;:,")
    whole = f"{start}, and {end}"
    return LabelledClaim(whole, example.evidence, "neutral", ((len(start), len(whole)),))


class _Changed(NamedTuple):
    """A sentence with one thing turned: `text[start:end]`."""

    text: str
    start: int
    end: int


def contradicted(sentence: str, names: Sequence[str], numbers: Sequence[str], draw: Generator) -> _Changed | None:
    """`sentence` with one number, name or word exchanged, or negated; None where it has none of these.

    names, numbers: of the same text, to exchange by; `sentence`'s own are not taken.
    """
    ways = (
        lambda: _other_number(sentence, numbers, draw),
        lambda: _other_name(sentence, names, draw),
        lambda: _opposite(sentence, draw),
        lambda: _negated(sentence, draw),
    )
    for place in draw.permutation(len(ways)):
        changed = ways[place]()
        if changed is not None and changed.text != sentence:
            return changed
    return None


def names_of(text: str) -> list[str]:
    """Names inside of sentences, in their order, each once."""
    return list(dict.fromkeys(_NAME.findall(text)))


def numbers_of(text: str) -> list[str]:
    """Numbers as written, in their order, each once."""
    return list(dict.fromkeys(_NUMBER.findall(text)))


def _put(sentence: str, start: int, end: int, new: str) -> _Changed:
    return _Changed(sentence[:start] + new + sentence[end:], start, start + len(new))


def _one(pattern: re.Pattern[str], sentence: str, draw: Generator) -> re.Match[str] | None:
    found = list(pattern.finditer(sentence))
    return found[int(draw.integers(len(found)))] if found else None


def _other_number(sentence: str, numbers: Sequence[str], draw: Generator) -> _Changed | None:
    """By another number of the text, which no list of missing words tells, or by another digit."""
    match = _one(_NUMBER, sentence, draw)
    if match is None:
        return None
    others = [each for each in numbers if each not in sentence and len(each) == len(match.group())]
    if others and draw.integers(2):
        return _put(sentence, match.start(), match.end(), others[int(draw.integers(len(others)))])
    digits = list(match.group())
    places = [place for place, char in enumerate(digits) if char.isdigit()]
    place = places[int(draw.integers(len(places)))]
    digits[place] = str((int(digits[place]) + int(draw.integers(1, 9)) - 1) % 9 + 1)
    return _put(sentence, match.start(), match.end(), "".join(digits))


def _other_name(sentence: str, names: Sequence[str], draw: Generator) -> _Changed | None:
    match = _one(_NAME, sentence, draw)
    others = [name for name in names if name not in sentence]
    if match is None or not others:
        return None
    return _put(sentence, match.start(), match.end(), others[int(draw.integers(len(others)))])


def _opposite(sentence: str, draw: Generator) -> _Changed | None:
    match = _one(_OPPOSED, sentence, draw)
    return _put(sentence, match.start(), match.end(), _OPPOSITES[match.group()]) if match else None


def _negated(sentence: str, draw: Generator) -> _Changed | None:
    negative = _NOT.search(sentence)
    if negative is not None:
        return _put(sentence, negative.start(), negative.end(), negative.group(1))
    match = _one(_VERB, sentence, draw)
    return _put(sentence, match.start(), match.end(), f"{match.group()} not") if match else None
