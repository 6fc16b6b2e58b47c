# NoETL: two commands from a bare clone - `make run`, `make test`. Needs Python 3.11 or later and make.
PLAYBOOK ?= examples/flights/playbook.yaml
PYTHON ?= python3
VENV := .venv
NEW_SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null || echo $(BIN)/uv)

# Otherwise each process of the suite compiles every module that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup run test check docs lint types types-product contracts template unit e2e bench latency gigabyte peers idle rate scaling up down clean dist braket coverage touched soak scale load conformance matrix properties pairs kills fuzz nightly layer build sam-local audit

setup: $(VENV)/.synced

$(VENV)/.synced: pyproject.toml uv.lock $(wildcard plugins/*/pyproject.toml)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or later is needed (PYTHON=... names one)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@command -v uv >/dev/null 2>&1 || test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet uv
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) UV_PROJECT_ENVIRONMENT=$(CURDIR)/$(VENV) $(UV) sync --quiet --frozen --inexact --extra stack --extra dev --python $(BIN)/python
	@touch $@

run: setup
	@$(BIN)/noetl up
	@status=0; $(BIN)/noetl run $(PLAYBOOK) --on stack || status=$$?; \
	 echo "the stack goes on running: 'make down' stops it, '$(BIN)/noetl status' shows it"; exit $$status

up: setup
	@$(BIN)/noetl up

down: setup
	@$(BIN)/noetl down

# All tests, in several processes
test: setup
	@$(BIN)/python -m tests

# All checks that run no code: half a minute, and a minute more for types without their cache
check: lint contracts types-product template docs

lint: setup
	@ok=0; $(BIN)/ruff format --check --quiet . || ok=1; $(BIN)/ruff check --quiet . || ok=1; $(BIN)/python -m tests.prose || ok=1; exit $$ok

types: setup
	@$(BIN)/mypy

# Without the tests, whose types take almost as long again; `make nightly` checks them
types-product: setup
	@$(BIN)/mypy layers/noetl_core/layer.py layers/noetl_core/noetl_core cli console/noetl_console infra/noetl_infra functions $(wildcard plugins/*/src)

contracts: setup
	@$(BIN)/lint-imports

template: setup
	@$(BIN)/cfn-lint template.yaml

# The manual as a site, with a search: build/site/index.html. It fails if the navigation lacks a page, or if a link is broken.
docs: setup
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# Requirements of the layer and of the workers' package, from the lock; a test compares them.
layer: setup
	@$(UV) export --quiet --frozen --only-group layer --no-emit-project --no-header --output-file layers/noetl_core/requirements.txt >/dev/null
	@$(UV) export --quiet --frozen --only-group worker --no-emit-package typing-extensions --no-emit-package tzdata --no-emit-project --no-header --output-file functions/worker/requirements.txt >/dev/null

# The layer, the workers' package and the functions' template under .aws-sam, for the parameters of an environment of samconfig.toml: ENV=dev make build
build: setup
	@SAM_CLI_TELEMETRY=0 $(BIN)/sam build $(if $(ENV),--config-env $(ENV))

unit: setup
	@$(BIN)/pytest -n 2 --dist loadfile -m 'not nightly and not e2e and not soak and not scale and not load and not sam_local and not braket'

# Coverage (lines and branches) of the tests without a stack, including the processes that they start. Takes twice as long as the tests.
coverage: setup
	@rm -rf build/coverage && mkdir -p build/coverage
	@export COVERAGE_FILE=build/coverage/.coverage; status=0; \
	 $(BIN)/pytest -n 2 --dist loadfile --cov --cov-report= -m 'not untraced and not e2e and not soak and not scale and not load and not sam_local and not braket' || status=$$?; \
	 $(BIN)/coverage report --sort=cover; exit $$status

# Modules of the product in which no test of `make test` runs a function; data in build/touched. FILES=tests/unit/expr runs only these tests.
touched: setup
	@$(BIN)/python -m tests.touched $(FILES)

e2e: setup
	@$(BIN)/pytest tests/e2e

conformance: setup
	@$(BIN)/python -W error -m tests.conformance

# Every case of every tool on both wirings; writes docs/tools/matrix.md.
matrix: setup
	@$(BIN)/python -W error -m tests.matrix

scale: setup
	@$(BIN)/pytest -o faulthandler_timeout=0 -m scale -s tests/e2e tests/console

# Many clients, many timers, killed workers and a corrupt execution on the embedded stack; prints figures.
load: setup
	@NOETL_SEED=$(SEED) $(BIN)/pytest -o faulthandler_timeout=0 -m load -s tests/e2e

