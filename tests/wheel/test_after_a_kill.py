"""What a person has to type after a kill, through the installed wheel, and what it costs."""

import os
import pty
import re
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from campaigns.contract.stage import Done, Stage, stage

pytestmark = pytest.mark.timeout(300)

CALLS = 12
FAN = """\
agent A { model fast  max_tokens 8000 }
fn main(calls: int) { for i in range(calls) { print(A <- "Step {i}."); } }
"""
TWICE = """\
agent A { model fast  max_tokens 100 }
fn main() {
    let first = A <- "Step 1.";
    print(A <- "Step 2 after {first}");
}
"""
LONG_THEN_SHORT = """\
agent A { model fast  max_tokens 8000 }
agent B { model fast  max_tokens 100 }
fn main() {
    let first = A <- "Step 1.";
    print(B <- "Step 2 after {first}");
}
"""
LONG = ("vega", "run", "long.vega", "--budget", "$0.05")
BATCH = """\
import asyncio
from vegakit import Agent, Runtime

async def main():
    agent = Agent("a", model="fast", max_tokens=8000)
    async with Runtime.from_config(budget="$0.65") as rt:
        print(len(await rt.batch(*(rt.ask(agent, f"Step {i}.") for i in range(12)))))

asyncio.run(main())
"""
TOLD = r"(\d+) calls? w\w+ cut off and may have been billed \((\S+), charged\)"
MOST = TOLD + r"\. At most (\S+), was (\S+)\."


@pytest.fixture
def place(wheel: Path) -> Generator[Stage]:
    with stage(wheel) as made:
        made.write({"fan.vega": FAN, "twice.vega": TWICE, "batch.py": BATCH})
        made.write({"long.vega": LONG_THEN_SHORT})
        yield made


def ended(place: Stage, number: signal.Signals, *command: str, calls: int = CALLS) -> None:
    """Begin it, and end it when so many of its calls are in flight."""
    place.held, before = {"Step"}, len(place.requests)
    process = place.start(*command)
    place.until(lambda: len(place.requests) >= before + calls, f"{calls} calls in flight")
    process.send_signal(number)
    place.end_of(process)
    place.held = set()


def dollars(text: str) -> float:
    return float(text.strip("$.,"))


def last_run(place: Stage) -> dict[str, object]:
    return place.run_well("vega", "runs", "--json").page[-1]


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP],
    ids=lambda one: one.name,
)
def test_one_resume_goes_on_whatever_ended_the_run(place: Stage, number: signal.Signals) -> None:
    """Twelve long calls were in flight, and the cap of $10 is far away. What they may have cost
    raises the most that the run may cost, and is told once."""
    ended(place, number, "vega", "run", "fan.vega", str(CALLS))
    gone_on = place.run_well("vega", "resume")
    assert len(gone_on.out.splitlines()) == CALLS
    assert len(place.requests) == 2 * CALLS
    told = re.search(MOST, gone_on.err)
    assert told is not None, gone_on
    assert told[1] == str(CALLS)
    charged, most, was = map(dollars, told.groups()[1:])
    assert charged == pytest.approx(CALLS * 0.04, abs=0.02)
    assert most == pytest.approx(was + charged, abs=0.02)
    assert float(str(last_run(place)["spent_usd"])) <= most


def test_calls_that_do_not_fit_are_told_before_any_is_sent(place: Stage) -> None:
    """With one command. Elsewhere than at a terminal it needs `--yes`."""
    ended(place, signal.SIGKILL, *LONG, calls=1)
    for _ in range(2):
        refused = place.run("vega", "resume")
        assert refused.code == 3, refused
        assert re.search(TOLD, " ".join(refused.err.split())) is not None, refused
        assert refused.err.count("vega resume --yes") == 1
        assert len(place.requests) == 1
    assert place.run_well("vega", "resume", "--yes").out == "answer to Step 2\n"
    assert len(place.requests) == 3


