# Every command of the project. `make` or `make help` lists them.
# Each does its own set-up first: seconds when nothing changed, minutes the first time.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help

# A Python that make PYTHON=... names is used, or set-up fails. Otherwise the newest that runs is taken.
NAMED := $(if $(filter command,$(firstword $(origin PYTHON))),--only)
PYTHON ?= python3
VENV_PYTHON := .venv/bin/python
PROGRAM := $(VENV_PYTHON) -m ansible_collections.composable.infra
PYTEST := $(VENV_PYTHON) -m pytest
STAGE := $(VENV_PYTHON) -m tools.stage
GATES := lint types
SLOW_GATES := sanity ansible-lint importer docs-lint execution-environment

# Each has a lab or folders of its own; the longest first.
SCENARIOS := molecule-operations molecule-gpu_stack molecule-awx molecule-node_prepare molecule-eda molecule-lab

# make test: these run AT_ONCE at a time, first what tells within a minute, then the longest first
TEST_STAGES := $(GATES) unit sanity-quick integration conformance chaos molecule-eda docs-lint execution-environment
# ... and real clusters run after them, with the machine to themselves
TEST_ALONE := e2e
# make test-all: what make test has in full, and what it leaves out
ALL_STAGES := $(GATES) unit sanity-all integration-all conformance-all chaos-all ansible-lint importer docs-lint \
  execution-environment targets $(SCENARIOS)
ALL_ALONE := archive-all e2e e2e-slow chaos-lab releases
RELEASES := 1.34 1.35 1.36 1.37
# Seconds after which a stage is ended, with what it printed last.
DEADLINE ?= 1800

# Compiled files in one place, also where the environment says to write none: otherwise each of the many processes of a
# test run compiles everything anew.
export PYTHONPYCACHEPREFIX := $(CURDIR)/.cache/pycache
unexport PYTHONDONTWRITEBYTECODE

# make demo: which front door, which handover, which nodes, and whether to leave it running
DOOR ?= controller
MODE ?=
KUBERNETES ?=
NODES ?= simulated
KEEP ?=
VERBOSE ?=
DEMO_OPTIONS := --door $(DOOR) --nodes $(NODES) --svg dist/demo.svg $(if $(MODE),--mode $(MODE)) $(if $(KEEP),--keep) $(if $(VERBOSE),--verbose) $(if $(KUBERNETES),--kubernetes $(KUBERNETES) --no-feature-gates)

# further arguments for pytest, for example: make unit ARGS="-k claims -x"
ARGS ?=

# make conformance: every fault profile and 200 random histories of each manager, instead of a choice
FULL ?=
CONFORMANCE := $(if $(FULL),CONFORMANCE_PROFILES=all CONFORMANCE_RUNS=200)

# make chaos: how many random runs, and the seed of the first: make test shall not fail by chance. LAB=1: on the lab
RUNS ?= 50
SEED ?= 1
LAB ?=

# make sanity, make integration: another ansible-core than that of .venv
CORE ?=

# make address: where the project is published; make release-dry-run: what the tag says
URL ?=
VERSION ?=

# how many test files of a stage run at a time
PARALLEL ?= 2

# make hardware: which GPU, by PCI address or UUID, and whether it may be taken away
GPU ?=
DESTRUCTIVE ?=

# make manifests: file with the variables of the role controllers
VARS ?=

# make repeat
TESTS ?=
TIMES ?= 30
LOAD ?= 4

# how many stages run at a time
AT_ONCE ?= 2
# how many end-to-end tests run at a time: they mostly wait for the scheduler, which looks every 5 s
CLUSTERS ?= 4

.PHONY: help setup demo test test-all integration-all conformance-all chaos-all chaos-lab releases sanity-quick sanity-all targets hardware repeat archive archive-all gates unit integration chaos molecule conformance managers-page configuration-page playbooks-page manifests e2e e2e-slow lint types docs-lint ansible-lint sanity importer bench build docsite protos diagrams picture page-pictures address release-dry-run clean execution-environment

