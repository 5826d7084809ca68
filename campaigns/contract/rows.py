"""The seven ways to have the same work done: three steps, each built on the answer before it.

Beside the work each has a program that asks a person twice before it pays.
"""

from typing import NamedTuple

from vegakit.conversation import Usage


class Row(NamedTuple):
    """`work` and `payment` are files, the first of which is started by `command`; where `payment`
    takes another one, that is `pays`. `plans` are what a model writes for each, `calls` how one
    with the tool `pay` calls it. In a `session` the steps are rounds of one turn: an agent writes
    down the next step with a tool; its answers are longer, so it has a usage and a cap of its
    own. `quoted` is the file that is quoted, where that is not the one which is started; `paths`
    are how many are asked for each step, and `result` what is printed at the end."""

    name: str
    command: tuple[str, ...]
    work: dict[str, str]
    payment: dict[str, str]
    plan: str = ""
    payment_plan: str = ""
    pays: tuple[str, ...] = ()
    calls: tuple[int, ...] = (30, 40)
    session: bool = False
    usage: Usage = Usage(30, 50)
    cap_usd: float = 0.0007
    quoted: str = ""
    paths: int = 1
    result: str = "answer to Step 3"

    @property
    def file(self) -> str:
        return self.quoted or self.command[-1]


_AGENT = """\
import asyncio

from vegakit import Agent, Runtime

writer = Agent("writer", model="fast", max_tokens=50)


async def main() -> None:
    async with Runtime.from_config() as rt:
        said = "nothing"
        for step in (1, 2, 3):
            said = str(await rt.ask(writer, f"Step {step} after {said}."))
        print(said)


asyncio.run(main())
"""

_AGENT_PAYS = """\
import asyncio
from pathlib import Path

from vegakit import Agent, Runtime, tool


@tool(capabilities=["fs::write"])
async def pay(amount: int) -> str:
    '''Pay an amount in dollars.'''
    with Path("paid.txt").open("a") as file:
        file.write(f"{amount}\\n")
    return "paid"


clerk = Agent("clerk", model="fast", max_tokens=50, tools=[pay])


async def main() -> None:
    async with Runtime.from_config(mode="ask") as rt:
        print(await rt.ask(clerk, "Pay what is due."))


asyncio.run(main())
"""

_PROGRAM = """\
from vegakit import Agent, program

writer = Agent("writer", model="fast", max_tokens=50)


@program
def main() -> str:
    first = writer("Step 1 after nothing.")
    second = writer(f"Step 2 after {first}.", budget="$0.01")
    return writer(f"Step 3 after {second}.", budget="$0.01")
"""

_PROGRAM_PAYS = """\
from vegakit import program, vega


@program(may=["fs::write"], allowed_paths=["paid.txt"])
def main() -> None:
    paid = ""
    if vega.human.approve("Pay 30?", "1h"):
        paid = paid + "30\\n"
    if vega.human.approve("Pay 40?", "1h"):
        paid = paid + "40\\n"
    vega.file.write("paid.txt", paid)
"""

_VEGA = """\
agent Writer { model fast  max_tokens 50 }

fn main() -> str {
    let first = Writer <- "Step 1 after nothing.";
    let second = Writer <- "Step 2 after {first}." budget $0.01;
    return Writer <- "Step 3 after {second}." budget $0.01;
}
"""

_VEGA_PAYS = """\
fn main() may [fs::write] allowed_paths ["paid.txt"] {
    let paid = "";
    if human::approve("Pay 30?", 1h) { paid = paid + "30\\n"; }
    if human::approve("Pay 40?", 1h) { paid = paid + "40\\n"; }
    file::write("paid.txt", paid);
}
"""

_PIPELINE = """\
stages:
  - {name: first, agent: one, default_next: second}
  - {name: second, agent: two, default_next: third}
  - {name: third, agent: three}
agents:
  one: {model: fast, max_tokens: 50, prompt: "Step 1 after nothing.", budget: "$0.01"}
  two: {model: fast, max_tokens: 50, prompt: "Step 2 after {first}.", budget: "$0.01"}
  three: {model: fast, max_tokens: 50, prompt: "Step 3 after {second}.", budget: "$0.01"}
"""

_PIPELINE_PAYS = """\
stages:
  - name: first
    agent: about_30
    routing: [{target: pay_30, condition: equals, field: approved, value: true}]
    default_next: second
  - {name: pay_30, agent: clerk, default_next: second}
  - name: second
    agent: about_40
    routing: [{target: pay_40, condition: equals, field: approved, value: true}]
  - {name: pay_40, agent: clerk}
agents:
  about_30: {asks: confirmation, prompt: "Pay 30?"}
  about_40: {asks: confirmation, prompt: "Pay 40?"}
  clerk: {model: fast, max_tokens: 50, prompt: "Pay what was approved.", tools: [pay]}
"""

