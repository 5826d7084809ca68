# Each recipe prints its figures last and exits non-zero when one falls short.
set shell := ["bash", "-euo", "pipefail", "-c"]
export PATH := justfile_directory() / ".venv/bin:" + env("PATH")

# What can be done here
default:
    @just --list --unsorted

# Make .venv from the hashed locks
setup:
    bash .ci/setup

# Format, lint, layers, types and the tests nearest to the change: within a minute, before every commit
check:
    python tools/suites.py check

# All tests with coverage
test:
    python tools/suites.py "all tests"

# Everything: all tests with coverage, all types, long histories, campaigns at commit size; with `--measure` keep what it cost
nightly *args:
    bash .ci/packages
    bash .ci/servers
    python tools/suites.py nightly {{args}}

# What tests and suites cost in CPU seconds, by suite and directory; by file with `--files`
costs *args:
    python tools/costs.py {{args}}

# Random histories against independent models: 10,000 each, or 100,000 with `full`
properties size="":
    VEGA_HISTORIES={{ if size == "full" { "100000" } else { "10000" } }} \
        pytest -q -n2 --timeout=0 -m properties --ignore=tests/policy/test_supervision_properties.py
    VEGA_HISTORIES={{ if size == "full" { "100000" } else { "10000" } }} \
        pytest -q -s --timeout=0 tests/policy/test_supervision_properties.py

# The language by its test programs, whole and step by step, and by 1,000 generated ones, or 10,000 with `full`
language size="":
    python -m benchmarks.language {{size}}

# Parallel runs as sequential ones: 1,000 random programs, or 10,000 with `full`; planted faults; makespan
parallel size="":
    python -m campaigns.parallel {{size}}

# Questions and guards in 1,000 random programs, or 10,000 with `full`: no call before an answer, waste within its limit
consent size="":
    python -m campaigns.consent {{size}}

# Programs that models write, 1,000 by chance and 149 by malice: their quotes and manifests are kept
authored programs="1000":
    python -m campaigns.authored {{programs}}

# Programs from Python people and from models: pairs and refusals; 500 generated programs under CPython and under
# Vega, or 10,000 with `full`; 200 by chance and 149 by malice under their quotes, or 1,000
programs size="":
    pytest -q -n2 tests/lang/python tests/authored
    python -m benchmarks.python_programs {{ if size == "full" { "10000" } else { "500" } }}
    python -m campaigns.authored {{ if size == "full" { "1000" } else { "200" } }}

# Two sets of thirty tasks, their programs written from the card alone and never run before: how many check, how many work as written
card-tasks *args:
    python -m campaigns.card_tasks {{args}}

# Hostile programs and whoever looks at them: CPU and memory of 200 bombs, the loop meanwhile, clients beside a flood of them
admission bombs="200":
    python -m campaigns.admission {{bombs}}

# Models that write programs, end to end: scripted over three wires, a real small one, MCP clients, the plan for 355 agents
agents-write:
    bash .ci/setup_e2e
    pytest -q tests/authored/test_wire.py tests/authored/test_plan.py tests/mcp_server tests/cli/test_demo_plan.py \
        tests/lang/test_card.py tests/e2e/test_authored.py

# The parser against the grammar, and the formatter, on 10,000 generated programs; bombs; speed
grammar programs="10000":
    VEGA_PROGRAMS={{programs}} pytest -q -n2 --timeout=0 tests/lang/test_grammar_properties.py \
        tests/lang/test_formatting_properties.py
    python -m tests.lang.bombs
    python -m benchmarks.language_speed

# Hostile bytecode: 10,000 mutated .vgb files, refused or run to a clean end within their fuel
bytecode mutants="10000":
    VEGA_MUTANTS={{mutants}} pytest -q -n2 --timeout=0 tests/vm/test_mutants.py

# Heads, import circles, class names and words of the source tree, beside their limits
shape:
    python tools/shape.py

# Counts that may only fall (odd names, long calls, phrases of our dialect …) beside their limits; `--places` shows where, and
# `--write` lowers the limits to what is there now
counts *args:
    python tools/counts.py {{args}}

# How far our English is from well-known documentation: the ten worst pages and modules, or the words of the files named
prose *files:
    python tools/prose.py {{files}}

# The product as one table: what each way to write work is promised, each cell a test of the installed wheel
contract *words:
    python -m campaigns.contract {{words}}

