"""Shows which source files a flow enters, and holds each flow to its limit.

    python tools/flow.py             files of each flow; exits 1 if a flow enters more than it may
    python tools/flow.py --files     the files too, in the order in which they are first entered
    python tools/flow.py --json      the same for machines

A file is entered when one of its functions is called; loading a module does not count, at the head
of another or when one of its names is first used. Each flow runs in a fresh interpreter with a
scripted model, so nothing leaves the machine.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
SRC = str(ROOT / "src" / "vegakit") + "/"
LAZY = f"{SRC}lazy.py"
"""Loads a module when one of its names is first used."""

THREE_SENDS = """\
agent Writer { model smart  max_tokens 50 }

fn main() -> str budget $1.00 {
    let draft = Writer <- "Draft a sentence on tides.";
    let shorter = Writer <- "Shorten: {draft}";
    return Writer <- "A title for: {shorter}";
}
"""


class Flow(NamedTuple):
    limit: int
    run: Callable[[Path], None]


def ask(_: Path) -> None:
    """`rt.ask` on a plain runtime."""
    asyncio.run(_ask(None))


def ask_with_journal(folder: Path) -> None:
    """The same with a journal."""
    asyncio.run(_ask(folder / "run.db"))


async def _ask(journal: Path | None) -> None:
    from vegakit import Agent, Runtime
    from vegakit.providers import ScriptedModel

    reviewer = Agent("reviewer", model=ScriptedModel(["Hello.", "Fine."]), max_tokens=50)
    kept: dict[str, Any] = {} if journal is None else {"journal": journal}
    async with Runtime(budget="$1", **kept) as runtime:
        # The first ask also builds the machine; the flow is what every later one does.
        await runtime.ask(reviewer, "Hello?")
        await runtime.spent()  # the ledger answers when it has settled what the first ask paid
        tracing.start()
        assert str(await runtime.ask(reviewer, "Is it fine?")) == "Fine."
        tracing.stop()


def run_program(folder: Path) -> None:
    """`vega run` of a program with three sends, from the command line to the result."""
    (folder / "three.vega").write_text(THREE_SENDS, encoding="utf-8")
    (folder / "answers.json").write_text('["One.", "Two.", "Three."]', encoding="utf-8")
    from vegakit.cli import main

    tracing.start()
    status = main(["run", str(folder / "three.vega"), "--model", f"scripted:{folder}/answers.json"])
    tracing.stop()
    assert not status, status


def approval(_: Path) -> None:
    """A tool call that a person approves, from the model's request to the tool's result."""
    asyncio.run(_approve())


async def _approve() -> None:
    from vegakit import Agent, Runtime
    from vegakit.control import Question
    from vegakit.providers import ScriptedModel
    from vegakit.tools import ToolContext, tool

    @tool(capabilities=["net::post"])
    async def pay(ctx: ToolContext, amount: int) -> str:
        """Pay an amount."""
        return f"paid {amount}"

    pay_three = {"calls": [{"name": "pay", "arguments": {"amount": 3}}]}
    clerk = Agent("clerk", model=ScriptedModel([pay_three, "Done."]), tools=[pay], max_tokens=50)
    async with Runtime(mode="ask") as runtime:
        questions: asyncio.Queue[Question] = asyncio.Queue()
        runtime.on(Question, questions.put_nowait)
        tracing.start()
        asked = runtime.spawn(clerk).send("Pay 3.")
        await runtime.answer((await questions.get()).id, True)
        assert (await asked).text == "Done."
        tracing.stop()


def resume(folder: Path) -> None:
    """A run that goes on after `kill -9`: one answer is recorded, the other is asked for."""
    if not (child := os.fork()):
        asyncio.run(_first_life(folder / "run.db"))
    os.waitpid(child, 0)
    asyncio.run(_second_life(folder / "run.db"))


async def _first_life(journal: Path) -> None:
    from vegakit import Agent, Runtime
    from vegakit.providers import ScriptedModel

    async with Runtime(budget="$1", journal=journal) as runtime:
        await runtime.ask(Agent("writer", model=ScriptedModel(["A plan."])), "Plan it.")
        os.kill(os.getpid(), signal.SIGKILL)


async def _second_life(journal: Path) -> None:
    from vegakit import Agent, Runtime
    from vegakit.providers import ScriptedModel

    writer = Agent("writer", model=ScriptedModel(["A draft."]))
    opened = Runtime(budget="$1", journal=journal)
    tracing.start()
    async with opened as runtime:
        assert str(await runtime.ask(writer, "Plan it.")) == "A plan."
        assert str(await runtime.ask(writer, "Write it.")) == "A draft."
    tracing.stop()


FLOWS = {
    "ask": Flow(50, ask),
    "ask with a journal": Flow(51, ask_with_journal),
    "vega run, three sends": Flow(152, run_program),
    "approval": Flow(70, approval),
    "after kill -9": Flow(70, resume),
}


class _Tracing:
    """Records each source file when one of its functions is first called, on every thread."""

    def __init__(self) -> None:
        self.entered: dict[str, None] = {}
        self._known: set[CodeType] = set()

    def start(self) -> None:
        threading.setprofile(self._on)
        sys.setprofile(self._on)

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _on(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code in self._known or not code.co_filename.startswith(SRC):
            return
        if not _is_loading(frame):
            self._known.add(code)
            self.entered.setdefault(code.co_filename.removeprefix(SRC))


def _is_loading(frame: FrameType | None) -> bool:
    """Whether a module is being loaded: decorators, comprehensions and tables that run then are no
    steps of a flow. The flow itself runs below the script's own module, which does not count."""
    if frame is not None and frame.f_code.co_filename == LAZY:
        return True
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename != __file__:
            return frame.f_code.co_filename.startswith(SRC)
        frame = frame.f_back
    return False


tracing = _Tracing()


@cache
def entered(name: str) -> list[str]:
    """Run one flow in an interpreter of its own and return the files that it enters."""
    command = [sys.executable, __file__, "--flow", name]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if ran.returncode:
        raise SystemExit(f"the flow {name!r} failed:\n{ran.stdout}{ran.stderr}")
    return json.loads(ran.stdout.splitlines()[-1])


def _play(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # A run is recorded in the user's data directory; this one is nobody's.
        os.environ["VEGA_DATA_DIR"] = str(Path(folder) / "data")
        FLOWS[name].run(Path(folder))
    print(json.dumps(list(tracing.entered)))


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--flow"]:
        _play(arguments[1])
        return 0
    found = {name: entered(name) for name in FLOWS}
    if "--json" in arguments:
        print(json.dumps(found, indent=1))
        return 0
    short = False
    for name, files in found.items():
        if "--files" in arguments:
            print(f"\n{name}\n  " + "\n  ".join(files))
        limit = FLOWS[name].limit
        short |= len(files) > limit
        verdict = "ok" if len(files) <= limit else "SHORT"
        print(f"{name:24}{len(files):5} files{f'≤ {limit}':>10}  {verdict}")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