_PAY = _AGENT_PAYS.partition("import asyncio\n")[2].partition("clerk = ")[0]

_ROLLED = """\
agent Writer { model fast  max_tokens 50  budget $0.01 }

fn main() -> str {
    let first = Writer <- "Step 1 after nothing.";
    let second = Writer <- "Step 2 after {first}.";
    return Writer <- "Step 3 after {second}.";
}
"""

_ROLLOUT = """\
import asyncio
from dataclasses import replace

from vegakit import Runtime
from vegakit.vesper import RolloutRule, rollout


async def main() -> None:
    async with Runtime.from_config() as rt:
        program = rt.load("steps.vega")
        trusted = program.agent("Writer")
        brief = replace(trusted, instructions="Be brief.")
        rule = RolloutRule(calibration=0)
        async with rollout(rt, "write", reference=trusted, candidate=brief, rule=rule) as write:
            said = await program.with_agents({"Writer": write}).main()
            print(f"{said}; {write.status().evidence.production.runs} compared")


asyncio.run(main())
"""

_ROLLED_PAYS = """\
agent Writer { model fast  max_tokens 50  budget $0.01  tools [pay] }

fn main() -> str may [fs::write] { return Writer <- "Pay what is due."; }
"""

_ROLLOUT_PAYS = (
    _ROLLOUT.replace("async def main", f"{_PAY}async def main")
    .replace("from_config()", 'from_config(mode="ask")')
    .replace('"steps.vega"', '"steps.vega", tools=[pay]')
)

_PLANNER = """\
import asyncio

from vegakit import Agent, ProgramRights, Runtime, run_program

may = ProgramRights(capabilities=["fs::write"], paths=["paid.txt"], people=True)
writer = Agent("writer", model="fast", max_tokens=50)
tools = [run_program([writer], max_cost="$0.05", may=may)]
planner = Agent("planner", model="fast", max_tokens=500, tools=tools)


async def main() -> None:
    async with Runtime.from_config() as rt:
        print(await rt.ask(planner, "Plan it, and do it."))


asyncio.run(main())
"""

_SESSION_PAYS = """\
import asyncio

from vegakit.sage import SageAgent


async def main() -> None:
    # The question is left to whoever answers it, in another terminal.
    async with SageAgent(model="fast", mode="ask", on_question=lambda *_: None) as sage:
        async for event in sage.turn("Pay what is due."):
            print(event)


asyncio.run(main())
"""

ROWS = (
    Row(
        "Python agent",
        ("python", "agent.py"),
        {"agent.py": _AGENT},
        {"agent.py": _AGENT_PAYS},
    ),
    Row(
        "`@program`",
        ("vega", "run", "steps.py"),
        {"steps.py": _PROGRAM},
        {"steps.py": _PROGRAM_PAYS},
    ),
    Row(
        "`.vega` program",
        ("vega", "run", "steps.vega"),
        {"steps.vega": _VEGA},
        {"steps.vega": _VEGA_PAYS},
    ),
    Row(
        "pipeline",
        ("vega", "run", "steps.yaml"),
        {"steps.yaml": _PIPELINE},
        {"steps.yaml": _PIPELINE_PAYS, "pay.py": _PAY},
        pays=("vega", "run", "--tools", "pay.py", "steps.yaml"),
        calls=(40,),
    ),
    Row(
        "rollout in a program",
        ("python", "rolled.py"),
        {"rolled.py": _ROLLOUT, "steps.vega": _ROLLED},
        {"rolled.py": _ROLLOUT_PAYS, "steps.vega": _ROLLED_PAYS},
        # Two steps on both paths fit, a fifth call does not. The third step has no paid repeat left
        # for its comparison.
        cap_usd=0.0013,
        quoted="steps.vega",
        paths=2,
        result="answer to Step 3; 2 compared",
    ),
    Row(
        "program by a model",
        ("python", "planner.py"),
        {"planner.py": _PLANNER},
        {"planner.py": _PLANNER},
        _VEGA.partition("\n\n")[2].replace("Writer", "writer"),
        _VEGA_PAYS,
    ),
    Row(
        "coding session",
        ("vega", "code", "--model", "fast", "-p", "Step 1 after nothing."),
        {},
        {"session.py": _SESSION_PAYS},
        pays=("python", "session.py"),
        session=True,
        # What is reserved for a call is about $0.05: two of these answers fit, a third does not.
        usage=Usage(30, 4_000),
        cap_usd=0.08,
    ),
)
