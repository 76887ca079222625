# Everything a person types. `make` alone lists it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Worker processes of the tests: two more than two cores, because some tests wait for Kafka. All of
# them use one real broker. The tests of a file stay in one process, so that its fixtures are built
# once; tests/conftest.py orders the files.
WORKERS ?= 4
# One thread of BLAS in each process: they share the cores already, and the product uses one, too.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help release bench-release install-test fuzz-coverage demo demo-serve edge page page-pictures conformance lives test test-all test-long lint format bench accuracy audit site soak attacks fuzz mutants later strangers streams words changes pgm broker-jars lock image image-test image-suites compose-test clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.service: pyproject.toml
	@echo "making $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --quiet --editable '.[service]'
	@touch $@

$(VENV)/.dev: $(VENV)/.service
	@echo "adding the development tools (once)"
	@$(BIN)/python -m pip install --quiet --group dev
	@touch $@

demo: $(VENV)/.service ## the whole pipeline on real data, about a minute, nothing to set up
	@$(BIN)/calmstream demo

demo-serve: $(VENV)/.service ## the demo with a page of its results, which stays open
	@$(BIN)/calmstream demo --serve $(ARGS)

edge: ## the edge in TypeScript: package, example page and the size of the bundle (needs Node 20)
	@node -e 'process.exit(+(process.versions.node.split(".")[0] < 20))' 2>/dev/null && command -v npm >/dev/null \
	 || { echo "the edge in TypeScript needs Node 20 or newer, with npm" >&2; exit 2; }
	@cd edge/typescript && npm ci --silent && npm run --silent build

page: ## build the page of calmstream serve into consumer/serve/assets (needs Node 20)
	@node -e 'process.exit(+(process.versions.node.split(".")[0] < 20))' 2>/dev/null && command -v npm >/dev/null \
	 || { echo "the page needs Node 20 or newer, with npm" >&2; exit 2; }
	@cd consumer/serve/page && npm ci --silent && npm run --silent check && npm run --silent build

page-pictures: $(VENV)/.dev ## pictures of the page for docs/page.md, about three minutes (needs Node 20 and Chromium)
	@$(BIN)/python -m tests.support.page_pictures

conformance: $(VENV)/.dev ## 100,000 reports of each mechanism in TypeScript against Python's, 15 minutes (ARGS=--help)
	@$(BIN)/python -m tests.support.typescript.conformance $(ARGS)

lives: $(VENV)/.dev ## 100,000 lives of recorders in TypeScript against Python's, an hour (ARGS=--help)
	@$(BIN)/python -m tests.support.typescript.lives $(ARGS)

test: $(VENV)/.dev broker-jars ## all but the slow tests, with a real Kafka broker where Java and Maven exist
	@$(PYTEST) -m 'not slow'

test-all: test ## every test, the slow ones after the others
	@$(PYTEST) -m slow

test-long: $(VENV)/.dev broker-jars ## every test, with all its repeats: hours on two cores
	@CALMSTREAM_TEST_LONG=1 $(PYTEST)

broker-jars: $(VENV)/.dev
	@if [ -z "$$CALMSTREAM_TEST_BOOTSTRAP" ] && command -v java >/dev/null && command -v mvn >/dev/null; \
	 then $(BIN)/python -m tests.brokers.jars; fi

lint: $(VENV)/.dev ## ruff, mypy --strict, the import arrows
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: $(VENV)/.dev ## let ruff fix and format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(VENV)/.dev broker-jars ## a table of all speeds, each beside its aim and a limit measured in the same run: 15 minutes (ARGS=--help)
	@$(BIN)/python -m benchmarks.speed $(ARGS)
	@PYTHONPATH=. $(BIN)/python deploy/release/speed.py

bench-release: $(VENV)/.dev ## the last release beside the checkout, by turns: nothing may take 1.25 times as long (ARGS=--help)
	@PYTHONPATH=. $(BIN)/python deploy/release/speed.py $(ARGS)

soak: $(VENV)/.dev broker-jars ## 60 faults and hostile records while 5 million reports flow, about 15 minutes
	@$(BIN)/python -m benchmarks.service.soak

attacks: $(VENV)/.dev broker-jars ## what an attacker did once, and what comes of it now, about five minutes
	@$(BIN)/python -m benchmarks.attacks

fuzz: $(VENV)/.dev ## a million messages and a million records that nobody should send
	@$(BIN)/python -m benchmarks.service.fuzz

$(VENV)/.fuzz: $(VENV)/.dev
	@echo "adding Atheris (once)"
	@$(BIN)/python -m pip install --quiet --group fuzz
	@touch $@

fuzz-coverage: $(VENV)/.fuzz ## fuzz decoders, plans, files and servers, guided by coverage, ten minutes (ARGS=--help)
	@$(BIN)/python -m tests.fuzz $(ARGS)

$(VENV)/.mutation: $(VENV)/.dev
	@echo "adding coverage (once)"
	@$(BIN)/python -m pip install --quiet --group mutation
	@touch $@

mutants: $(VENV)/.mutation ## 200 small changes of the source, one at a time: how many the tests notice (ARGS=--help)
	@$(BIN)/python -m benchmarks.mutation $(ARGS)

later: $(VENV)/.service ## how often intervals of 500 later questions hold, on three data sets: minutes
	@$(BIN)/python -m benchmarks.accuracy.later $(ARGS)

