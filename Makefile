# Every command of the project. `make` or `make help` lists them.
# Each does its own set-up first: seconds when nothing changed, minutes the first time.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV_PYTHON := .venv/bin/python
PROGRAM := $(VENV_PYTHON) -m ansible_collections.composable.infra
PYTEST := $(VENV_PYTHON) -m pytest
GATES := lint types
SLOW_GATES := docs-lint ansible-lint sanity importer

# make demo: which front door, which handover, and whether to leave it running
DOOR ?= controller
MODE ?=
KEEP ?=
DEMO_OPTIONS := --door $(DOOR) $(if $(MODE),--mode $(MODE)) $(if $(KEEP),--keep)

# further arguments for pytest, for example: make unit ARGS="-k claims -x"
ARGS ?=

# how many test files make e2e runs at a time; they mostly wait for the scheduler
PARALLEL ?= 2

.PHONY: help setup demo test gates unit integration molecule e2e lint types docs-lint ansible-lint sanity importer bench build clean

help: ## list what can be made
	@echo "composable.infra: make TARGET"
	@sed -nE 's/^([a-z0-9-]+):[^#]*## (.*)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'

setup: ## make .venv with the pinned packages (every other target does this too)
	@python=$$(tools/setup/find_python.sh $(PYTHON)); \
	"$$python" -m tools.setup $(if $(filter test e2e,$(MAKECMDGOALS))$(filter rulebook,$(DOOR)),--need-java)

demo: setup ## show it at work: DOOR=controller|rulebook|playbook, MODE=..., KEEP=1 leaves it running
	@$(PROGRAM).lab.demo $(DEMO_OPTIONS)

test: setup ## everything: gates and all tests; stops at the first stage that fails
	@$(VENV_PYTHON) -m tools.stages $(GATES) unit $(SLOW_GATES) integration molecule e2e

gates: setup ## all gates without the tests
	@$(VENV_PYTHON) -m tools.stages $(GATES) $(SLOW_GATES)

unit: setup ## fast tests of single parts, no network
	@$(PYTEST) tests/unit $(ARGS)

integration: setup ## tests of parts together: real TLS on loopback
	@$(PYTEST) tests/integration $(ARGS)

e2e: setup ## tests of the whole system on a real control plane
	@$(PYTEST) tests/e2e -n $(PARALLEL) --dist loadfile $(ARGS)

molecule: setup ## the roles' scenarios
	@ANSIBLE_COLLECTIONS_PATH=$(CURDIR)/.venv/collections PATH="$(CURDIR)/.venv/bin:$$PATH" $(VENV_PYTHON) -m molecule test --all

lint: setup ## ruff on all Python
	@$(VENV_PYTHON) -m ruff check

types: setup ## mypy --strict on all Python
	@$(VENV_PYTHON) -m tools.gates.types

docs-lint: setup ## antsibull-docs and antsibull-changelog
	@$(VENV_PYTHON) -m tools.gates.docs

ansible-lint: setup ## ansible-lint, production profile
	@$(VENV_PYTHON) -m tools.gates.ansible_lint

sanity: setup ## ansible-test sanity
	@$(VENV_PYTHON) -m tools.gates.sanity

importer: setup ## build the archive and let galaxy-importer judge it
	@$(VENV_PYTHON) -m tools.gates.importer

bench: setup ## measure, write tests/bench/results and docs/performance.md
	@$(PROGRAM).tests.bench $(ARGS)

build: setup ## build the collection's archive into dist/
	@$(VENV_PYTHON) -m tools.gates.build

clean: ## remove .venv, caches and archives (not the lab's binaries, which checkouts share)
	rm -rf .venv .cache dist
