# Three commands on a fresh machine: `make demo`, `make check` and `make test`. Each does its own set-up.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# What the environment is made from: installed again when any of it changes.
MADE_FROM := requirements.lock VERSION $(sort $(wildcard */pyproject.toml))
STAMP  := $(VENV)/.installed-$(shell cat $(MADE_FROM) | cksum | cut -d' ' -f1)
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
CHECKED := tests/core tests/cli tests/client tests/server tests/theory tests/meta
LONG    := meta/test_docs_site.py meta/test_packages.py cli/test_cli_own_plan.py theory/test_masked_noise.py theory/test_masked_noise_pairs.py theory/test_pca_sampling.py theory/test_study_plan.py theory/test_unit_enclosure.py
TESTED  := -q -n 4 -m "not slow" --dist worksteal
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1
# Hundreds of processes start in a run of the tests: what they import is compiled once.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: app app-images web-images web-firefox android check demo docs fast flakes frozen imports scans system types test test-all test-notebooks test-postgres test-synthetic lint simulate model faults fuzz audit bench bench-sustained bench-accuracy bench-field bench-ndis bench-privacy lock protos clean

$(STAMP):
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --require-hashes --requirement requirements.lock
	$(INSTALL) --no-deps --no-build-isolation $(patsubst %/pyproject.toml,--editable ./%,$(wildcard */pyproject.toml))
	@touch $@

# A demo needs none of the developers' tools; where they are installed, it has what it needs.
DEMO_STAMP := $(or $(wildcard $(STAMP)),$(VENV)/.demo-$(shell cat requirements-demo.lock $(MADE_FROM) | cksum | cut -d' ' -f1))

$(VENV)/.demo-%:
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --require-hashes --requirement requirements-demo.lock
	$(INSTALL) --no-deps --no-build-isolation $(patsubst %,--editable ./%,client theory server sdk)
	@touch $@

demo: $(DEMO_STAMP)  ## both suites, from 2,048 simulated people to fitted models side by side
	$(BIN)/trimask demo

system: ## what the tests need of the system, installed where it is missing
	@scripts/system-packages

# Two things at a time: types take one core. What the tests import is compiled meanwhile, once and not by every worker.
BOTH := @$(MAKE) --no-print-directory --jobs 2

test: system $(STAMP)  ## lint, types and the always-on share of every suite
	$(BOTH) types scans imports
	$(BIN)/pytest $(TESTED)

flakes: system $(STAMP)  ## the tests of `make test` again and again, a share of the runs beside busy processes: RUNS=10 LOADED=5 LOAD=20
	$(BIN)/python scripts/flakes.py --runs $(or $(RUNS),10) $(if $(LOADED),--loaded $(LOADED)) --load $(or $(LOAD),20) $(JSON) -- $(TESTED)

test-all: system lint  ## every suite whole
	$(BIN)/pytest -q -n 2 --timeout 3600

test-postgres: system $(STAMP)  ## the end-to-end suite again, two workers of every node on one PostgreSQL
	TRIMASK_TEST_STORE=postgresql $(BIN)/pytest -q tests/end_to_end tests/release/test_release_moments.py

test-notebooks: $(VENV)/.bench  ## every notebook, in a fresh kernel; installs the public files they collect
	$(BIN)/pytest -q -n 0 --timeout 1800 tests/sdk/test_sdk_notebooks.py

test-synthetic: $(STAMP)  ## synthetic records, whole; installs their extra (mbi and jax, 400 MB)
	$(INSTALL) --editable "./sdk[synthetic]"
	$(BIN)/pytest -q -n 0 tests/sdk/test_sdk_synthetic.py

check: $(STAMP)  ## the two-minute loop: lint, types, and the tests that need no cluster, browser or database
	$(BOTH) types fast

fast: $(STAMP)
	$(BIN)/pytest $(TESTED) $(CHECKED) -k "not postgresql" $(patsubst %,--ignore-glob "tests/%",$(LONG))

lint: $(STAMP)
	$(BOTH) types scans

types: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

scans: $(STAMP)
	$(BIN)/python scripts/scan_dependencies.py
	$(BIN)/python scripts/scan_secrets.py

imports: $(STAMP)
	@-$(BIN)/pytest -q -n 0 --collect-only >/dev/null 2>&1

docs: $(STAMP)  ## the pages and the reference from docstrings, in out/docs; a warning is an error
	$(BIN)/mkdocs build

