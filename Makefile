# Three commands do everything: 'make demo', 'make check' and 'make test'. 'make help' lists the rest.

SHELL   := /bin/bash
MODULES := . store/sqlite store/redis store/s3 store/s3/testserver reaper cmd/regent bench
BIN     := $(CURDIR)/.bin
SEEDS   ?= 20000
BENCHTIME ?= 1s
# What 'make check' tests: all that needs neither a server nor the command as a process.
UNITS   := ./... ./store/sqlite/... ./reaper/... ./cmd/regent/internal/...
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

export GOFLAGS := -mod=readonly

.DEFAULT_GOAL := help
.PHONY: help demo build check test lint format soak faults chaos bench need

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build ## three processes on the embedded store, the leader killed: who takes over, and how fast
	@$(BIN)/regent demo

build: ## the regent command, in .bin
	@mkdir -p $(BIN)
	@cd cmd/regent && go build -o $(BIN)/regent .

check: format $(BIN)/staticcheck ## format, vet, lint, and the unit tests without servers: for every change
	@go vet $(MODULES:%=./%/...)
	@$(BIN)/staticcheck $(MODULES:%=./%/...)
	@# Tests in virtual time compute, those of real time wait: four packages at once keep two cores busy.
	@go test -short -count=1 -vet=off -p 4 -timeout 10m $(UNITS) | { grep -v 'no test files' || true; }; exit $${PIPESTATUS[0]}

test: need ## every module's tests, with the race detector; installs what they need
	@for m in . store/sqlite store/redis; do echo "== $$m" && (cd $$m && go vet ./... && go test -race -timeout 20m ./...) || exit 1; done
	@# Real processes wait more than they compute. So more of them run at once, and the model and the pure core beside them.
	@mkdir -p $(BIN)
	@nice go test -timeout 20m ./model ./internal/explore ./internal/sim/cores >$(BIN)/model.log 2>&1 & model=$$!; \
	for m in store/s3 reaper cmd/regent bench; do \
		echo "== $$m" && (cd $$m && go vet ./... && go test -race -timeout 20m -parallel 4 ./...) || { kill $$model; exit 1; }; \
	done; \
	echo "== the model and the pure core, whole"; wait $$model; code=$$?; cat $(BIN)/model.log; exit $$code

lint: need format $(BIN)/staticcheck ## gofmt, go vet, staticcheck, tidy modules
	@for m in $(MODULES); do echo "== $$m" && (cd $$m && go vet ./... && $(BIN)/staticcheck ./... && go mod tidy -diff) || exit 1; done

format: # which files gofmt would change
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "not gofmt'ed: $$unformatted"; exit 1; }

$(BIN)/staticcheck:
	@GOBIN=$(BIN) scripts/retry go install $(STATICCHECK)

soak: ## the simulation over SEEDS seeds, every mutant, a fault for each scenario, and the explorer and the model with larger bounds
	REGENT_MUTANTS=all go test -count=1 -timeout 0 -run 'TestMutants' .
	REGENT_FAULTS=all go test -count=1 -timeout 0 -run 'TestFaults' ./internal/house
	REGENT_MUTANTS=all REGENT_SEEDS=$(SEEDS) go test -count=1 -timeout 0 -run 'TestSeeds|TestTeeth' ./internal/sim
	go test -count=1 -timeout 0 -run Holds -v ./model -model.deep
	REGENT_MUTANTS=all go test -count=1 -timeout 0 -v ./internal/explore -explore.deep
	REGENT_NAMES=1000000 go test -count=1 -timeout 0 -run 'TestManyLockNames' -v ./internal/core
	REGENT_SEEDS=$$(( $(SEEDS) * 10 )) go test -count=1 -timeout 0 -run 'TestSeeds|TestLiveness' ./internal/sim/cores
	REGENT_MUTANTS=all go test -count=1 -timeout 0 -v -run 'TestMutants|TestReplay' -bench Large -benchtime 1x ./internal/sim/cores

faults: need ## real processes under every fault of a real store, a minute without an answer included, and fleets of 40 and 50
	cd cmd/regent && REGENT_LONG=1 go test -race -count=1 -timeout 60m -v -run 'TestStoreFaults|TestRunWithHungStore|TestFleet' .

chaos: ## a cluster of real processes under load, its leader killed every 10 s for 5 minutes; CHAOS changes that: CHAOS='-for 1m'
	go run ./bench/chaos $(CHAOS)

bench: ## every benchmark; BENCHTIME sets how long each runs
	@for m in $(MODULES); do (cd $$m && go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...) || exit 1; done

need: # what the tests need on a fresh Debian machine with Go: a C compiler, for the race detector, and servers, which they start themselves
	@command -v systemd-analyze >/dev/null || scripts/install systemd
	@command -v gcc >/dev/null || scripts/install gcc libc6-dev
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || scripts/install postgresql
	@command -v redis-server >/dev/null && command -v redis-cli >/dev/null || scripts/install redis-server redis-tools
	@command -v curl >/dev/null || scripts/install curl
