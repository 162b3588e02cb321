# Everything runs from here; a machine needs only Python >= 3.11 and make.
# Each environment is a folder with a stamp that depends on the dependency files, so an edit there
# reinstalls in place and nothing else does.

.DEFAULT_GOAL := help
SHELL := /bin/bash
MAKEFLAGS += --no-print-directory

# The first interpreter that is new enough; 3.11 first, because constraints.txt is made with it.
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13 python3.14 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

DEPS := pyproject.toml lab/pyproject.toml constraints.txt constraints-min.txt
# One BLAS thread: timings mean something, and pytest-xdist workers do not fight over cores.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
BIN := .venv/bin
# Neighbouring tests, which share fitted models, stay with one worker.
WORKERS := -n auto --dist worksteal
# Keep bytecode even where the environment says not to: tests start several hundred processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help
help: ## this list
	@grep -hE '^(# )?[a-zN][a-zA-Z%-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/^# //; s/:.*## /\t/' | expand -t 18

# --- environments -------------------------------------------------------------------------------

# .venv: the library, editable, with the extras test, plot, io, data.
.PHONY: venv
venv: .venv/.stamp

.venv/.stamp:           WHAT := -e '.[test]' -e lab
.venv-torch/.stamp:     WHAT := -e '.[test,torch]' -e lab
# Other people's methods, for comparisons.
.venv-bench/.stamp:     WHAT := -e '.[test,torch]' -e 'lab[rivals]'
.venv-docs/.stamp:      WHAT := -e '.[docs]' -e lab hypothesis pytest
# Drives a browser that the machine has; it brings none.
.venv-browser/.stamp:   WHAT := -e '.[test,browser]' -e lab
# Boosted trees of other libraries inside our learners.
.venv-boosters/.stamp:  WHAT := -e '.[boosters,data,io]' hypothesis pytest
.venv-shap/.stamp:      WHAT := -e '.[data,shap]' hypothesis pytest
# Spark, on the Java of the machine.
.venv-spark/.stamp:     WHAT := -e '.[data,spark]' hypothesis pytest
# The core dependencies and the test runner, no extra at all.
.venv-no-extras/.stamp: WHAT := -e . hypothesis pytest pytest-xdist
# Builds the distributions and judges them.
.venv-dist/.stamp:      WHAT := build check-wheel-contents twine
# The only environment off constraints.txt: its pins are the other end of every range.
.venv-min/.stamp:       WHAT := -e '.[test]' -e lab
.venv-min/.stamp:       PINS := constraints-min.txt

PINS := constraints.txt
.venv/.stamp .venv-torch/.stamp .venv-bench/.stamp .venv-boosters/.stamp .venv-browser/.stamp .venv-dist/.stamp .venv-docs/.stamp .venv-no-extras/.stamp .venv-shap/.stamp .venv-spark/.stamp .venv-min/.stamp: $(DEPS)
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; set PYTHON=..." >&2; exit 1; }
	@echo "$(@D): installing $(WHAT)"
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c $(PINS) $(WHAT)
	@touch $@

# --- what a newcomer runs -----------------------------------------------------------------------

.PHONY: demo
demo: .venv/.stamp ## what does fairness cost? a report on real mortgage applications, to open in a browser
	@mkdir -p demo-output
	@$(ONE_THREAD) $(BIN)/fairspan explore loans --positive 1 --out demo-output/report.html

# The data files beside the project are used where they are; otherwise the library looks for them.
.PHONY: reproduce
reproduce: .venv/.stamp ## both figures of the paper, the quick way, in reproduction/
	@$(if $(wildcard ../shared/data),FAIRSPAN_DATA=$${FAIRSPAN_DATA:-../shared/data}) \
		$(BIN)/fairspan reproduce all --quick $(ARGS)

# A torch that slipped in as someone's dependency would hide a core that needs it.
.PHONY: test
test: .venv/.stamp ## the suite, without torch
	@$(BIN)/python -c "import sys, importlib.util as u; sys.exit(u.find_spec('torch') and 'torch is installed in .venv: make clean, then make test')"
	@$(ONE_THREAD) $(BIN)/python -m pytest $(WORKERS) $(ARGS)

# --- other environments -------------------------------------------------------------------------