# What a newcomer types, from the wheel, without a key (`--write` keeps the transcript in the tutorial)
first-five-minutes *args:
    python -m campaigns.first_five_minutes {{args}}

# Every key of vega.toml is changed, and its effect is seen from outside of the installed wheel
settings *words:
    python -m campaigns.settings {{words}}

# Which source files a call enters, beside its limit; with `--files` their names
flow *args:
    python tools/flow.py {{args}}

# Every wire of every provider over sockets, as the table of the reference (`--write` puts it there)
providers *args:
    python -m campaigns.providers {{args}}

# What leaves a runtime: spans over gRPC and HTTP, metrics, log lines, at receivers that share no code with it
telemetry *args:
    python -m campaigns.telemetry {{args}}

# Providers whose key is in the environment: our bounds beside their counts, for at most five cents; never in CI
live *args:
    python -m campaigns.live {{args}}

# Operations per second, as ratios to a bare function call
bench:
    python -m benchmarks

# What we add to a call, beside limits and other frameworks (benchmarks/peers_setup.sh first)
overhead *args:
    python -m benchmarks.overhead {{args}}

# How CPU time grows with the work, as local exponents: short, or in full with `full`; curves by name; with `limits` what an
# ask and a fan-out of 10,000 may take
growth *args:
    python -m benchmarks.growth {{args}}

# How long one step of ours holds the event loop, p99 and cause: 1,000 of each, or 10,000 with `full`; works by name
stalls *args:
    python -m benchmarks.stalls {{args}}

# A thousand calls at once by us, by LangGraph and by bare asyncio, with the same client (benchmarks/peers_setup.sh first)
fan-outs *args:
    python -m benchmarks.fan_outs {{args}}

# A day of one runtime, 10,000 programs, or a million with `full`, and a quarter more: memory stays flat, files are bounded
life *args:
    python -m benchmarks.life {{args}}

# Budgets that processes share, on PostgreSQL and on SQLite files: pairs a second, beside one call a transaction, and
# what the slowest process gets
shared-budgets:
    bash .ci/servers
    python -m benchmarks.postgres

# What commands take to begin, as multiples of a bare Python
starting:
    python -m benchmarks.starting

# Ten programs, as speed-ups over one call after the other, beside asyncio by hand, LangGraph and APPL
speedups *args:
    bash benchmarks/speedups/setup.sh
    python -m benchmarks.speedups {{args}}

# Programs that models write beside Pydantic AI's harness: known before, above a cap, sent again after a kill
beside-peers *parts:
    bash benchmarks/peers_programs/setup.sh
    python -m benchmarks.peers_programs {{parts}}

# Small changes of `src`, drawn by the hash of the last commit, and the tests nearest to each: survivors as diffs; `--seed
# HASH`, `--cpu SECONDS` for each mutant, `--minutes`
mutants size="100" *args:
    python tools/mutants.py {{size}} {{args}}

# A model of counters, limits and constraints, and a model of waiting for money, each under so many random histories; each
# of the planted faults has to be found
money-model histories="100000":
    python -m campaigns.money_model {{histories}}
    python -m campaigns.waiting_model {{histories}}

# Calls that wait for money inside of other calls: schedules in virtual time, then in two processes, on SQLite and on PostgreSQL
waiting schedules="1000" processes="50":
    bash .ci/servers
    python -m campaigns.waiting {{schedules}}
    python -m campaigns.waiting processes {{processes}}

# Four processes that disagree about caps, periods, names and clocks on one ledger: so many histories on SQLite, or on
# PostgreSQL; with `faults` four planted faults, each of which has to be found
disagreement *words:
    python -m campaigns.disagreement {{words}}

# Caps, leaks, one retry layer and attacks: commit size, or every row in full with `full`; with `full` also 200 histories
# of processes that disagree on SQLite and 200 on PostgreSQL
money size="":
    pytest -q tests/store tests/runtime/test_{gate,wire,attacks_budget,refusals}.py \
        tests/runtime/test_{cancel_leaks,kill_leaks,timeouts_on_the_wire}.py
    short=0; python -m campaigns.money {{size}} || short=1; \
        for where in sqlite postgres; do \
            python -m campaigns.disagreement {{ if size == "full" { "200" } else { "3" } }} $where || short=1; \
        done; \
        {{ if size == "full" { "python -m campaigns.disagreement faults || short=1;" } else { "" } }} exit $short

