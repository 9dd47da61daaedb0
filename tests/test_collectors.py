"""The configurations in `collectors/`: the programs that they are for read them, where these are installed.

They are held against ragtrace's own command line, span names and files as well, so that they cannot fall behind.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from ragtrace import installation
from ragtrace.alerts import render, write
from ragtrace.cli import app
from ragtrace.cli.monitoring import DEFAULT_PORT as EXPORT_PORT
from ragtrace.cli.triage import DEFAULT_PORT as TRIAGE_PORT
from ragtrace.config import load
from ragtrace.record import conventions as names

FOLDER = installation.folder("collectors")
RULES = "/etc/prometheus/ragtrace"
UNITS = sorted((FOLDER / "systemd").glob("*.service"))
PROMETHEUS = {"host": FOLDER / "prometheus.yml", "compose": FOLDER / "compose" / "prometheus.yml"}
ALERTS = FOLDER / "compose" / "alerts.yaml"
USAGE_ERROR = typer.BadParameter.__mro__[1]  # typer brings its own click, and names no other of its errors
SECRETS = {"RAGTRACE_DATABASE_PASSWORD": "words", "GRAFANA_PASSWORD": "words"}

CONTENT = (
    names.RETRIEVAL_QUERY,
    names.INPUT_MESSAGES,
    names.OUTPUT_MESSAGES,
    names.INPUT_VALUE,
    names.OUTPUT_VALUE,
    names.RERANKER_QUERY,
    *(
        f"{group}.17.{names.DOCUMENT_CONTENT}"
        for group in (names.DOCUMENTS, names.RERANKER_INPUTS, names.RERANKER_OUTPUTS)
    ),
    *(
        f"{group}.17.{names.DOCUMENT_METADATA}"
        for group in (names.DOCUMENTS, names.RERANKER_INPUTS, names.RERANKER_OUTPUTS)
    ),
    *(f"{group}.0.{names.MESSAGE_CONTENT}" for group in (names.LLM_INPUT, names.LLM_OUTPUT)),
)


def _program(*choices: str) -> str:
    found = next(filter(None, map(shutil.which, choices)), None)
    if found is None:
        pytest.skip(f"{choices[0]} is not installed")
    return found


def _run(*command: str | Path, **environment: str) -> str:
    """What a program prints when it finds nothing wrong."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _compose() -> dict[str, Any]:
    found: dict[str, Any] = _read(FOLDER / "compose.yaml")
    return found


def _parsed(arguments: list[str]) -> dict[str, Any]:
    """The options of a command line as ragtrace understands them; nothing runs.

    Raises: USAGE_ERROR where it does not.
    """
    command: Any = typer.main.get_command(app)
    context: Any = None
    while True:
        context = command.make_context(command.name or "ragtrace", list(arguments), parent=context)
        if not hasattr(command, "commands"):
            return dict(context.params)
        _, command, arguments = command.resolve_command(context, [*context._protected_args, *context.args])


def _unit_command(unit: Path) -> list[str]:
    (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE)
    program, *arguments = shlex.split(line)
    assert Path(program).name == "ragtrace"
    return arguments


def _ragtrace_services() -> dict[str, dict[str, Any]]:
    return {name: each for name, each in _compose()["services"].items() if each["image"] == "ragtrace:local"}


def _commands() -> Iterator[tuple[str, list[str]]]:
    for unit in UNITS:
        yield unit.name, _unit_command(unit)
    for name, service in _ragtrace_services().items():
        yield name, service["command"]


@pytest.mark.parametrize(("where", "arguments"), [pytest.param(*one, id=one[0]) for one in _commands()])
def test_commands_are_the_command_lines_own(where: str, arguments: list[str]) -> None:
    """Each command of a unit or a service parses, and listens on the port that is the default."""
    options = _parsed(arguments)
    if "port" in options:
        assert options["port"] == (TRIAGE_PORT if "triage" in arguments else EXPORT_PORT), where


def test_a_command_that_rots_is_found() -> None:
    """An option or a verb that ragtrace does not have is refused."""
    for wrong in (["analyze", "--foollow"], ["exports"], ["export", "--port", "many"]):
        with pytest.raises(USAGE_ERROR):
            _parsed(wrong)


def test_units_and_services_are_complete() -> None:
    """There is a unit and a service for each of the three programs that run for good; all have a store."""
    assert {unit.stem for unit in UNITS} == {"ragtrace-analyze", "ragtrace-export", "ragtrace-triage"}
    services = _ragtrace_services()
    assert {"analyze", "export", "triage"} <= services.keys()
    for service in services.values():
        url = service["environment"]["RAGTRACE_STORE"]
        assert load(store=re.sub(r"\$\{[^}]*\}", "words", url)).store.startswith("postgresql://")
    for unit in UNITS:
        assert "EnvironmentFile=/etc/ragtrace/ragtrace.env" in unit.read_text(encoding="utf-8")