def test_calls_of_a_script_that_do_not_fit_are_told_in_sum(place: Stage) -> None:
    """The block of its runtime is not entered."""
    ended(place, signal.SIGKILL, "python", "batch.py")
    for _ in range(2):
        refused = place.run("vega", "resume")
        told = re.search(TOLD, refused.err)
        assert (refused.code, told is not None) == (1, True), refused
        assert told is not None
        assert told[1] == str(CALLS)
        assert len(place.requests) == CALLS
    assert place.run_well("vega", "resume", "--yes").out == f"{CALLS}\n"
    assert len(place.requests) == 2 * CALLS


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_person_at_the_terminal_is_asked(place: Stage, answer: str) -> None:
    ended(place, signal.SIGKILL, *LONG, calls=1)
    shown = at_terminal(place, answer, "vega", "resume")
    assert "go on? [y/N]" in shown.err, shown
    assert (shown.code, len(place.requests)) == ((0, 3) if answer == "y" else (3, 1)), shown


def at_terminal(place: Stage, answer: str, *command: str) -> Done:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command,
        cwd=place.folder,
        env=place._environment() | {"TERM": "dumb"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 4096)
        except OSError:  # the terminal is closed with its last process
            break
        if b"[y/N] " in shown and answer:
            os.write(ours, f"{answer}\n".encode())
            answer = ""
    os.close(ours)
    return Done(process.wait(timeout=60), "", shown.decode())


@pytest.mark.parametrize("policy", ["ask", "never"])
def test_a_setting_says_who_pays_for_what_was_cut_off(place: Stage, policy: str) -> None:
    """`ask`: not before somebody has accepted it; `never`: only out of what was quoted."""
    place.environment["VEGA_BUDGET_ON_CUT_OFF"] = policy
    ended(place, signal.SIGKILL, "vega", "run", "fan.vega", str(CALLS))
    refused = place.run("vega", "resume")
    assert (refused.code, len(place.requests)) == (3, CALLS), refused
    if policy == "never":
        assert place.run("vega", "resume", "--yes").code == 3
        more = re.search(r"vega resume --budget '(\S+)'", refused.err)
        assert more is not None, refused
        place.run_well("vega", "resume", "--budget", more[1])
    else:
        place.run_well("vega", "resume", "--yes")
    assert len(place.requests) == 2 * CALLS


def test_a_quote_that_was_accepted_is_not_exceeded_unasked(place: Stage) -> None:
    ended(place, signal.SIGKILL, "vega", "run", "fan.vega", str(CALLS), "--max", "$0.70", "--json")
    refused = place.run("vega", "resume")
    assert (refused.code, len(place.requests)) == (3, CALLS), refused
    assert refused.page["cut_off"]["calls"] == CALLS
    place.run_well("vega", "resume", "--yes")


def test_a_budget_of_the_user_is_not_raised_by_a_resume(place: Stage) -> None:
    """Of six cents a day four are charged, and the call may cost four more."""
    settings(place, '[budget]\ndefault = "$0.06/day"\n')
    ended(place, signal.SIGKILL, "vega", "run", "long.vega", calls=1)
    for flags in ((), ("--yes",)):
        refused = place.run("vega", "resume", *flags)
        assert (refused.code, len(place.requests)) == (3, 1), refused
        assert "budget.default in your own settings" in " ".join(refused.err.split())
        assert "--yes" not in refused.err
    settings(place, '[budget]\ndefault = "$0.20/day"\n')
    place.run_well("vega", "resume")


def test_a_crash_loop_is_parked(place: Stage) -> None:
    """Five takeovers that bring no reply; then a person has to say so."""
    ended(place, signal.SIGKILL, "vega", "run", "twice.vega", calls=1)
    for _ in range(5):
        ended(place, signal.SIGKILL, "vega", "resume", calls=1)
    sent = len(place.requests)
    for _ in range(2):
        parked = place.run("vega", "resume")
        assert (parked.code, "parked" in parked.err) == (3, True), parked
    assert len(place.requests) == sent == 6
    place.run_well("vega", "resume", "--yes")


def test_lives_that_bring_replies_are_not_parked(place: Stage) -> None:
    ended(place, signal.SIGKILL, "vega", "run", "fan.vega", "8", calls=8)
    for life in range(7):
        place.held = {f"Step {step}" for step in range(life + 1, 8)}
        process = place.start("vega", "resume")
        assert process.stdout
        for step in range(life + 1):  # a reply is printed after it is recorded
            assert process.stdout.readline() == f"answer to Step {step}\n"
        process.send_signal(signal.SIGKILL)
        place.end_of(process)
    place.held = set()
    place.run_well("vega", "resume")