# The kernel: its tests, random pipelines against a naive walk (10,000 with `full`), 10,000 processes on each store; with
# `full` also a good client beside every class of attack
kernel size="":
    VEGA_HISTORIES={{ if size == "full" { "10000" } else { "100" } }} pytest -q --timeout=0 tests/kernel tests/store/test_tenants.py
    short=0; python -m campaigns.kernel || short=1; \
        {{ if size == "full" { "python -m campaigns.kernel_attacks || short=1;" } else { "" } }} exit $short

# Servers of a kernel killed and its PostgreSQL crashed under load: 0 lost, 0 doubled, 0 wrong; 60 s, or 600 with `full`
chaos size="":
    python -m campaigns.kernel_chaos {{ if size == "full" { "600 50" } else { "60 25" } }}

# The gRPC door beside a bare echo; three servers on one PostgreSQL for 60 s (`--seconds`) beside an echo with the same
# statements and none of our code: time of each operation, throughput, and whether histories are linearizable
kernel-load *args:
    python -m benchmarks.kernel_load {{args}}

# What the gRPC door of the kernel costs beside a bare echo: CPU of the server, median time
kernel-doors:
    python -m benchmarks.kernel_doors

# The doors of the coding agent (print, JSON, SDK, ACP, MCP, HTTP): the same session by each, every message of ACP by the
# schema of the official package, cancel to silence, kill -9 behind each door; with `full` 30 sessions, 10 cancels, 20 kills each
doors size="":
    python -m campaigns.code_doors {{size}}

# A thousand asks in flight on one core: memory, answers, what is left behind; 2,000 programs and asks at once on a loop
# that stands still for longer than its lease
concurrency:
    python -m campaigns.stalls
    python -m benchmarks.concurrency

# What a process takes and how quick it is, at 100,000 of them
footprint *args:
    python -m benchmarks.footprint {{args}}

# A runtime under load for ten minutes: memory, tasks and descriptors stay flat
soak *args:
    python -m benchmarks.soak {{args}}

# The whole runtime on virtual time under faults: 1,000 seeds, or 10,000 with `full`
simulate size="":
    python -m campaigns.simulation {{ if size == "full" { "10000" } else { "1000" } }}

# Real processes against the model of supervision: 1,000 histories, or 10,000 with `full`
supervise size="":
    pytest -q -n2 tests/runtime/children tests/runtime/processes \
        --ignore=tests/runtime/processes/test_supervision_properties.py
    VEGA_HISTORIES={{ if size == "full" { "10000" } else { "1000" } }} \
        pytest -q -s --timeout=0 tests/runtime/processes/test_supervision_properties.py

# Signals that end runs of the command, and one resume: so many for each of TERM, INT, HUP and KILL
signals runs="3":
    python -m campaigns.signals {{runs}}

# `kill -9` of generated programs, of Python ones and on Temporal, and signals: a few, or thousands with `full`
kills size="":
    python -m campaigns.kill_campaign {{ if size == "full" { "full --cold 50" } else { "150 --cold 10" } }}
    python -m campaigns.kills {{ if size == "full" { "2000 20" } else { "50 5" } }}
    python -m campaigns.signals {{ if size == "full" { "500 --cold 20" } else { "3 --cold 1" } }}
    VEGA_KILLS={{ if size == "full" { "200" } else { "10" } }} pytest -q -s -n0 --timeout=0 tests/durable/test_kills.py
    VEGA_KILLS={{ if size == "full" { "200" } else { "10" } }} pytest -q -s -n0 --timeout=0 tests/durable/test_server_kills.py
    python -m campaigns.dataflow {{ if size == "full" { "500" } else { "20" } }}

# Resume after every kind of failure, stores down for seconds, or 30 s and 60 s with `full`; damaged files, fewer or 250;
# what 500 and 5,000 recorded calls cost a resumed run before its first request, on SQLite and PostgreSQL
resume size="":
    short=0; python -m campaigns.resume_matrix {{ if size == "full" { "1" } else { "" } }} || short=1; \
        python -m campaigns.damage {{ if size == "full" { "" } else { "60 20" } }} || short=1; \
        python -m campaigns.resume_cost || short=1; exit $short