# test-NAME: ## the tests of one environment: torch, spark, no-extras, boosters, shap, browser, bench, min, versions, docs, shared

# Unit tests and tests/test_torch*.py with torch installed.
.PHONY: test-torch
test-torch: .venv-torch/.stamp
	@.venv-torch/bin/python -c "import torch; print('torch', torch.__version__)"
	@$(ONE_THREAD) .venv-torch/bin/python -m pytest $(WORKERS) tests/unit $(wildcard tests/test_torch*.py lab/tests/test_torch*.py) $(ARGS)

# Unit tests and tests/test_no_extras.py with the core alone.
.PHONY: test-no-extras
test-no-extras: .venv-no-extras/.stamp
	@$(ONE_THREAD) .venv-no-extras/bin/python -m pytest $(WORKERS) tests/unit $(wildcard tests/test_no_extras.py) $(ARGS)

# LightGBM, XGBoost and CatBoost inside our learners, and the lines about them in the docs.
.PHONY: test-shap
test-shap: .venv-shap/.stamp
	@$(ONE_THREAD) .venv-shap/bin/python -m pytest tests/test_shap.py $(ARGS)
	@$(ONE_THREAD) .venv-shap/bin/python -m pytest tests/test_docs.py -m "" -k shap

.PHONY: test-boosters
test-boosters: .venv-boosters/.stamp
	@$(ONE_THREAD) .venv-boosters/bin/python -m pytest tests/test_boosters.py $(ARGS)
	@$(ONE_THREAD) .venv-boosters/bin/python -m pytest tests/test_docs.py -m "" -k which-estimator

# Streams on two executors of Spark, in processes of their own; pyspark brings no Java.
.PHONY: test-spark
test-spark: .venv-spark/.stamp
	@test -n "$$JAVA_HOME" || command -v java > /dev/null \
		|| { echo "Spark needs Java 17 or newer: apt-get install openjdk-17-jre-headless" >&2; exit 1; }
	@$(ONE_THREAD) .venv-spark/bin/python -m pytest tests/test_stream_spark.py $(ARGS)

# axe-core looks for what keeps people out; without npm or a browser the tests skip with a reason.
AXE := 4.14.0
build/axe-core/package/axe.min.js:
	@mkdir -p build/axe-core
	@cd build/axe-core && npm pack --silent axe-core@$(AXE) > /dev/null && tar xzf axe-core-$(AXE).tgz \
		|| echo "axe-core could not be fetched by npm: its tests skip" >&2

# The explorer, and the site if it is built, in headless Chromium.
.PHONY: test-browser
test-browser: .venv-browser/.stamp build/axe-core/package/axe.min.js
	@$(ONE_THREAD) .venv-browser/bin/python -m pytest -n 2 --dist loadscope tests/browser $(ARGS)

# Tests that need fairlearn, LightGBM or fairret, and the frontier's.
.PHONY: test-bench
test-bench: .venv-bench/.stamp
	@$(ONE_THREAD) .venv-bench/bin/python -m pytest $(WORKERS) lab/tests/test_frontier.py lab/tests/test_frontier_price.py lab/tests/test_baselines_boosting.py lab/tests/test_torch_penalised_network.py tests/test_audit_fairlearn.py $(ARGS)
	@$(ONE_THREAD) .venv-bench/bin/python -m pytest lab/tests/test_baselines_contract.py -k Penalised
	@$(ONE_THREAD) .venv-bench/bin/python -m pytest tests/test_docs.py -m "" -k fairlearn

# The suite with the lowest supported versions.
.PHONY: test-min
test-min: .venv-min/.stamp
	@$(ONE_THREAD) .venv-min/bin/python -m pytest $(WORKERS) $(ARGS)

# Routing and scikit-learn's own checks under each of its versions that we promise; all else as pinned.
SKLEARNS := 1.6 1.7 1.8 1.9
SKLEARN_ENVS := $(SKLEARNS:%=.venv-sklearn-%)

$(SKLEARN_ENVS:%=%/.stamp): $(DEPS)
	@echo "$(@D): installing"
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@grep -vE '^(scikit-learn|scipy)==' constraints.txt > $(@D)/constraints.txt
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -c $(@D)/constraints.txt \
		-e . 'scikit-learn==$(@D:.venv-sklearn-%=%).*' $(if $(filter %-1.6,$(@D)),'scipy<1.16') \
		hypothesis pandas pytest pytest-xdist
	@touch $@