words: $(VENV)/.service ## shares of 20,000 words that nobody listed, ten minutes, resumable (ARGS=table)
	@$(BIN)/python -m benchmarks.accuracy.words $(ARGS)

streams: $(VENV)/.service ## tracked tables: errors of what is known now on seven streams, an hour, resumable (ARGS=table)
	@$(BIN)/python -m benchmarks.accuracy.streams $(ARGS)

ARGS_CHANGES = $(or $(ARGS),run)
changes: $(VENV)/.service ## false alarms and power of the tests of change: hours, resumable (ARGS=table, ARGS="run size-plan")
	@$(BIN)/python -m benchmarks.changes $(ARGS_CHANGES)

$(VENV)/.accuracy: $(VENV)/.service
	@echo "adding scikit-learn (once)"
	@$(BIN)/python -m pip install --quiet --group accuracy
	@touch $@

accuracy: $(VENV)/.accuracy ## tables of the papers' figures: 20 minutes, resumable (ARGS=--help)
	@$(BIN)/python -m benchmarks.accuracy $(ARGS)
	@$(BIN)/python -m benchmarks.castell.avd

.venv-strangers/.ready: pyproject.toml
	@echo "making .venv-strangers (once)"
	@$(PYTHON) -m venv .venv-strangers
	@.venv-strangers/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	@.venv-strangers/bin/python -m pip install --quiet --editable '.[service]' --group strangers
	@touch $@

ARGS_STRANGERS = $(or $(ARGS),run)
strangers: .venv-strangers/.ready ## noise-aware beside CALM on data sets that its authors never had, in an environment of its own: half an hour, resumable (ARGS=table)
	@.venv-strangers/bin/python -m benchmarks.strangers $(ARGS_STRANGERS)

.venv-pgm/.ready: benchmarks/requirements-pgm.txt pyproject.toml
	@echo "making .venv-pgm (once)"
	@$(PYTHON) -m venv .venv-pgm
	@.venv-pgm/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	@.venv-pgm/bin/python -m pip install --quiet --requirement benchmarks/requirements-pgm.txt
	@.venv-pgm/bin/python -m pip install --quiet --editable '.[service]' --group strangers
	@touch $@

ARGS_PGM = $(or $(ARGS),run)
pgm: .venv-pgm/.ready ## against Private-PGM, in an environment of its own: hours, resumable (ARGS=table)
	@.venv-pgm/bin/python -m benchmarks.pgm $(ARGS_PGM)

.venv-release/.ready: requirements-build.lock pyproject.toml
	@echo "making .venv-release (once)"
	@$(PYTHON) -m venv .venv-release
	@.venv-release/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	@.venv-release/bin/python -m pip install --quiet --require-hashes --requirement requirements-build.lock
	@.venv-release/bin/python -m pip install --quiet --group release
	@touch $@

release: .venv-release/.ready ## packages, image, lists of what they hold and checksums of the last commit, in dist (ARGS=--twice)
	@.venv-release/bin/python deploy/release/build.py $(ARGS)

install-test: .venv-release/.ready ## install what dist holds in empty environments of every Python found: minutes
	@.venv-release/bin/python deploy/release/install.py $(ARGS)

lock: $(VENV)/.dev ## pin what the image installs and what builds it (requirements*.lock, with hashes)
	@$(BIN)/python -m pip install --quiet pip-tools
	@$(BIN)/pip-compile --quiet --extra service --generate-hashes --strip-extras \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
		--output-file requirements.lock pyproject.toml
	@$(BIN)/pip-compile --quiet --only-build-deps --build-deps-for wheel --allow-unsafe \
		--generate-hashes --strip-extras \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
		--output-file requirements-build.lock pyproject.toml

site: $(VENV)/.dev ## all pages with search and a reference made from code, in build/site: seconds (TypeScript's with Node 20)
	@$(BIN)/python -m mkdocs --quiet build
	@if command -v npm >/dev/null; then cd edge/typescript && npm ci --silent \
	 && npm run --silent reference -- --out ../../build/site/typescript; fi

audit: $(VENV)/.dev ## known vulnerabilities of what the image installs (asks a public database)
	@$(BIN)/python -m pip install --quiet pip-audit
	@$(BIN)/python deploy/audit.py

image: ## the container image, calmstream:local (needs Docker)
	docker build --tag calmstream:local .

image-test: $(VENV)/.dev broker-jars ## build the image on a base made here, and run it as compose and the chart do (root, Docker, debootstrap)
	@tests/containers/bases.sh bookworm
	@tests/containers/images.sh calmstream kafka
	@CALMSTREAM_TEST_IMAGE=calmstream:local CALMSTREAM_TEST_KAFKA_IMAGE=calmstream-kafka:8.1.0 \
		$(BIN)/python -m pytest tests/containers/test_image.py

compose-test: $(VENV)/.dev broker-jars ## run compose with images made here, and kill every service once (root, Docker, Compose 2, debootstrap)
	@tests/containers/bases.sh bookworm
	@tests/containers/images.sh
	@CALMSTREAM_TEST_COMPOSE=1 $(BIN)/python -m pytest tests/containers/test_compose.py

image-suites: ## the tests that need no broker, on Python 3.11 and 3.13 (root, Docker, debootstrap; by hand)
	@tests/containers/bases.sh
	@tests/containers/images.sh tests-3.11 tests-3.13
	@docker run --rm calmstream-tests:3.11
	@docker run --rm calmstream-tests:3.13

clean: ## forget the virtual environment and caches
	rm -rf $(VENV) .venv-release .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