@pytest.mark.parametrize("unit", UNITS, ids=[unit.stem for unit in UNITS])
def test_systemd_accepts_the_units(unit: Path, tmp_path: Path) -> None:
    """`systemd-analyze verify` has nothing to say; only the program's path stands for another one here."""
    program = _program("systemd-analyze")
    copy = tmp_path / unit.name
    text = unit.read_text(encoding="utf-8")
    copy.write_text(text.replace("/opt/ragtrace/bin/ragtrace", "/bin/true"), encoding="utf-8")
    assert unit.name not in _run(program, "verify", "--man=no", copy)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """The rendered files of the compose stack's settings."""
    write(tmp_path / "rules", render(ALERTS))
    return tmp_path / "rules"


@pytest.mark.parametrize("config", PROMETHEUS.values(), ids=PROMETHEUS)
def test_prometheus_accepts_its_configuration(config: Path, rules: Path, tmp_path: Path) -> None:
    """`promtool check config` passes, and finds the rules where `ragtrace alerts render` has put them."""
    program = _program("promtool")
    copy = tmp_path / "prometheus.yml"
    copy.write_text(config.read_text(encoding="utf-8").replace(RULES, str(rules)), encoding="utf-8")
    said = _run(program, "check", "config", copy)
    assert said.count("rules found") == 2


def test_prometheus_scrapes_the_exporter() -> None:
    """Both configurations are the same but for their hosts; the job is the one that the alerts watch."""
    host, compose = (path.read_text(encoding="utf-8") for path in PROMETHEUS.values())
    (scrape,) = yaml.safe_load(host)["scrape_configs"]
    assert scrape["static_configs"] == [{"targets": [f"localhost:{EXPORT_PORT}"]}]
    assert scrape["job_name"] == _read(installation.folder("alerts") / "objectives.yaml")["platform"]["job"]
    in_compose = compose.replace("export:9464", "localhost:9464").replace("alertmanager:9093", "localhost:9093")
    assert in_compose.splitlines()[1:] == host.splitlines()[1:]


def test_prometheus_reads_the_files_that_are_rendered(rules: Path) -> None:
    """Every rule file of the configurations is one that the renderer writes."""
    for config in PROMETHEUS.values():
        for file in _read(config)["rule_files"]:
            assert (rules / Path(file).relative_to(RULES)).is_file()


def test_alertmanager_accepts_its_configuration(rules: Path) -> None:
    """`amtool check-config` passes on what the stack's settings give."""
    said = _run(_program("amtool"), "check-config", rules / "alertmanager.yml")
    assert "SUCCESS" in said


def test_alerts_reach_triage(rules: Path) -> None:
    """The stack's Alertmanager posts to the path and port of `ragtrace triage serve`."""
    receivers = {one["name"]: one for one in _read(rules / "alertmanager.yml")["receivers"]}
    (hook,) = receivers["triage"]["webhook_configs"]
    assert hook["url"] == f"http://triage:{TRIAGE_PORT}/alerts"
    assert "triage" in _compose()["services"]


def test_docker_accepts_the_compose_file() -> None:
    """`docker compose config` reads it."""
    docker = _program("docker")
    known = subprocess.run([docker, "compose", "version"], capture_output=True, check=False)
    if known.returncode != 0:
        pytest.skip("docker has no plugin `compose`")
    _run(docker, "compose", "--file", FOLDER / "compose.yaml", "config", "--quiet", **SECRETS)


def test_compose_refers_to_what_is_there() -> None:
    """Services that are waited for, volumes, files and folders exist; images are pinned; ports are local."""
    compose = _compose()
    assert set(compose) <= {"name", "services", "volumes", "x-ragtrace"}
    services = compose["services"]
    for name, service in services.items():
        assert set(service.get("depends_on", {})) <= services.keys(), name
        assert re.search(r":[\w.-]*\d|ragtrace:local$", service["image"]), name
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), name
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in compose["volumes"] or (FOLDER / source).resolve().exists(), volume
    build = compose["x-ragtrace"]["build"]
    context = (FOLDER / build["context"]).resolve()
    assert (context / "pyproject.toml").is_file()
    assert (context / build["dockerfile"]).is_file()
    used = {volume.split(":")[0] for service in services.values() for volume in service.get("volumes", ())}
    assert compose["volumes"].keys() <= used