# Routing and estimator checks under scikit-learn 1.6 to 1.9.
.PHONY: test-versions
test-versions: $(SKLEARN_ENVS:%=%/.stamp)
	@$(ONE_THREAD) $(firstword $(SKLEARN_ENVS))/bin/python -m tools.versions \
		--python $(SKLEARN_ENVS:%=%/bin/python)

.PHONY: test-slow
test-slow: .venv/.stamp ## slow tests and rates over many random draws, about a quarter of an hour
	@$(ONE_THREAD) $(BIN)/python -m pytest $(WORKERS) -m "slow and not long" $(ARGS)

.PHONY: test-long
test-long: .venv/.stamp ## the longest tests, a quarter of an hour
	@$(ONE_THREAD) $(BIN)/python -m pytest $(WORKERS) -m long $(ARGS)

# Reference data is not part of the repository; without it these tests skip.
# The tests of the suite that need the reference data.
.PHONY: test-shared
test-shared: .venv/.stamp
	@$(ONE_THREAD) $(BIN)/python -m pytest $(WORKERS) -m "shared and not slow and not long" $(ARGS)

# Long by design: a bounded slice of each is part of `make test`.
# 20,000 strange inputs and files: right, or one of our own errors.
.PHONY: fuzz
fuzz: .venv/.stamp
	@$(ONE_THREAD) $(BIN)/python -m tools.fuzz $(ARGS)
	@$(ONE_THREAD) $(BIN)/python -m tools.fuzz_bytes

# Break the core in many ways; a test must fail for each.
.PHONY: mutants
mutants: .venv/.stamp
	@$(ONE_THREAD) $(BIN)/python -m tools.mutants $(ARGS)

# What needs torch or fairlearn is run where they are, and all is put together.
.PHONY: coverage
coverage: .venv/.stamp .venv-torch/.stamp .venv-bench/.stamp ## lines and branches of src the suite runs; every gap explained
	@$(ONE_THREAD) $(BIN)/python -m tools.coverage_gaps $(ARGS)

# --- documentation ------------------------------------------------------------------------------

# No network but npm's registry, once, for MathJax; examples that have not changed are not run again.
.PHONY: docs
docs: .venv-docs/.stamp ## the site, in docs/_build/html; warnings are errors
	@rm -rf docs/api/generated
	@.venv-docs/bin/python docs/_mathjax.py
	@$(ONE_THREAD) .venv-docs/bin/python -m sphinx -W --keep-going -q -b html \
		-d docs/_build/doctrees docs docs/_build/html $(ARGS)
	@.venv-docs/bin/python docs/_links.py docs/_build/html

# Build the site, then its links, anchors, resources and pages.
.PHONY: test-docs
test-docs: docs
	@FAIRSPAN_REQUIRE_DOCS=1 $(ONE_THREAD) .venv-docs/bin/python -m pytest \
		tests/test_docs_site.py tests/test_docs_pages.py

# --- distributions ------------------------------------------------------------------------------

# Wheels and source distributions of fairspan and fairspan-lab, in dist/, with all checks of an index.
.PHONY: dist
dist: .venv-dist/.stamp
	@.venv-dist/bin/python -m tools.distributions $(ARGS)

# --- style and types ----------------------------------------------------------------------------

.PHONY: check
check: .venv/.stamp ## ruff (rules, format), mypy, phrases to avoid, the schema of the workflow files
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/python -m tools.words
	@$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

.PHONY: format
format: .venv/.stamp ## apply ruff's format and its safe fixes
	@$(BIN)/ruff check --fix-only --quiet
	@$(BIN)/ruff format

# --- measurements -------------------------------------------------------------------------------

.PHONY: bench
bench: .venv/.stamp ## time and memory of the core, one BLAS thread
	@$(ONE_THREAD) $(BIN)/python -m benchmarks.core

