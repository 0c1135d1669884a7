# Three commands do everything: 'make demo', 'make check' and 'make test'. 'make help' lists the rest.

SHELL   := /bin/bash
MODULES := . store/sqlite store/postgres store/redis store/etcd store/etcd/embedded store/etcd/testserver store/nats store/nats/testserver store/kube store/s3 store/s3/testserver reaper cmd/regent cmd/regent/browser bench
BIN     := $(CURDIR)/.bin
SEEDS   ?= 20000
BENCHTIME ?= 1s
KUBE_BENCH ?= .
# What 'make check' tests: all that needs neither a server nor the command as a process.
UNITS   := ./... ./store/sqlite/... ./reaper/... ./cmd/regent/internal/...
# The packages with files of the build with an etcd member.
EMBEDDED := ./cmd/regent ./cmd/regent/internal/config
# The API server of the tests of store kube://.
KUBE    := $(BIN)/kube-apiserver
# Checks the page for people who cannot see it.
AXE     := $(BIN)/npm/node_modules/axe-core/axe.min.js
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

export GOFLAGS := -mod=readonly

.DEFAULT_GOAL := help
.PHONY: help demo build build-embedded reference pictures check test test-kube test-deploy need-deploy lint format soak faults chaos bench bench-kube bench-peers need

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build ## a real cluster on this machine, its leader killed and frozen: who takes over, and how fast
	@$(BIN)/regent demo

build: ## the regent command, in .bin
	@mkdir -p $(BIN)
	@[ -x $(BIN)/regent ] || echo 'building regent: the first time takes a minute or two'
	@cd cmd/regent && go build -o $(BIN)/regent .

build-embedded: ## the regent command with an etcd member in it, for stores etcd+embedded:, in .bin/regent-embedded
	@mkdir -p $(BIN)
	@cd cmd/regent && go build -tags embedded -o $(BIN)/regent-embedded .

reference: ## docs/CLI.md and the man pages, from the commands themselves
	@cd cmd/regent && go test -count=1 -run 'TestReference' . -update

pictures: need ## the screenshots and the cast of the README, from real runs
	@cd cmd/regent/browser && REGENT_UPDATE=1 go test -count=1 -timeout 10m -run 'TestScreenshots|TestCast' .

check: format $(BIN)/staticcheck ## format, vet, lint, and the unit tests without servers: for every change
	@# Linters compute, tests wait: both at once, and many tests at once, keep two cores busy.
	@{ go vet $(MODULES:%=./%/...) && $(BIN)/staticcheck $(MODULES:%=./%/...) && \
		go vet -tags embedded $(EMBEDDED) && $(BIN)/staticcheck -tags embedded $(EMBEDDED); } & lint=$$!; \
	go test -short -count=1 -vet=off -p 4 -parallel 8 -timeout 10m $(UNITS) | { grep -v 'no test files' || true; }; \
	tests=$${PIPESTATUS[0]}; wait $$lint && exit $$tests

test: need ## every module's tests, with the race detector; installs what they need
	@scripts/test

test-kube: need $(KUBE) ## the tests of store kube:// that need a kube-apiserver: building that takes 10 to 15 minutes, once
	@echo "== store/kube" && cd store/kube && REGENT_KUBE_APISERVER=$(KUBE) go test -race -count=1 -timeout 30m -parallel 3 ./...
	@echo "== cmd/regent" && cd cmd/regent && REGENT_KUBE_APISERVER=$(KUBE) go test -race -count=1 -timeout 20m -run 'TestKube' .

$(KUBE): store/kube/testserver/go.mod store/kube/testserver/main.go
	@mkdir -p $(BIN)
	@echo 'building kube-apiserver: the first time takes 10 to 15 minutes'
	@cd store/kube/testserver && CGO_ENABLED=0 GOWORK=off nice go build -trimpath -ldflags '-s -w' -o $@ .

test-deploy: need-deploy ## the files of deploy: with promtool, haproxy, nginx, systemd-analyze, and in front of real nodes
	@cd cmd/regent && REGENT_DEPLOY=1 go test -count=1 -timeout 20m -run 'TestDeploy|TestUnit|TestManifest' .

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

faults: need ## real processes under every fault of a real store, a minute without an answer included, and fleets of 40, 50 and 200
	cd cmd/regent && REGENT_LONG=1 go test -race -count=1 -timeout 60m -v -run 'TestStoreFaults|TestRunWithHungStore|TestFleet' .
	cd store/s3 && REGENT_LONG=1 go test -race -count=1 -timeout 20m -parallel 8 .

chaos: ## a cluster of real processes under load, its leader killed every 10 s for 5 minutes; CHAOS changes that: CHAOS='-for 1m'
	go run ./bench/chaos $(CHAOS)

bench: ## every benchmark; BENCHTIME sets how long each runs
	@for m in $(MODULES); do (cd $$m && go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...) || exit 1; done

bench-kube: $(KUBE) ## the benchmarks of store kube://, with a kube-apiserver; KUBE_BENCH chooses among them
	cd store/kube && REGENT_KUBE_APISERVER=$(KUBE) go test -run '^$$' -bench '$(KUBE_BENCH)' -benchtime $(BENCHTIME) -timeout 20m .

bench-peers: need ## Regent beside etcd, NATS KV, River, client-go and the locks of Redis and PostgreSQL; PEERS changes what runs
	cd bench/peers && GOWORK=off go run . $(PEERS)

need-deploy: need # the programs that the files of deploy are for
	@command -v promtool >/dev/null || scripts/install prometheus
	@[ -x /usr/sbin/haproxy ] || scripts/install haproxy
	@[ -x /usr/sbin/nginx ] || scripts/install nginx-light

need: # what the tests need on a fresh Debian machine with Go: a C compiler, for the race detector, and servers, which they start themselves
	@command -v systemd-analyze >/dev/null || scripts/install systemd
	@command -v gcc >/dev/null || scripts/install gcc libc6-dev
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || scripts/install postgresql
	@[ -x /usr/sbin/pgbouncer ] || scripts/install pgbouncer
	@command -v redis-server >/dev/null && command -v redis-cli >/dev/null || scripts/install redis-server redis-tools
	@command -v curl >/dev/null || scripts/install curl
	@command -v chromium >/dev/null || scripts/install chromium
	@[ -f $(AXE) ] || { command -v npm >/dev/null || scripts/install npm; scripts/retry npm install --silent --no-save --no-package-lock --prefix $(BIN)/npm axe-core@4.14.0; }
