# Everything a developer does with Assay. "make help" lists it.

SHELL := /bin/bash
GO    ?= go
BIN   := $(CURDIR)/bin

# Static and without machine paths: the machines' processes are started again
# inside empty roots, and the same source gives the same bytes anywhere.
export CGO_ENABLED := 0
export GOFLAGS     := -buildvcs=false $(filter-out -buildvcs=%,$(GOFLAGS))
BUILD   := $(GO) build -trimpath
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# What "make run" needs of Debian besides Go.
RUN_PACKAGES := mmdebstrap erofs-utils

# More flags for "make run", for example SERVE_FLAGS='--listen 0.0.0.0:8080'.
SERVE_FLAGS ?=

# More flags for go test, for example TESTFLAGS='-run TestScripts -v'.
TESTFLAGS ?=
TEST_TIMEOUT ?= 40m
FUZZTIME ?= 20s

.DEFAULT_GOAL := help
.PHONY: help build run test race client-packages lint generate fmt fuzz bench doctor clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/assay and its companions guestd, assay-boot and assay-box
	@mkdir -p $(BIN)
	$(BUILD) -ldflags '-s -w -X assay/internal/cli.version=$(VERSION)' -o $(BIN)/assay ./cmd/assay
	@# No version in guestd: it is part of every template, whose digest must
	@# change only when guestd does.
	$(BUILD) -ldflags '-s -w' -o $(BIN)/guestd ./cmd/guestd
	$(BUILD) -ldflags '-s -w' -o $(BIN)/assay-boot ./cmd/assay-boot
	$(BUILD) -ldflags '-s -w' -o $(BIN)/assay-box ./cmd/assay-box

run: ## build all, make the base template, start the server with judged sample problems and a graded class
	@tools/install-packages $(RUN_PACKAGES)
	@$(MAKE) --no-print-directory build
	@$(BIN)/assay serve --samples examples $(SERVE_FLAGS)

# Packages are tested one after another: several start machines and measure
# time, and would disturb each other. tools/with-machines builds the template
# that they need and says where it is; tools/with-postgres starts the database.
test: build e2e/node_modules client-packages ## run all tests (TESTFLAGS='-run Name -v')
	tools/with-postgres tools/with-machines $(BIN) $(GO) test -p 1 -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./...

# What the tests of pages need besides chromium and Node.
e2e/node_modules: e2e/package.json e2e/package-lock.json
	@if command -v npm >/dev/null; then cd e2e && npm ci --no-audit --no-fund && touch node_modules; \
	else echo "npm is not installed: pages are not tested in a browser" >&2; fi

# What the tests of clients need: published packages, and a compiler.
client-packages:
	@tools/install-compat-packages

race: build e2e/node_modules client-packages ## run all tests with the race detector (needs gcc)
	CGO_ENABLED=1 tools/with-postgres tools/with-machines $(BIN) $(GO) test -race -p 1 -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./...

lint: $(BIN)/golangci-lint ## check format and run the linters (.golangci.yml)
	@unformatted=$$(gofmt -l cmd internal); if [ -n "$$unformatted" ]; then \
	  echo "not formatted, run \"make fmt\":"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	tools/verify-generated
	$(BIN)/golangci-lint run

generate: ## make the Go code that follows from api/openapi.yaml
	tools/generate

fmt: $(BIN)/golangci-lint ## format all Go files
	$(BIN)/golangci-lint fmt

$(BIN)/golangci-lint: tools/go.mod tools/go.sum
	@mkdir -p $(BIN)
	$(GO) -C tools build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

fuzz: ## run every fuzz test for FUZZTIME (20s)
	@tools/fuzz $(FUZZTIME)

bench: build ## measure the engine on this host
	$(BIN)/assay bench sandbox

doctor: build ## check this host
	$(BIN)/assay doctor

clean: ## remove what was built (templates stay: "assay template rm")
	rm -rf $(BIN)