# All methods on all data sets take hours; what is finished in frontier-output/ is not run again.
.PHONY: frontier
frontier: .venv-bench/.stamp ## error against parity, all methods: ARGS="--quick" for a minute's worth
	@$(if $(wildcard ../shared/data),FAIRSPAN_DATA=$${FAIRSPAN_DATA:-../shared/data}) \
		$(ONE_THREAD) .venv-bench/bin/fairspan bench frontier $(ARGS)

acceptance-%: .venv/.stamp ## `name measured limit pass` for core, house, models, price, scale, ...; fails on a miss
	@$(if $(wildcard ../shared/data),FAIRSPAN_DATA=$${FAIRSPAN_DATA:-../shared/data}) \
		$(ONE_THREAD) $(ACCEPTANCE_BIN)/python -m tools.acceptance $*

# Defects of 0.1.0: their tests fail with its code and pass with this.
.PHONY: acceptance-repair
acceptance-repair: .venv/.stamp
	@$(ONE_THREAD) $(BIN)/python -m tools.regressions $(ARGS)

ACCEPTANCE_BIN := $(BIN)

# LAFTR is trained where torch is.
acceptance-experiments: .venv-torch/.stamp

# The frontier's rivals are there alone.
acceptance-price: .venv-bench/.stamp
acceptance-price: ACCEPTANCE_BIN := .venv-bench/bin

# Equality with fairlearn is checked where it is installed.
acceptance-audit: .venv-bench/.stamp
acceptance-audit: ACCEPTANCE_BIN := .venv-bench/bin

# Versions of scikit-learn, the lowest of everything, and torch's part of the coverage.
acceptance-robustness: $(SKLEARN_ENVS:%=%/.stamp) .venv-min/.stamp .venv-torch/.stamp

# Spark is measured where it is installed.
acceptance-reach: .venv-spark/.stamp

# The report is looked at in a browser.
acceptance-explorer acceptance-people: .venv-browser/.stamp build/axe-core/package/axe.min.js
acceptance-explorer acceptance-people: ACCEPTANCE_BIN := .venv-browser/bin

acceptance-docs: .venv-docs/.stamp .venv-browser/.stamp

# --- upkeep -------------------------------------------------------------------------------------

# Resolved, not installed. torch stays at the pin already in the file: other builds of it bring
# gigabytes (the nvidia-* and triton packages, which a CPU build does not have, are left out too).
.PHONY: lock
lock: ## refresh constraints.txt to the newest versions of every extra
	@rm -rf .venv-lock && $(PYTHON) -m venv .venv-lock
	@grep '^torch==' constraints.txt > .venv-lock/torch.txt
	@.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check -c .venv-lock/torch.txt \
		--dry-run --ignore-installed --report .venv-lock/report.json -e '.[all,boosters,browser,docs,shap,spark,test,torch]' -e 'lab[rivals]' build check-wheel-contents twine
	@$(PYTHON) -c "$$LOCK" .venv-lock/report.json .venv-lock/torch.txt > .venv-lock/constraints.txt
	@mv .venv-lock/constraints.txt constraints.txt && rm -rf .venv-lock

define LOCK
import json, pathlib, re, sys
report, torch = map(pathlib.Path, sys.argv[1:])
found = (item["metadata"] for item in json.loads(report.read_text())["install"])
pins = {re.sub("[-_.]+", "-", m["name"]).lower(): m["version"] for m in found}
skip = re.compile("fairspan|torch|triton|cuda-.*|nvidia-.*")
lines = [f"{name}=={version}" for name, version in pins.items() if not skip.fullmatch(name)]
print("# Written by `make lock`: the versions that every pip call of the Makefile uses.")
print(*sorted([*lines, torch.read_text().strip()]), sep="\n")
endef
export LOCK

# Fetch the chart library of the page: VERSION=4.1.1, or the recorded version again.
.PHONY: vendor
vendor: .venv/.stamp
	@$(BIN)/python -m tools.vendor_plotly $(VERSION)

.PHONY: clean
clean: ## remove environments, caches and outputs
	@rm -rf .venv .venv-torch .venv-bench .venv-boosters .venv-shap .venv-spark .venv-no-extras .venv-min .venv-lock .venv-sklearn-* .venv-dist .venv-docs .venv-browser docs/_build docs/api/generated docs/gallery build dist demo-output audit-output \
		.pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