PLAN = """\
agent A { model fast  max_tokens 8000 }
fn main() -> [str] { return [for i in range(6) { A <- "Step {i}." }]; }
"""
PLANNER = """\
import asyncio
from vegakit import Agent, Runtime, run_program

async def main():
    tools = [run_program(max_cost="$0.50", models=["fast"])]
    planner = Agent("planner", model="fast", tools=tools, max_tokens=500, budget="$2")
    async with Runtime.from_config() as rt:
        print((await rt.ask(planner, "Plan it.")).text)

asyncio.run(main())
"""


def test_a_program_of_a_model_spends_no_more_than_its_quote_unasked(place: Stage) -> None:
    """Somebody accepted that quote: the default is to ask, and once is enough."""
    place.write({"planner.py": PLANNER})
    place.plan = iter([PLAN])
    ended(place, signal.SIGKILL, "python", "planner.py", calls=7)
    refused = place.run("vega", "resume")
    assert (refused.code, "vega resume --yes" in refused.err) == (1, True), refused
    assert "answer to Step 5" in place.run_well("vega", "resume", "--yes").out


def test_what_a_kill_may_add_is_told_before_the_first_call(place: Stage) -> None:
    """By `vega cost` and by the run, and it is no less than what a kill adds."""
    added = r"each kill may add at most (\$[\d.]+)"
    costs = re.search(added, place.run_well("vega", "cost", "fan.vega", str(CALLS)).out)
    ended(place, signal.SIGKILL, "vega", "run", "fan.vega", str(CALLS))
    gone_on = place.run_well("vega", "resume")
    opening, told = re.search(added, gone_on.err), re.search(MOST, gone_on.err)
    assert costs is not None
    assert opening is not None
    assert told is not None
    assert costs[1] == opening[1]
    assert dollars(told[2]) <= dollars(costs[1]) + 0.01, "it is told in whole cents"


def test_a_budget_is_set_and_not_added_again(place: Stage) -> None:
    ended(place, signal.SIGKILL, "vega", "run", "twice.vega", calls=1)
    for _ in range(2):
        ended(place, signal.SIGKILL, "vega", "resume", "--budget", "$15", calls=1)
    done = place.run_well("vega", "resume", "--budget", "$15")
    assert "cap $15.00" in done.err


def test_money_is_not_added_to_a_run_that_does_not_go_on(place: Stage) -> None:
    """Its program was changed, or somebody else carries it on."""
    place.held = {"Step 2"}
    process = place.start("vega", "run", "twice.vega")
    place.until(lambda: len(place.requests) == 2, "the second call")
    process.kill()
    place.end_of(process)
    place.write({"twice.vega": TWICE.replace("Step 1", "Step one")})
    for _ in range(2):
        changed = place.run("vega", "resume", "--budget", "+$5")
        assert (changed.code, "ProgramChanged" in changed.err or "was changed" in changed.err) == (
            1,
            True,
        )
    place.write({"twice.vega": TWICE})
    place.held = {"Step"}
    first = place.start("vega", "resume", "--budget", "+$5")
    place.until(lambda: len(place.requests) == 3, "the second call again")
    run = place.run_well("vega", "runs", "--json").page[-1]["run"]["program"]
    assert place.run("vega", "resume", run, "--budget", "+$5").code == 1
    first.kill()
    place.end_of(first)
    place.held = set()
    assert "cap $15.00" in place.run_well("vega", "resume").err


# A run keeps its models.


def settings(place: Stage, text: str) -> None:
    file = place.home / ".config" / "vega" / "vega.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def move_fast(place: Stage, model: str = "anthropic:claude-sonnet-4-5") -> None:
    settings(place, f'[models]\nfast = "{model}"\n')


def killed_at_its_second_call(place: Stage, *command: str) -> str:
    """Kill it then, and return the model that was asked."""
    place.held, before = {"Step 2"}, len(place.requests)
    process = place.start(*command)
    place.until(lambda: len(place.requests) == before + 2, "the second call")
    process.kill()
    place.end_of(process)
    place.held = set()
    return model_of(place)


def model_of(place: Stage) -> str:
    return str(place.requests[-1].body["model"])