def test_hosts_of_the_stack_are_its_services() -> None:
    """Prometheus, Grafana, Collector and settings name services, with the ports that these listen on."""
    services = _compose()["services"]
    texts = [path.read_text(encoding="utf-8") for path in (PROMETHEUS["compose"], ALERTS)]
    texts += [path.read_text(encoding="utf-8") for path in sorted((FOLDER / "grafana").rglob("*.yaml"))]
    texts += [str(service.get("environment", "")) for service in services.values()]
    hosts = {host for text in texts for host in re.findall(r"(?:://|@|[\"' ])([a-z][a-z-]+):\d{4,5}", text)}
    assert hosts - {"localhost"} == {"alertmanager", "export", "jaeger", "postgres", "prometheus", "triage"}
    assert hosts - {"localhost"} <= services.keys()


def test_grafana_is_given_the_dashboards() -> None:
    """The provider reads the folder in which the stack mounts the generated dashboards."""
    (provider,) = _read(FOLDER / "grafana" / "dashboards" / "ragtrace.yaml")["providers"]
    volumes = _compose()["services"]["grafana"]["volumes"]
    assert f"../dashboards/generated:{provider['options']['path']}:ro" in volumes
    assert list((installation.folder("dashboards") / "generated").glob("*.json"))
    (source,) = _read(FOLDER / "grafana" / "datasources" / "ragtrace.yaml")["datasources"]
    assert source["type"] == "prometheus"


COLLECTOR = FOLDER / "otel-collector.yaml"


def test_collector_accepts_its_configuration() -> None:
    """`otelcol-contrib validate` has nothing to say."""
    _run(_program("otelcol-contrib", "otelcol"), "validate", f"--config={COLLECTOR}")


def test_collector_uses_what_it_defines() -> None:
    """Every component of a pipeline is defined, none is left over, and the limiter comes first, the batches last."""
    collector = _read(COLLECTOR)
    kinds = ("receivers", "processors", "exporters")
    assert set(collector) == {*kinds, "extensions", "service"}
    service = collector["service"]
    assert set(service) == {"extensions", "pipelines"}
    assert service["extensions"] == list(collector["extensions"])
    for kind in kinds:
        used = [name for pipeline in service["pipelines"].values() for name in pipeline[kind]]
        assert set(used) == set(collector[kind]), kind
    (pipeline,) = service["pipelines"].values()
    assert pipeline["processors"] == ["memory_limiter", "transform/redact", "tail_sampling", "batch"]


def test_collector_keeps_errors_and_flagged_requests() -> None:
    """Each policy has the part that its type asks for; the flag is the attribute that ragtrace sets."""
    policies = {one["name"]: one for one in _read(COLLECTOR)["processors"]["tail_sampling"]["policies"]}
    assert all(set(one) == {"name", "type", one["type"]} for one in policies.values())
    assert policies["errors"]["status_code"]["status_codes"] == ["ERROR"]
    assert policies["flagged"]["ottl_condition"]["span"] == [f'attributes["{names.REQUEST_FLAGS}"] != nil']


def test_collector_takes_out_content_and_nothing_else() -> None:
    """The patterns match every attribute of ours that holds content, and no other one."""
    groups = {one["context"]: one["statements"] for one in _redaction()}
    assert set(groups) == {"span", "spanevent"}
    patterns = {context: [_pattern(context, one) for one in statements] for context, statements in groups.items()}

    def is_content(name: str) -> bool:
        return any(pattern.search(name) for pattern in patterns["span"])

    assert [name for name in CONTENT if not is_content(name)] == []
    others = {getattr(names, name) for name in names.__all__} - set(CONTENT)
    others |= {f"{names.DOCUMENTS}.3.{names.DOCUMENT_ID}", f"{names.RERANKER_OUTPUTS}.3.{names.DOCUMENT_SCORE}"}
    others |= {f"{names.LLM_INPUT}.0.{names.MESSAGE_ROLE}", f"{names.VERSION}.model"}
    assert [name for name in sorted(others) if is_content(name)] == []


def _redaction() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _read(COLLECTOR)["processors"]["transform/redact"]["trace_statements"]
    return found


def _pattern(context: str, statement: str) -> re.Pattern[str]:
    """The regular expression of a statement that deletes attributes in this context."""
    found = re.fullmatch(rf'delete_matching_keys\({context}\.attributes, "(.*)"\)', statement)
    assert found is not None, statement
    return re.compile(found[1].replace("\\\\", "\\"))