simulate: $(STAMP)  ## many seeds of the fault simulation: SEEDS=200 FIRST=0, or one with its trace: SEED=7; ADVERSARIES=1: with a hostile party; WITHDRAWALS=1: people withdraw in every seed; WORKERS=2: processes of every node
	PYTHONPATH=tests/simulation $(BIN)/python -m trimask_simulation --seeds $(or $(SEEDS),200) --first $(or $(FIRST),0) $(if $(SEED),--seed $(SEED)) $(if $(ADVERSARIES),--adversaries) $(if $(WITHDRAWALS),--withdrawals) $(if $(WORKERS),--workers $(WORKERS))

model: $(STAMP)  ## every order of events of small models of the protocol, and that each rule is needed: PEOPLE=2
	PYTHONPATH=tests/model $(BIN)/python -m trimask_model --people $(or $(PEOPLE),2)

frozen: $(STAMP)  ## this version's stores, datasets and a study under way, which every later version must take; once, before a release
	PYTHONPATH=tests/support $(BIN)/python -m trimask_frozen

faults: $(STAMP)  ## random schedules of kill -9 on a real cluster: SCHEDULES=50 FIRST=0
	PYTHONPATH=tests/support:tests/simulation:tests/faults $(BIN)/python -m trimask_faults --schedules $(or $(SCHEDULES),50) --first $(or $(FIRST),0)

fuzz: $(STAMP)  ## coverage-guided fuzzing of every parser: RUNS=100000 for each, or one: TARGET=link
	PYTHONPATH=tests/support:tests/fuzz:tests/simulation:tests/faults $(BIN)/python -m trimask_fuzz --runs $(or $(RUNS),100000) $(if $(TARGET),--target $(TARGET))

audit: $(STAMP)  ## dependencies against the advisory service (needs the network), and against their lowest versions
	$(BIN)/python scripts/scan_dependencies.py --online

bench: $(STAMP)  ## speed, as ratios to a limit measured in the same run; writes out/bench.json
	$(BIN)/python -m bench

bench-sustained: $(STAMP)  ## minutes of submissions at full speed beside a bare echo: MINUTES=10
	$(BIN)/python -m bench.sustained --minutes $(or $(MINUTES),10) --plot out/sustained.png

$(VENV)/.bench: $(STAMP) requirements-bench.txt
	$(INSTALL) --requirement requirements-bench.txt
	@touch $@

bench-accuracy: $(VENV)/.bench  ## errors of every method on the same data; installs what it compares with; writes out/accuracy.json
	$(BIN)/python -m bench.accuracy --plot out/accuracy.png
	$(BIN)/python -m bench.intervals

bench-field: $(VENV)/.bench  ## both suites beside the field's regressions on ten public files; writes out/field.json and .png
	$(BIN)/python -m bench.field --plot out/field.png

app: $(STAMP)  ## the survey app in a window of this machine; LINK=trimask://... opens an invitation
	$(BIN)/python -m trimask_mobile $(LINK)

app-images: system $(STAMP)  ## every screen of the app as a picture, docs/images/app-*.png; to be looked at
	$(BIN)/python tests/mobile/gallery.py

web-images: system $(STAMP)  ## every view of the survey page as a picture, docs/images/web-*.png; its weight and CPU; to be looked at
	$(BIN)/python tests/web/gallery.py

web-firefox: system $(STAMP)  ## every vector and the page's whole way in Firefox, where one is installed; not part of `make test`
	$(BIN)/python tests/web/in_firefox.py

android:  ## the Android package, BUILD=debug or release; needs buildozer, a JDK and the network (see mobile/README.md)
	scripts/stage-android build/android $(HOSTS)
	cd build/android && buildozer android $(or $(BUILD),debug)

bench-privacy: $(VENV)/.bench  ## delta enclosed in ball arithmetic, and a hundred releases beside other accountants; writes out/
	@mkdir -p out
	$(BIN)/python -m bench.theory_certified out/certified.json
	$(BIN)/python -m bench.theory_composition out/composition.json

bench-ndis: $(STAMP)  ## the NDIS paper's tables on data of the same shape; writes out/ndis-tables.json
	PYTHONPATH=tests/support $(BIN)/python -m trimask_ndis_tables
	PYTHONPATH=tests/support $(BIN)/python -m trimask_ndis_relative

lock: $(STAMP)  ## every package at one version and by its hash, from what is asked for; UPGRADE=--upgrade takes the newest
	$(INSTALL) uv
	UV=$(BIN)/uv scripts/lock $(UPGRADE)

protos: $(STAMP)  ## regenerate the committed stubs
	$(BIN)/python protos/generate.py

clean:
	rm -rf $(VENV) out .mypy_cache .ruff_cache .pytest_cache
