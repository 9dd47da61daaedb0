"""`ragtrace verifier`: trains a model that judges claims by evidence, calibrates and evaluates one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragtrace.cli.terminal import JsonOption, console, print_json, print_table, progress

if TYPE_CHECKING:
    from ragtrace.engines.verifier import EntailmentVerifier
    from ragtrace.engines.verifier_evaluation import IntervalEstimate, Measured
    from ragtrace.engines.verifier_examples import Example

__all__ = ["app"]

app = typer.Typer(help="A model that judges the claims of answers by their evidence.", no_args_is_help=True)

_Data = Annotated[
    Path,
    typer.Option(
        "--data", metavar="DIR", help="Labelled claims: a folder for each data set (docs/how-to/verifier.md)."
    ),
]
_Sets = Annotated[
    str | None, typer.Option("--sets", metavar="NAME,...", help="Only these data sets.  [default: all in the folder]")
]
_Claims = Annotated[
    int | None, typer.Option("--claims", min=1, help="Evaluate on so many claims of each set.  [default: all]")
]
_Method = Annotated[str, typer.Option("--method", help="Method of calibration: temperature or isotonic.")]
_CalibrateOn = Annotated[
    str | None,
    typer.Option(
        "--calibrate-on",
        metavar="NAME,...",
        help="The data sets whose sources calibrate, the main one first.  [default: ragtruth-qa,ragtruth-summary]",
    ),
]
_Precision = Annotated[str, typer.Option("--precision", help="float32, or bf16 where the device has it.")]
_Threads = Annotated[int, typer.Option("--threads", min=1, help="Threads of torch on a CPU.")]
_Model = Annotated[str, typer.Argument(metavar="MODEL", help="A sequence classifier's folder or Hugging Face name.")]
_Judge = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A sequence classifier's folder or Hugging Face name, or chat:URL#NAME of a server's."
    ),
]
_DataOrNone = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", help="Labelled claims: a folder for each data set (docs/how-to/verifier.md)."
    ),
]
_Labels = Annotated[
    str | None,
    typer.Option(
        "--labels",
        metavar="NAME,...",
        help="Meaning of the model's outputs, in their order, where its configuration does not say.",
    ),
]


@app.command("train")
def train(
    data: _Data,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="DIR", help="The folder of the trained model; a run that was killed resumes in it."
        ),
    ],
    encoder: Annotated[
        str | None,
        typer.Option("--encoder", metavar="MODEL", help="A BERT encoder.  [default: that of the models extra]"),
    ] = None,
    sets: _Sets = None,
    pairs: Annotated[int, typer.Option("--pairs", min=1, help="How many pairs are read in all: the budget.")] = 40_000,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Pairs in one step.")] = 32,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same weights.")] = 0,
    precision: _Precision = "float32",
    threads: _Threads = 2,
    checkpoint_every: Annotated[
        int, typer.Option("--checkpoint-every", min=1, help="Steps between two saved states.")
    ] = 100,
    method: _Method = "temperature",
    calibrate_on: _CalibrateOn = None,
    claims: _Claims = None,
    as_json: JsonOption = False,
) -> None:
    """Fine-tune a sentence encoder on labelled claims, calibrate it, and report on sources that were held out."""
    from ragtrace.engines.encoder import packaged_encoder
    from ragtrace.engines.verifier_evaluation import some
    from ragtrace.engines.verifier_examples import read_examples
    from ragtrace.engines.verifier_training import TrainingSettings, train as run

    settings = TrainingSettings(
        pairs=pairs, batch_size=batch_size, seed=seed, precision=_precision(precision), threads=threads
    )
    examples = read_examples(data, _names(sets))
    with progress() as bar:
        task = bar.add_task("training", total=settings.steps)
        run(
            encoder or packaged_encoder(),
            some(examples, "train"),
            out,
            settings,
            checkpoint_every=checkpoint_every,
            on_step=lambda step, loss: bar.update(task, completed=step, description=f"training, loss {loss:.3f}"),
        )
    verifier = _loaded(str(out), precision=precision, threads=threads)
    _fit(verifier, examples, method, calibrate_on, out / "calibration.json")
    _tell(verifier, examples, claims, as_json, out / "report.json")


@app.command("calibrate")
def calibrate(
    model: _Judge,
    data: _DataOrNone = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            "--pairs", metavar="FILE", help="Labelled pairs in place of --data: JSON lines of short, long and label."
        ),
    ] = None,
    role: Annotated[str, typer.Option("--role", help="What the pairs ask: entails, relevant or answers.")] = "entails",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="[default: calibration.json in the model's folder]")
    ] = None,
    labels: _Labels = None,
    method: _Method = "temperature",
    calibrate_on: _CalibrateOn = None,
    precision: _Precision = "float32",
    threads: _Threads = 2,
    as_json: JsonOption = False,
) -> None:
    """Fit the probabilities of a judge on labelled claims or pairs, and write them down for `--calibration` and
    `--judge-calibration`. A model behind a server (`chat:URL#NAME`) is calibrated on pairs."""
    from ragtrace.engines.calibration import FILE
    from ragtrace.engines.verifier_examples import read_examples
    from ragtrace.errors import ConfigurationError

    if (data is None) == (pairs is None):
        raise ConfigurationError("give --data DIR with labelled claims, or --pairs FILE with labelled pairs")
    if data is None:
        _calibrate_on_pairs(model, pairs or Path(), role, out, method, as_json)
        return
    if out is None and not Path(model).expanduser().is_dir():
        raise ConfigurationError.of("model", model, "a local folder, or --out FILE for the calibration")
    verifier = _loaded(model, labels=_names(labels), precision=precision, threads=threads, calibrated=False)
    path = out or Path(model).expanduser() / FILE
    _fit(verifier, read_examples(data, _names(calibrate_on)), method, calibrate_on, path)
    fitted = verifier.calibration
    if fitted is not None and as_json:
        print_json({"id": fitted.id, "file": str(path), "ece": fitted.ece, "claims": fitted.claims})
    elif fitted is not None:
        console().print(f"calibration {fitted.id} on {fitted.claims} claims, error {_number(fitted.ece)}: {path}")


def _calibrate_on_pairs(model: str, pairs: Path, role: str, out: Path | None, method: str, as_json: bool) -> None:
    from ragtrace.engines.verifier_evaluation import calibrate_judge, read_pairs
    from ragtrace.errors import ConfigurationError

    if out is None:
        raise ConfigurationError("give --out FILE for the calibration of pairs")
    fitted = calibrate_judge(model, role, read_pairs(pairs), method=method, data=pairs.name)
    fitted.save(out)
    if as_json:
        print_json({"id": fitted.id, "file": str(out), "ece": fitted.ece, "claims": fitted.claims, "lead": fitted.lead})
        return
    told = f"calibration {fitted.id} on {fitted.claims} pairs, error {_number(fitted.ece)}: {out}"
    console().print(f"{told}; ragtrace analyze --judge-calibration {role}={out} uses it", soft_wrap=True)
    if role == "relevant":
        console().print(_outranks(fitted.lead), soft_wrap=True)


def _outranks(lead: float | None) -> str:
    """What labels tell of a judge beside the service's own reranker."""
    if lead is None:
        return (
            "whether it ranks better than the service's own reranker is not known, so that it only suspects what that "
            "ranked: give that one's score (host) of the chunks of at least 20 questions"
        )
    shown = "ranks better" if lead > 0.0 else "is not shown to rank better"
    return f"it {shown} than the service's own reranker: AUROC within a question at least {lead:+.3f}"