SCRIPT = """\
import asyncio
from vegakit import Agent, Runtime

async def main():
    agent = Agent("a", model="fast", max_tokens=100)
    async with Runtime(journal="own.db") as rt:
        first = (await rt.ask(agent, "Step 1.")).text
        print((await rt.ask(agent, f"Step 2 after {first}")).text)

asyncio.run(main())
"""
AGAIN: dict[tuple[str, ...], tuple[str, ...]] = {
    ("vega", "run", "twice.vega"): ("vega", "resume"),
    ("vega", "run", "twice.vega", "--model", "fast"): ("vega", "resume"),
    ("python", "script.py"): ("python", "script.py"),
}


@pytest.mark.parametrize("command", AGAIN, ids=["alias", "model", "script"])
def test_a_moved_alias_does_not_stop_a_run(place: Stage, command: tuple[str, ...]) -> None:
    """It goes on with the model that it began with; a new run has the other one. A key that only
    the other one needs is not missed."""
    place.write({"script.py": SCRIPT})
    began_with = killed_at_its_second_call(place, *command)
    move_fast(place, "openai:gpt-5-mini")
    gone_on = place.run_well(*AGAIN[command])
    assert gone_on.out == "answer to Step 2\n"
    assert (len(place.requests), model_of(place)) == (3, began_with)
    move_fast(place)
    place.run_well("vega", "run", "twice.vega")
    assert model_of(place) != began_with


def test_an_edited_script_says_that_it_buys_again(place: Stage) -> None:
    """In one line. A script that is not edited says nothing."""
    place.write({"script.py": SCRIPT})
    killed_at_its_second_call(place, "python", "script.py")
    place.write({"script.py": SCRIPT.replace("Step 1.", "Step 1!")})
    edited = place.run_well("python", "script.py")
    line = edited.err.strip()
    assert re.match(r"script.py was edited after run \S+ began, and 1 recorded answer does", line)
    assert line.count("\n") == 0
    assert len(place.requests) == 4
    killed_at_its_second_call(place, "python", "script.py")
    assert place.run_well("python", "script.py").err == ""


def test_a_person_has_a_run_go_on_with_the_current_settings(place: Stage) -> None:
    """Recorded answers are not bought again, the quote is told anew, and the next life of the run
    stays with that."""
    began_with = killed_at_its_second_call(place, "vega", "run", "twice.vega")
    move_fast(place)
    ended(place, signal.SIGKILL, "vega", "resume", "--use-current-settings", calls=1)
    moved_to = model_of(place)
    assert moved_to != began_with
    gone_on = place.run_well("vega", "resume")
    assert gone_on.out == "answer to Step 2\n"
    assert [step for step in place.steps() if step == "Step 1"] == ["Step 1"]
    assert (len(place.requests), model_of(place)) == (4, moved_to)
    most = re.search(r"at most \$(\S+), cap", gone_on.err)
    assert most is not None
    assert float(most[1]) > 0.0075, "twice at $15 per million tokens of 100, and more"


# What it takes to go on.

COUNTS = """\
import asyncio, os, sys
from vegakit import Agent, Runtime
from vegakit.providers import ScriptedModel
from vegakit.store.ledger import SqlLedger

asked, do = [], SqlLedger._do

def counted(self, decide, *more):
    asked.append(decide)
    return do(self, decide, *more)

SqlLedger._do = counted

async def main(calls):
    agent = Agent("a", model=ScriptedModel("yes"), max_tokens=5)
    async with Runtime("$1", journal=f"run{calls}.db") as rt:
        if os.path.exists(f"again{calls}"):
            print(len(asked))
        else:
            open(f"again{calls}", "w").close()
            await rt.batch(*(rt.ask(agent, f"q{number}") for number in range(calls)))
            os._exit(9)

asyncio.run(main(int(sys.argv[1])))
"""


def test_a_run_asks_its_ledger_as_much_after_many_calls_as_after_few(place: Stage) -> None:
    place.write({"counts.py": COUNTS})
    counts: list[int] = []
    for calls in ("2", "200"):
        assert place.run("python", "counts.py", calls).code == 9
        counts.append(int(place.run_well("python", "counts.py", calls).out))
    few, many = counts
    assert many == few <= 13
