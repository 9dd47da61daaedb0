"""`ragtrace verifier` and `ragtrace analyze --verifier`, as a user starts them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import IDS, Cli
from tests.engines.verifiers import save_classifier, save_encoder, write_ragtruth


@pytest.fixture
def data(tmp_path: Path) -> str:
    """Labelled claims of forty sources."""
    return str(write_ragtruth(tmp_path / "data", range(40)))


def test_train_evaluate_calibrate(cli: Cli, data: str, tmp_path: Path) -> None:
    """A trained folder holds model, calibration and report; it is evaluated alike, and calibrated otherwise."""
    encoder = str(save_encoder(tmp_path / "encoder"))
    options = ("--pairs", "64", "--batch-size", "8", "--threads", "1")
    trained = cli("verifier", "train", "--data", data, "--out", "model", "--encoder", encoder, *options, "--json")
    assert trained.returncode == 0, trained.stderr
    report = json.loads(trained.stdout)
    assert json.loads((tmp_path / "model" / "report.json").read_text()) == report
    evaluated = cli("verifier", "evaluate", "model", "--data", data, "--threads", "1", "--json")
    found = json.loads(evaluated.stdout)
    assert (found["weights"], found["calibration"]) == (report["weights"], report["calibration"])
    assert [each["claims"] for each in found["held_out"]] == [each["claims"] for each in report["held_out"]]
    shown = cli("verifier", "evaluate", "model", "--data", data, "--threads", "1")
    assert report["calibration"]["id"] in shown.stdout
    assert "ragtruth-qa" in shown.stdout
    again = cli("verifier", "calibrate", "model", "--data", data, "--method", "isotonic", "--threads", "1")
    assert again.returncode == 0, again.stderr
    assert json.loads((tmp_path / "model" / "calibration.json").read_text())["method"] == "isotonic"


def test_analyze_with_a_verifier(cli: Cli, store_url: str, tmp_path: Path) -> None:
    """The stored claims are those that the model judged."""
    model = str(save_classifier(tmp_path / "model", "contradiction", "neutral", "entailment"))
    done = cli("analyze", "--store", store_url, "--verifier", model)
    assert done.returncode == 0, done.stderr
    shown = json.loads(cli("show", IDS[0], "--store", store_url, "--json").stdout)
    assert shown["analysis"]["verified_by"]["name"] == "model"
    assert {claim["layer"] for claim in shown["analysis"]["claims"]} == {"entailment"}


def test_analyze_with_judges(cli: Cli, store_url: str, tmp_path: Path) -> None:
    """What judged in each role stands with the analysis; roles come by several options, or with commas in one."""
    model = str(save_classifier(tmp_path / "model", "contradiction", "neutral", "entailment"))
    other = str(save_classifier(tmp_path / "other", "LABEL_0"))
    options = ("--judge", f"entails={model}", "--judge", f"relevant={other},answers={other}")
    done = cli("analyze", "--store", store_url, *options)
    assert done.returncode == 0, done.stderr
    shown = json.loads(cli("show", IDS[0], "--store", store_url, "--json").stdout)
    assert shown["analysis"]["verified_by"]["name"] == "model + relevant: other + answers: other"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("verifier", "train", "--data", "nowhere", "--out", "o"), "data folder 'nowhere' is not usable"),
        (("verifier", "evaluate", "./nowhere", "--data", "d"), "no model folder"),
        (("verifier", "calibrate", "org/name", "--data", "d"), "or --out FILE"),
        (("analyze", "--verifier", "./nowhere"), "no model folder"),
        (("analyze", "--judge", "claims=m"), "ROLE=MODEL, each role once: entails, relevant, answers"),
        (("analyze", "--judge", "relevant=./nowhere"), "no model folder"),
        (("analyze", "--verifier", "m", "--judge", "entails=m"), "both judge claims"),
    ],
)
def test_errors(arguments: tuple[str, ...], message: str, cli: Cli, store_url: str) -> None:
    """What cannot be used is one line and exit code 2."""
    failed = cli(*arguments, RAGTRACE_STORE=store_url)
    assert failed.returncode == 2
    assert message in failed.stderr
    assert len(failed.stderr.strip().splitlines()) == 1