@app.command("evaluate")
def evaluate(
    model: _Model,
    data: _Data,
    sets: _Sets = None,
    claims: _Claims = None,
    labels: _Labels = None,
    calibration: Annotated[
        Path | None,
        typer.Option("--calibration", metavar="FILE", help="[default: calibration.json of the model's folder]"),
    ] = None,
    precision: _Precision = "float32",
    threads: _Threads = 2,
    as_json: JsonOption = False,
) -> None:
    """How well a classifier tells supported from unsupported claims, on sources that were held out."""
    from ragtrace.engines.verifier_examples import read_examples

    verifier = _loaded(model, labels=_names(labels), calibration=calibration, precision=precision, threads=threads)
    _tell(verifier, read_examples(data, _names(sets)), claims, as_json)


def _loaded(
    model: str,
    *,
    labels: Sequence[str] | None = None,
    calibration: Path | None = None,
    precision: str = "float32",
    threads: int = 1,
    calibrated: bool = True,
) -> EntailmentVerifier:
    from ragtrace.engines.verifier import EntailmentVerifier

    return EntailmentVerifier.load(
        model,
        labels=labels,
        calibration=calibration,
        calibrated=calibrated,
        precision=_precision(precision),
        threads=threads,
    )


def _fit(verifier: EntailmentVerifier, examples: Sequence[Example], method: str, sets: str | None, path: Path) -> None:
    from ragtrace.engines.calibration import as_method
    from ragtrace.engines.verifier_evaluation import CALIBRATE_ON, calibrate as fit

    with progress() as bar:
        task = bar.add_task("calibrating", total=None)
        fitted = fit(
            verifier,
            examples,
            method=as_method(method),
            sets=_names(sets) or CALIBRATE_ON,
            on_progress=lambda count: bar.advance(task, count),
        )
    fitted.save(path)


def _tell(
    verifier: EntailmentVerifier,
    examples: Sequence[Example],
    claims: int | None,
    as_json: bool,
    path: Path | None = None,
) -> None:
    """Measure and print; `path`: keep the report there."""
    from ragtrace.engines.verifier_evaluation import evaluate as measured, report, some
    from ragtrace.safe_text import dumps

    with progress() as bar:
        task = bar.add_task("evaluating", total=len(some(examples, "held_out", claims)))
        found = measured(verifier, examples, claims=claims, on_progress=lambda count: bar.advance(task, count))
    whole = report(verifier, found)
    if path is not None:
        path.write_text(dumps(whole, indent=1) + "\n", encoding="utf-8")
    if as_json:
        print_json(whole)
        return
    print_table(
        ["held out", "judged by", "claims", "unsupported", "AUROC claims", "without maybe true", "AUROC answers",
         "bal. accuracy", "at chosen", "ECE"],
        [_row(each) for each in found],
    )  # fmt: skip
    fitted = verifier.calibration
    said = "not calibrated" if fitted is None else f"calibration {fitted.id}, chosen threshold {fitted.threshold:.3f}"
    console().print(f"{verifier.name}, weights {verifier.digest}, {said}; 95 % intervals by source")


def _row(found: Measured) -> list[str]:
    estimates = (found.claims_auroc, found.certain_auroc, found.answers_auroc, found.accuracy, found.chosen_accuracy)
    counts = [found.dataset, found.judge, str(found.claims), str(found.unsupported)]
    return [*counts, *(_estimate(each) for each in estimates), _number(found.ece)]


def _estimate(found: IntervalEstimate) -> str:
    if found.value is None:
        return "–"
    return f"{found.value:.3f}" + (f" ({found.low:.2f}–{found.high:.2f})" if found.low is not None else "")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _names(text: str | None) -> list[str] | None:
    return [name.strip() for name in text.split(",") if name.strip()] if text else None


def _precision(text: str) -> Any:
    from ragtrace.engines.models import as_precision

    return as_precision(text)
