# The Inkling Workbench from a clone. `make demo` is the place to begin; everything lives in .venv/ and the user's cache.
#
#   PYTHON       interpreter to make .venv with (3.11 or newer)
#   ENGINE       auto (default), cpu or gpu
#   TORCH_INDEX  wheel index for torch's CPU build, asked only where pip's own sources do not have it

PYTHON ?= $(shell command -v python3.11 || command -v python3)
ENGINE ?= auto
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

VENV := .venv
RUN := $(VENV)/bin
PYTEST := $(RUN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help setup demo lab app docs test test-slow check browser clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv with the workbench and the engine (once; about 1.3 GB to download)
	@$(PYTHON) -m workbench.installing --folder $(VENV) --engine $(ENGINE) --torch-index "$(TORCH_INDEX)"

demo: setup ## compose a PDF, an image and a recording, ask, capture the routing, write report.html
	@$(RUN)/inkling demo --out report.html

lab: setup ## JupyterLab on the tutorials, engine included
	@$(RUN)/inkling lab

app: setup ## the Gradio app, engine included
	@$(RUN)/inkling app

docs: setup ## the documentation as pages, in build/docs (no network)
	@$(RUN)/python -m sphinx -q -W --keep-going -b html docs build/docs
	@echo "docs: build/docs/index.html"

test: setup browser ## every test but the slow ones and those that need a GPU
	@$(PYTEST)

test-slow: setup browser ## the slow tests: the wheel in a fresh environment, long contexts
	@$(PYTEST) -m "slow and not gpu"

check: setup ## lint, format and types
	@$(RUN)/ruff check .
	@$(RUN)/ruff format --check .
	@$(RUN)/pyright

# Browser tests drive the system's Chromium; Playwright's own download is not used. Without one they are skipped and say so.
browser:
	@if command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "browser: installing chromium and fonts (about 121 MB)" >&2; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
	    chromium fonts-liberation fonts-noto-color-emoji >/dev/null; \
	else echo "browser: no chromium here; the browser tests will be skipped (sudo apt-get install chromium)" >&2; fi

clean: ## remove the environment and what builds and tests leave (the user's cache stays)
	rm -rf $(VENV) build dist report.html .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
