"""The examples of docs/how-to/gate.md, run as printed over an application of a few lines."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as XML

import pytest
import yaml

from ragtrace.gate.policy import read_policy

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs" / "how-to" / "gate.md").read_text("utf-8")
EXAMPLES: Final = dict(re.findall(r"^## ([^\n]+)\n[^#`]*```\w+\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE))
POLICY: Final = re.findall(r"```yaml\n(required_segments.*?)```", PAGE, re.DOTALL)[0]
MARKED: Final = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
SEGMENTS: Final = ("claims-de", "cancellations", "limits")
QUESTIONS: Final = 168

APPLICATION: Final = """
import os
import ragtrace

ragtrace.configure(service="assistant", versions={"index": "1", "model": os.environ.get("MODEL", "m-7")})

@ragtrace.retrieve
def search(query: str) -> list[dict]:
    number = query.rstrip("?").rsplit(" ", 1)[1]
    return [{"id": f"c{number}", "text": f"Clause {number} covers glass up to {number} EUR.", "score": 1.0}]

@ragtrace.pack
def pack(hits: list[dict]) -> str:
    return "\\n".join(f"[{rank}] {hit['text']}" for rank, hit in enumerate(hits, 1))

@ragtrace.generate
def write(question: str, prompt: str) -> str:
    return prompt.removeprefix("[1] ") + " [1]"

@ragtrace.request
def answer(question: str) -> str:
    return write(question, pack(search(question)))
"""


class Project:
    """A folder with an application, its questions and the policy of the page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "app").mkdir(parents=True)
        (folder / "app" / "rag.py").write_text(APPLICATION)
        lines = (
            {"id": f"q{at}", "question": f"What is the limit for glass of clause {at + 100}?",
             "segment": SEGMENTS[at % len(SEGMENTS)]}
            for at in range(QUESTIONS)
        )  # fmt: skip
        (folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (folder / "gate.yaml").write_text(POLICY)

    def in_use(self, folder: Path) -> None:
        """A checkout of the version in use, whose policy counts."""
        folder.mkdir(exist_ok=True)
        (folder / "gate.yaml").write_text(POLICY)

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder, with nothing of this session's settings."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAGTRACE_", "OTEL_"))}
        kept |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"}
        return subprocess.run(
            command, cwd=self.folder, env=kept | variables, capture_output=True, text=True, timeout=300, check=False
        )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project after the shell's example: both runs are in `gate.db`."""
    made = Project(tmp_path_factory.mktemp("checkouts") / "candidate")
    done = made.run("bash", "-c", EXAMPLES["In a shell"])
    assert "the candidate may go out" in done.stdout, done.stdout + done.stderr
    assert (made.folder / "gate.html").is_file()
    return made


def _commands(lines: list[str], verb: str) -> list[list[str]]:
    """The commands `ragtrace VERB` in the lines of scripts."""
    found = re.findall(rf"ragtrace {verb}\b[^)\n]*", "\n".join(lines))
    return [shlex.split(command)[1:] for command in found]


def _lines(job: Mapping[str, Any]) -> list[str]:
    return [step.get("run", "") for step in job["steps"]] if "steps" in job else list(job["script"])


def test_the_policy_of_the_page(tmp_path: Path) -> None:
    """It is one, and says what the text says of it."""
    (tmp_path / "gate.yaml").write_text(POLICY)
    policy = read_policy(tmp_path / "gate.yaml")
    (rule,) = [rule for rule in policy.rules if rule.metric == "answer_coverage"]
    assert rule.floor == 0.8
    assert rule.segment_margins == {"claims-de": 0.01}
    assert policy.required_segments == ("claims-de", "cancellations")


def test_github(project: Project) -> None:
    """The gate's command decides, and writes the summary and what is uploaded."""
    job = yaml.safe_load(EXAMPLES["GitHub Actions"])["jobs"]["gate"]
    (script,) = [line for line in _lines(job) if "ragtrace gate run" in line]
    assert len(_commands(_lines(job), "replay")) == 2
    project.in_use(project.folder / "main")
    variables = {"RAGTRACE_STORE": "sqlite:///gate.db", "GITHUB_STEP_SUMMARY": "summary.md"}
    done = project.run("bash", "-e", "-c", script, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (project.folder / "summary.md").read_text().startswith("# ✅ Release gate: assistant")
    assert json.loads((project.folder / "gate.json").read_text())["decision"] == "pass"
    upload = next(step for step in job["steps"] if "upload-artifact" in step.get("uses", ""))
    assert {path.name for path in project.folder.glob(upload["with"]["path"])} >= {"gate.html", "gate.json"}


def test_gitlab(project: Project) -> None:
    """The gate's command writes the JUnit XML that the job names as its report."""
    job = yaml.safe_load(EXAMPLES["GitLab CI"])["gate"]
    (command,) = _commands(_lines(job), "gate run")
    assert len(_commands(_lines(job), "replay")) == 2
    project.in_use(project.folder.parent / "main")
    done = project.run("ragtrace", *command, RAGTRACE_STORE="sqlite:///gate.db")
    assert done.returncode == 0, done.stdout + done.stderr
    root = XML.parse(project.folder / job["artifacts"]["reports"]["junit"]).getroot()
    assert int(root.attrib["tests"]) > 10
    assert root.attrib["failures"] == root.attrib["errors"] == "0"
    assert job["allow_failure"] == {"exit_codes": [3]}


@pytest.mark.parametrize("where", ["GitHub Actions", "GitLab CI"])
def test_a_change_is_not_held_to_a_policy_of_its_own(where: str) -> None:
    """Both runs ask the questions of the version in use, and its policy decides."""
    found = yaml.safe_load(EXAMPLES[where])
    job = found["jobs"]["gate"] if "jobs" in found else found["gate"]
    asked = [command[command.index("--questions") + 1] for command in _commands(_lines(job), "replay")]
    (judged,) = _commands(_lines(job), "gate run")
    assert asked == ["questions.jsonl", "../main/questions.jsonl"]
    assert Path(judged[judged.index("--policy") + 1]).parent.name == "main"


def test_pytest(project: Project) -> None:
    """The marked test and the fixture pass over the same store, and the run says so."""
    (project.folder / "test_release.py").write_text(MARKED)
    options = ("--ragtrace-store=sqlite:///gate.db", "--ragtrace-reports=out", "--strict-markers", "-q")
    done = project.run(sys.executable, "-m", "pytest", *options, "test_release.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert "test_the_candidate_may_go_out: Passed:" in done.stdout
    assert len(list((project.folder / "out").iterdir())) == 8
