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

# More flags for go test, for example TESTFLAGS='-run TestScripts -v'.
TESTFLAGS ?=
TEST_TIMEOUT ?= 20m
FUZZTIME ?= 20s

.DEFAULT_GOAL := help
.PHONY: help build run test race lint fmt fuzz bench doctor clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/assay, bin/guestd and bin/assay-boot
	@mkdir -p $(BIN)
	$(BUILD) -ldflags '-s -w -X assay/internal/cli.version=$(VERSION)' -o $(BIN)/assay ./cmd/assay
	@# No version in guestd: it is part of every template, whose digest must
	@# change only when guestd does.
	$(BUILD) -ldflags '-s -w' -o $(BIN)/guestd ./cmd/guestd
	$(BUILD) -ldflags '-s -w' -o $(BIN)/assay-boot ./cmd/assay-boot

run: ## build all, make the base template, judge the sample problems
	@tools/install-packages $(RUN_PACKAGES)
	@$(MAKE) --no-print-directory build
	@tools/judge-examples $(BIN)/assay

# Packages are tested one after another: several start machines and measure
# time, and would disturb each other. tools/with-machines builds the template
# that they need and says where it is.
test: build ## run all tests (TESTFLAGS='-run Name -v')
	tools/with-machines $(BIN) $(GO) test -p 1 -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./...

race: build ## run all tests with the race detector (needs gcc)
	CGO_ENABLED=1 tools/with-machines $(BIN) $(GO) test -race -p 1 -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./...

lint: $(BIN)/golangci-lint ## check format and run the linters (.golangci.yml)
	@unformatted=$$(gofmt -l cmd internal); if [ -n "$$unformatted" ]; then \
	  echo "not formatted, run \"make fmt\":"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(BIN)/golangci-lint run

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