# Edited programs that keep the answers of a run (`vega run --reuse`): 100 edits, 3 kills; with `full` 1,000, 20
reuse size="":
    python -m campaigns.reuse {{ if size == "full" { "1000 20" } else { "100 3" } }}

# Recorded runs again: offline, from earlier formats, from every prefix of the log
replay:
    pytest -q tests/journal/test_{replay,formats,power_cuts}.py tests/cli/test_recorded.py tests/durable

# Play the example programs on Temporal and keep their histories anew: all, or those named
histories *names:
    python -m tests.durable.histories {{names}}

# What the journal adds to a call, beside bare transactions; what it adds on PostgreSQL, beside the same statements bare; what
# we add on Temporal, beside a workflow by hand
durable-cost:
    bash .ci/servers
    short=0; for cost in journal postgres temporal; do python -m benchmarks.${cost}_cost || short=1; done; exit $short

# Attacks on approvals of a real runtime that restarts: 100 schedules of each, or 1,000 with `full`; 500 hostile actions
# on each screen
approvals size="":
    VEGA_HISTORIES={{ if size == "full" { "10000" } else { "1000" } }} \
        pytest -q -s --timeout=0 tests/runtime/oversight/test_approvals.py tests/runtime/oversight/test_shown_actions.py

# Renames and links swapped under the file tools, 100,000 calls of each, and under commands that start, 10,000: 0 escapes
races calls="100000":
    python -m campaigns.races {{calls}}

# Repositories that somebody else made, with the newest git of Debian in place of the machine's, for these tests alone
newer-git:
    .ci/newer_git pytest -q -n2 tests/wheel/test_hostile_repository.py tests/sage/test_git_settings.py \
        tests/sage/test_worktrees.py tests/sage/test_tools.py

# Hostile folders against commands of the installed wheel, each folder with one command, or with all of them by `full`; and how often
# a good day asks. Words of folders and commands choose
trust *words:
    python -m campaigns.trust {{words}}

# The whole corpus of attacks by class, and the races: a few swaps, or 100,000 calls with `full`
attacks size="":
    python -m campaigns.attacks {{size}}

# Edits and patches over our own sources: none may be misapplied
edits cases="4200":
    python -m campaigns.edits {{cases}}

# Random turns undone and redone beside copies of the tree: 200, or 1,000 with `full`; what undo costs at 5,000 files
undo size="":
    short=0; python -m campaigns.undo {{ if size == "full" { "1000" } else { "200" } }} || short=1; \
        python -m benchmarks.undo || short=1; exit $short

# Bytes from outside for every parser, guided by the code that they reach: so many seconds of CPU each (`just fuzz 600`),
# or of those named behind it; no crash, no input above 500 ms or 80 MB; five planted faults with `planted`
fuzz *args:
    python -m campaigns.fuzz {{args}}

# The coding agent: what people complain about in others, edits, kills, tasks; at commit size, or in full with `full`
code size="":
    short=0; python -m campaigns.code_complaints || short=1; \
        python -m campaigns.edits {{ if size == "full" { "4200" } else { "500" } }} || short=1; \
        python -m campaigns.code_kills {{ if size == "full" { "500" } else { "20" } }} || short=1; \
        python -m campaigns.code_tasks {{size}} || short=1; exit $short

# Hostile and broken plugins and files for the coding agent: many in a session, or each in its own with `full`, or a
# sample through the installed wheel with `wheel`
plugins size="":
    python -m campaigns.plugins {{size}}

# The same complaints beside the newest of each rival that npm installs, outside of the repository, without a network
code-beside *args:
    bash campaigns/code_complaints/setup.sh
    python -m campaigns.code_complaints beside --markdown --patience 4 {{args}}

# How quick the coding agent is: CPU, memory and bytes beside the rivals, streams, cancelling, long sessions and outputs
code-speed *args:
    python -m benchmarks.code_speed {{args}}

# The terminal of the coding agent from outside, on a pseudo terminal: ready, keys, streams, resizes, Esc, kills, random
# keys (1,000 sequences, 12 of them at the terminal; 5,000 and 200 with `full`), planted faults, and the terminals of the
# rivals that `just code-beside` has installed; parts by name: measures, keys, faults, beside
tui *args:
    python -m campaigns.terminal {{args}}