help: ## list the targets and their options
	@echo "composable.infra: make TARGET [OPTION=value]"
	@awk -v width=80 '/^[a-z0-9-]+:.*## / { name = $$0; sub(/:.*/, "", name); sub(/^[^#]*## /, ""); \
	  line = sprintf("  %-21s", name); count = split($$0, words, " "); \
	  for (at = 1; at <= count; at++) { \
	    if (length(line " " words[at]) > width) { print line; line = sprintf("%23s", "") } \
	    line = line " " words[at] } \
	  print line }' $(MAKEFILE_LIST)
	@echo "PYTHON=python3.13 makes .venv with that Python."
	@echo "Stages take AT_ONCE=2, those at a time, and DEADLINE=1800 seconds for each."
	@echo "CLUSTERS=4 is the number of end-to-end tests at a time."
	@echo "Tests take ARGS=\"-k claims -x\" for pytest, and PARALLEL=2, the files at a time."

setup: ## make .venv with the pinned packages (nearly every target does this first)
	@python=$$(tools/setup/find_python.sh $(NAMED) $(PYTHON)); \
	"$$python" -m tools.setup $(if $(filter test e2e,$(MAKECMDGOALS))$(filter rulebook,$(DOOR)),--need-java)

demo: setup ## show the collection at work: DOOR=controller|rulebook|playbook, MODE=gated|direct|reschedule|autoscale|kueue, NODES=simulated|real (as root), KUBERNETES=1.34, KEEP=1 leaves it running, VERBOSE=1 tells each step on a node
	@$(PROGRAM).lab.demo $(DEMO_OPTIONS)

STAGE_MAKE = $(MAKE) --no-print-directory $(if $(KEEP_GOING),-k) DEADLINE=$(DEADLINE)
# $(call stages,beside each other,alone): run them, end with a table
define stages
@$(STAGE) begin; status=0; \
$(STAGE_MAKE) -O -j $(AT_ONCE) $(1:%=stage-%) || status=$$?; \
if [ $$status = 0 ] || [ -n "$(KEEP_GOING)" ]; then $(STAGE_MAKE) $(2:%=stage-%) || status=$$?; fi; \
$(STAGE) table $(1) $(2); exit $$status
endef

test: setup ## what tells: gates, unit, integration, one scenario, end to end; KEEP_GOING=1: to the end, though one fails
	$(call stages,$(TEST_STAGES),$(TEST_ALONE))

test-all: DEADLINE = 10800
test-all: setup ## everything, before a release: hours; ends with one table
	$(call stages,$(ALL_STAGES),$(ALL_ALONE))

gates: setup ## all gates without the tests
	$(call stages,$(GATES) $(SLOW_GATES),)

stage-%:
	@$(STAGE) run $* --deadline $(DEADLINE)

unit: setup ## fast tests of single parts, no network
	@$(PYTEST) tests/unit -m "not grpc" -n $(PARALLEL) --dist loadfile $(ARGS)
	@$(PYTEST) tests/unit -m grpc -n $(PARALLEL) --dist loadfile $(ARGS) || test $$? = 5

integration: setup ## tests of parts together: real TLS on loopback; CORE=2.16: modules and inventories under that ansible-core
	@$(if $(CORE),export ANSIBLE_PROGRAMS="$$($(VENV_PYTHON) -m tools.gates.other_core $(CORE))";) \
	$(PYTEST) tests/integration$(if $(CORE),/modules) -m "not slow" -n $(PARALLEL) --dist loadfile $(ARGS)

integration-all: setup ## those of integration, and those that it leaves out
	@$(PYTEST) tests/integration -n $(PARALLEL) --dist loadfile $(ARGS)

archive: setup ## commands of README and quickstart, from the built archive under the newest ansible-core
	@$(PYTEST) tests/archive -m "not slow" $(ARGS)