# SEED repeats an exploration; TIMES multiplies the number of examples.
properties: setup
	@echo "make properties SEED=$(or $(SEED),$(NEW_SEED))"
	@NOETL_TIMES=$(or $(TIMES),20) $(BIN)/pytest -o faulthandler_timeout=0 -n 2 -m 'hypothesis or sized' --hypothesis-seed=$(or $(SEED),$(NEW_SEED))

# Costly tests, each with a quicker counterpart in `make test`, and the types of all tests
nightly: setup types
	@$(BIN)/pytest -o faulthandler_timeout=0 -n 4 --dist loadfile -m nightly

# Any operation inside any other, at every port call, in the simulator: some twenty minutes. SEED is printed, and repeats one exploration;
# CASES=live/pause/resume/13 runs the named cases, N=5000 runs 5000 of all.
pairs: setup
	@$(BIN)/python -W error -m tests.sim.pairs $(CASES) $(if $(SEED),--seed $(SEED)) $(if $(N),--count $(N))

# Random kills: of local runs, or, with ON=stack, of the functions of an embedded stack with asks (200 take half an hour).
kills: setup
	@$(BIN)/python -W error -m $(if $(filter stack,$(ON)),tests.e2e.kills,tests.sim.kills) $(or $(N),200) $(SEED)

# Every filter, test, function, method and operator of templates with large arguments, each call in a process of its own. EACH=0: all calls.
fuzz: setup
	@$(BIN)/python -W error -m tests.fuzz $(or $(EACH),40) $(or $(SEED),21)

soak: setup
	@NOETL_SEED=$(SEED) $(BIN)/pytest -o faulthandler_timeout=0 -m soak -s tests/e2e tests/console tests/unit/examples

# Every function in a container, as `sam local` runs it, against the embedded stack. ENGINE is a command that runs another command on the
# machine with the container engine. Without it, DOCKER_HOST or the local Docker is used. SAM_SKIP_PULL_IMAGE=1 pulls no images.
sam-local: setup
	@$(MAKE) --silent build ENV=container
	@$(ENGINE) $(BIN)/pytest -o faulthandler_timeout=0 -m sam_local -s tests/sam_local

# The kind quantum on Amazon Braket's local simulator, in an environment of its own (430 MB, from the lock).
braket: setup
	@UV_PROJECT_ENVIRONMENT=$(CURDIR)/build/braket $(UV) sync --quiet --frozen --all-packages --all-extras --python $(BIN)/python
	@build/braket/bin/pytest -m braket tests/unit/tools

bench: setup
	@$(BIN)/python bench/run.py

# The comparison with other engines, side by side in one session of some twenty minutes, written to docs/performance.md. Peers are installed
# into build/peers; those that cannot be installed are reported with the reason. TIMES=3 is shorter.
peers: setup
	@$(BIN)/python -m bench.peers --docs --times $(or $(TIMES),5)

# Times and costs of a step on AWS, computed from the requests that the code makes; writes its section of docs/performance.md.
latency: setup
	@$(BIN)/python -m bench.latency

# Moves a gigabyte through http, DuckDB, Parquet and PostgreSQL, and measures memory; MB=100 is a tenth of it.
gigabyte: setup
	@$(BIN)/python -m bench.gigabyte --mb $(or $(MB),1000)

idle: setup
	@$(BIN)/python -m bench.idle

# Ten processes that share a rate of five a second, measured by the called service: some 90 s. KILLS=4 kills four of them.
rate: setup
	@$(BIN)/python -m bench.rate --kills $(or $(KILLS),0)

# The model of docs/scaling.md, then the simulator with the services' limits: SHARE=0.125 runs an eighth of 10,000 starts a second and of
# the wide loops, SHARE=1 all (twelve minutes of processor time); then one loop of a million iterations.
scaling: setup
	@$(BIN)/python -m bench.scaling
	@$(BIN)/python -m bench.scaling.simulate $(or $(SHARE),0.125)

# Wheel and source distribution of every distribution of this repository, into dist/.
dist: setup
	@rm -rf dist
	@$(UV) build --quiet --all-packages --out-dir dist

# Known vulnerabilities of the locked dependencies, from the package index.
audit: setup
	@mkdir -p build && $(UV) export --quiet --frozen --all-extras --no-emit-workspace --no-header --output-file build/audit.txt >/dev/null
	@$(UV) tool run --quiet pip-audit --disable-pip --require-hashes --requirement build/audit.txt

clean:
	@test ! -x $(BIN)/noetl || $(BIN)/noetl down
	@rm -rf $(VENV) build dist .noetl .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .aws-sam