# Forty tasks of the coding agent, solved by real processes beside an oracle: 8 of them killed at 2 steps each, or all at
# every step with `full`; `export FOLDER` writes them for other harnesses
code-tasks *args:
    python -m campaigns.code_tasks {{args}}

# Candidates of known quality under people who look after every call: false promotions over 2,000 rollouts, or 10,000 with
# `full`, beside TensorZero's rule and Wilson's bound; calls to demotion; what decisions, evidence and verified calls cost;
# that a shadow does nothing, in 500 runs or 10,000; workers on PostgreSQL killed in every mode, about 60 of them or 500; rollouts over the wire
rollouts size="":
    short=0; python -m campaigns.rollouts {{size}} || short=1; \
        python -m benchmarks.rollout_cost {{size}} || short=1; \
        python -m campaigns.rollout_shadow {{ if size == "full" { "10000" } else { "500" } }} || short=1; \
        python -m campaigns.rollout_kills {{ if size == "full" { "8" } else { "1" } }} || short=1; exit $short

# All paths of every sample node over 2,000 random inputs, or 100,000 with `full`, random nodes, and planted bugs, each of which is
# found; 1,000 transfers on PostgreSQL from four processes that are killed at random, or 10,000
nodes size="":
    short=0; python -m campaigns.nodes {{size}} || short=1; python -m campaigns.node_state {{size}} || short=1; exit $short

# Which sample nodes are proved, 500 random inputs for each, or 100,000 with `full`, a second solver, and planted faults
prove size="":
    python -m campaigns.proofs {{size}}

# What native code of nodes saves beside generated Python, and after how many calls it has paid for being compiled
node-speed size="":
    python -m benchmarks.nodes {{size}}

# What a sandboxed command costs beside bare bubblewrap, and that bombs are contained
sandbox:
    python -m benchmarks.sandbox

# Every wire format over real sockets, through the official SDKs
wire:
    pytest -q -n2 tests/wires tests/testing/provider tests/models tests/runtime/test_wire.py

# The whole way to a real small model, which is installed first
e2e:
    python tools/suites.py e2e

# Everything that must hold, as CI runs it
ci:
    bash .ci/run

# Rewrite format and fixable lint
fmt:
    ruff format .
    ruff check --fix .

# What is said to wrong uses, made for real, beside what is kept (`--write` keeps it)
wrong-uses *args:
    python -m campaigns.wrong_uses {{args}}

# The picture of the README, dollars over time, from real runs of Vega and Pydantic AI, light and dark; with `--draw` from
# the samples that are kept
pictures *args:
    bash benchmarks/peers_programs/setup.sh
    python -m benchmarks.money_picture {{args}}

# What every command prints at 80 and 140 columns, with and without colour, in pipes and in ASCII, through a real
# terminal, beside what is kept; with `--write` keep it, and draw the pictures in the documents anew
screens *args:
    python -m campaigns.screens {{args}}
    python -m campaigns.code_screens {{args}}
    python tools/screens_explain.py

# Quotes with wrong bounds planted; of thirty tasks beside what their runs cost; how quotes fall while 1,000 programs run;
# and of 200 random programs beside the most expensive runs of them, or 10,000 with `full`
quotes size="":
    short=0; pytest -q --timeout=0 tests/lang/quoting || short=1; python -m campaigns.quote_ratios || short=1; python -m campaigns.quote_ratios openai || short=1; \
        python -m campaigns.quotes live 1000 || short=1; \
        python -m campaigns.quotes {{ if size == "full" { "10000" } else if size == "" { "200" } else { size } }} && exit $short

# Write the references of the language and of Python anew, from the source
reference:
    python tools/language_reference.py
    python tools/python_reference.py

# Write the page of benchmarks anew, from benchmarks/results
benchmarks-page:
    python tools/benchmarks_page.py

# Write the protos of the kernel anew, from its table of operations (`--accept-changes` if clients may break)
protos *args:
    python tools/make_protos.py {{args}}

# Write the table of models anew, from the installed genai-prices and pydantic-ai
catalog:
    python tools/make_catalog.py

# Pin and hash the dependencies anew
lock:
    bash tools/lock.sh

# The two files of a release, under the address of its repository: built, rebuilt and looked at
release url folder="dist":
    python tools/release.py {{url}} {{folder}}

# Build the wheel and use it in an empty environment: its commands, and the contract with its planted faults
wheel:
    python tools/suites.py wheel