archive-all: setup ## commands of all pages, from the built archive under four pairs of ansible-core and Python
	@$(PYTEST) tests/archive $(ARGS)

conformance: setup ## every CDI Manager's emulator under faults; FULL=1: every fault, 200 random histories of each
	@$(CONFORMANCE) $(PYTEST) tests/conformance $(if $(FULL),,-m "not slow") -n $(PARALLEL) --dist loadgroup $(ARGS)

chaos: setup ## failure stories, and random workloads under random faults, in virtual time: RUNS=50, SEED=1 of the first run, LAB=1 runs them on the lab; a failure is made small
	@$(if $(LAB),,PYTHONHASHSEED=0 $(PYTEST) tests/chaos tests/stories $(if $(FULL),,-m "not slow") -n $(PARALLEL) --dist load $(ARGS))
	@$(PROGRAM).tests.chaos --runs $(RUNS) --parallel $(PARALLEL) --seed $(SEED) $(if $(LAB),--lab $(ARGS))

conformance-all: setup ## conformance with FULL=1
	@$(MAKE) --no-print-directory conformance FULL=1

chaos-all: setup ## 1,000 random runs, and every guard broken on purpose
	@$(MAKE) --no-print-directory chaos RUNS=1000 FULL=1

chaos-lab: setup ## 20 random runs on the lab
	@$(MAKE) --no-print-directory chaos LAB=1 RUNS=20

releases: setup ## run the demo with each handover on each Kubernetes release that the lab knows
	@set -e; for release in $(RELEASES); do for way in "gated --no-feature-gates" direct reschedule; do \
	  $(PROGRAM).lab.demo --kubernetes $$release --mode $$way; done; done

managers-page: setup ## write docs/managers.md and docs/contributors/conformance.md from the code and the conformance checks
	@$(PROGRAM).tests.conformance.managers_page

configuration-page: setup ## write docs/configuration.md from the documentation of the option config
	@$(VENV_PYTHON) -m tools.configuration

playbooks-page: setup ## write docs/playbooks.md from the table of the playbooks' variables
	@$(VENV_PYTHON) -m tools.playbooks_page

e2e: setup ## tests of the whole system on a real control plane, and those of make archive
	@$(VENV_PYTHON) -m tools.end_to_end tests/e2e tests/archive -m "not slow" -n $(CLUSTERS) --dist loadfile $(ARGS)

e2e-slow: setup ## those that make test leaves out: playbooks and roles on the lab, agreement with the scheduler
	@$(PROGRAM).lab.binaries.helm .venv/bin
	@$(VENV_PYTHON) -m tools.end_to_end tests/e2e -m slow -n $(PARALLEL) --dist loadfile $(ARGS)

hardware: setup ## what only a node with an NVIDIA GPU shows, as root: GPU=0000:65:00.0 names one of several, DESTRUCTIVE=1 also unbinds, removes and rescans it
	@GPU='$(GPU)' DESTRUCTIVE='$(DESTRUCTIVE)' $(PROGRAM).tests.hardware $(ARGS)

repeat: setup ## run TESTS=tests/e2e/… many times beside busy processes: TIMES=30, LOAD=4
	@$(PROGRAM).lab.binaries.helm .venv/bin
	@$(VENV_PYTHON) -m tools.repeat --times $(TIMES) --load $(LOAD) -- $(TESTS) $(ARGS)

molecule: setup ## the roles' scenarios, two at a time; one alone: make molecule-awx
	$(call stages,$(SCENARIOS),)

molecule-%: setup
	@$(if $(filter $*,gpu_stack operations),$(PROGRAM).lab.binaries.helm .venv/bin)
	@ANSIBLE_COLLECTIONS_PATH=$(CURDIR)/.venv/collections PATH="$(CURDIR)/.venv/bin:$$PATH" $(VENV_PYTHON) -m molecule test -s $*

lint: setup ## ruff on all Python, and the language of pages, docstrings, comments and messages
	@$(VENV_PYTHON) -m ruff check
	@$(VENV_PYTHON) -m tools.words --check
	@$(VENV_PYTHON) -m tools.docstrings --check
	@$(VENV_PYTHON) -m tools.docstrings --messages --check

types: setup ## mypy --strict on all Python
	@$(VENV_PYTHON) -m tools.gates.types

docs-lint: setup ## antsibull-docs and antsibull-changelog
	@$(VENV_PYTHON) -m tools.gates.docs

ansible-lint: setup ## ansible-lint, production profile
	@$(VENV_PYTHON) -m tools.gates.ansible_lint

sanity: setup ## ansible-test sanity: CORE=2.16 runs that ansible-core
	@$(VENV_PYTHON) -m tools.gates.sanity

sanity-quick: setup ## ansible-test sanity without its two slow tests, import and pylint
	@$(VENV_PYTHON) -m tools.gates.sanity --quick

sanity-all: setup ## ansible-test sanity on all files, also on those that no plugin loads
	@$(VENV_PYTHON) -m tools.gates.sanity --all

targets: setup ## ansible-test integration on the emulator: CORE=2.16 runs that ansible-core
	@CORE=$(CORE) $(VENV_PYTHON) -m tools.gates.targets $(ARGS)

execution-environment: setup ## ansible-builder introspect and create, without building the image
	@$(VENV_PYTHON) -m tools.gates.execution_environment

importer: setup ## build the archive and let galaxy-importer judge it
	@$(VENV_PYTHON) -m tools.gates.importer

bench: setup ## measure, write tests/bench/results and docs/contributors/benchmarks.md
	@$(PROGRAM).tests.bench $(ARGS)

manifests: setup ## write what the role controllers applies into dist/manifests, in its order: VARS=site.yml has its variables
	@ANSIBLE_COLLECTIONS_PATH=$(CURDIR)/.venv/collections .venv/bin/ansible localhost -o -m ansible.builtin.include_role \
	  -a name=composable.infra.controllers $(if $(VARS),-e '@$(VARS)') -e controllers_state=manifests \
	  -e controllers_manifests=$(CURDIR)/dist/manifests

protos: setup ## generate the gRPC messages from their .proto files
	@$(VENV_PYTHON) -m tools.protos

docsite: setup ## build the documentation site, guides and plugins, into dist/docs
	@$(VENV_PYTHON) -m tools.docsite.build

diagrams: setup ## draw the pictures of docs/ from tools/diagrams/source.yml
	@$(VENV_PYTHON) -m tools.diagrams

picture: setup ## run the demo and make the moving picture of the README from what it prints
	@$(PROGRAM).lab.demo --mode gated --no-feature-gates | tee /dev/stderr | \
	  $(VENV_PYTHON) -m tools.picture docs/images/demo.svg --begin 'creates pod train'

page-pictures: setup ## run the page's test on the lab and make the pictures of the page from it; needs Chromium
	@PAGE_PICTURES=$(CURDIR)/docs/images $(PYTEST) tests/e2e/flows/test_page.py $(ARGS)

address: setup ## say where the project is published, or set it everywhere: URL=https://github.com/OWNER/composable.infra
	@$(VENV_PYTHON) -m tools.address $(if $(URL),'$(URL)')

release-dry-run: setup ## make everything of a release in dist/ and publish nothing: VERSION=0.1.0 compares
	@$(VENV_PYTHON) -m tools.release $(if $(VERSION),--version '$(VERSION)')

build: ## build the collection's archive into dist/; needs ansible-galaxy, but no set-up
	@python=$$(tools/setup/find_python.sh $(NAMED) $(PYTHON)); "$$python" -m tools.gates.build

clean: ## remove .venv, caches and archives (not the lab's binaries, which checkouts share)
	rm -rf .venv .cache dist
