"""Programs that models write (G19): `python -m campaigns.authored [programs]`.

Each is sent by a scripted model to `run_program`, admitted or refused, and run with answers that
are as unkind as can be. Counted are calls before acceptance, money and calls above the quote,
agents and tools outside the manifest, secrets read, and what is left behind. Exits 1 if there is
any, and prints the seed.
"""

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

from msgspec import Struct

from campaigns.authored_hostile import hostile
from campaigns.authored_programs import CANARY, answers_of, written
from vegakit.conversation import ModelRequest, ToolMessage
from vegakit.host import Agent, run_program
from vegakit.money import Money
from vegakit.policy import Backoff, RetryRule
from vegakit.prices import PAID_REPEATS, PriceRow, PriceTier
from vegakit.program import AdmittedProgram, AgentBody, ProgramRights, RefusedProgram
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.tools import tool

__all__ = ["Seen", "faults_of", "main", "run_one"]

_FREE = PriceRow("planner", (PriceTier(*4 * [Money(0)]),))
_QUICK = RetryRule(max_attempts=3, backoff=Backoff(1, 1.0, 1))
_FUEL = 200_000
_MAY = ProgramRights(capabilities=["fs::read"], paths=["inside/**"])


class Seen(Struct):
    """What became of one program, and what it was allowed; amounts are nano-dollars."""

    admitted: AdmittedProgram | RefusedProgram
    told: str
    calls: int
    spent: int
    asked: set[str]
    looked: int
    left: int
    files: list[str]
    over: int


async def run_one(source: str, seed: int, folder: Path) -> Seen:
    """On a runtime of its own; the planner costs nothing, so all money is the program's."""
    (folder / "inside").mkdir(exist_ok=True)
    (folder / "inside/a.txt").write_text("inside")
    (folder / "secret.txt").write_text(CANARY)
    looked = 0

    @tool(idempotent=True)
    def look(path: str) -> str:
        nonlocal looked
        looked += 1
        return "looked"

    over, answer = 0, answers_of(Random(seed))

    def watched(request: ModelRequest) -> Any:
        nonlocal over
        wallets = rt.program.machine.state.wallets.values()
        over += sum(w.cap is not None and w.spent + w.held > w.cap for w in wallets)
        return answer(request)

    worker = ScriptedModel(watched, "worker", context_tokens=4_000)
    calls = [{"name": "run_program", "arguments": {"source": source}}]
    planner = ScriptedModel([{"calls": calls}, "done"], "planner", price=_FREE)
    reader = Agent("reader", worker, "I am reader.", max_tokens=60, retry=_QUICK)
    bounds: dict[str, Any] = {"max_tokens": 60, "retry": _QUICK, "budget": "$0.02"}
    checker = Agent("checker", worker, "I am checker.", tools=[look], **bounds)
    given: dict[str, Any] = {"may": _MAY, "root": folder, "teach": False, "timeout": 2.0}
    written_by = run_program([reader, checker], [look], **given)
    written_by.fuel = _FUEL
    agent = Agent("planner", planner, tools=[written_by], budget="$2", max_tokens=10)
    async with Runtime("$100") as rt:
        await rt.ask(agent, "go")
        body = rt.program.registry.code["planner"]
        assert isinstance(body, AgentBody)
        admitted = body.authors["run_program"].admit(source, "vega", PAID_REPEATS)
        left = await _left(rt)
        spent = await rt.spent()
    message = planner.requests[-1].messages[-1]
    assert isinstance(message, ToolMessage)
    asked = {request.system.removeprefix("I am ").rstrip(".") for request in worker.requests}
    files = _files_in(folder)
    told = message.results[0].content
    return Seen(admitted, told, len(worker.requests), spent, asked, looked, left, files, over)


def _files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


async def _left(rt: Runtime) -> int:
    """What is still there when all that was cancelled has had its time to end."""
    left = 0
    for _ in range(1_000):
        state, code = rt.program.machine.state, rt.program.registry.code
        left = len(state.processes) + len(state.authored) + len(state.effects_in_flight)
        left += len(state.wallets) + sum("!" in name for name in code)
        if not left:
            return 0
        await asyncio.sleep(0.01)
    return left


def faults_of(seen: Seen) -> list[str]:
    """What must never be; empty if all was kept."""
    found = {
        "secret read": CANARY in seen.told,
        "files changed": seen.files != ["a.txt", "secret.txt"],
        "left behind": seen.left > 0,
        "above a cap at some instant": seen.over > 0,
    }
    admitted = seen.admitted
    if isinstance(admitted, RefusedProgram):
        found["called before acceptance"] = bool(seen.calls or seen.spent or seen.looked)
        found["not repairable"] = "- fix: " not in seen.told
        return [name for name, is_so in found.items() if is_so]
    manifest = admitted.manifest
    named = {line.name for line in manifest.agents}
    quoted = admitted.quoted
    most = None if quoted.calls is None else quoted.calls + (quoted.paid_repeats or 0)
    found |= {
        "above the quote": seen.spent > admitted.cost,
        "more calls than quoted": most is not None and seen.calls > most,
        "agent outside the manifest": not seen.asked <= named,
        "tool outside the manifest": bool(seen.looked)
        and "look" not in {*manifest.tools, *manifest.unknown},
    }
    return [name for name, is_so in found.items() if is_so]


def main(words: Sequence[str]) -> int:
    count = int(words[0]) if words else 100
    began, kinds, faults = monotonic(), Counter[str](), Counter[str]()
    programs = [(f"seed {seed}", written(Random(seed)), seed) for seed in range(count)]
    programs += [(f"hostile {n}", source, n) for n, source in enumerate(hostile())]
    for name, source, seed in programs:
        with tempfile.TemporaryDirectory() as folder:
            seen = asyncio.run(run_one(source, seed, Path(folder)))
        admitted = seen.admitted
        group = name.partition(" ")[0]
        verdict = (
            f"refused: {admitted.kind}" if isinstance(admitted, RefusedProgram) else "accepted"
        )
        kinds[f"{group}, {verdict}"] += 1
        if '"error"' in seen.told[:20]:
            kinds[f"{group}, accepted and ended with {_error(seen.told)}"] += 1
        for fault in faults_of(seen):
            faults[fault] += 1
            print(f"{name}: {fault}\n{source}\n{seen.told[:600]}\n", file=sys.stderr)
    for kind, number in sorted(kinds.items()):
        print(f"{number:6,}  {kind}")
    print(f"{len(programs):,} programs in {monotonic() - began:.0f} s; faults: {dict(faults) or 0}")
    return 1 if faults else 0


def _error(told: str) -> str:
    error, _, why = told.partition('"error":"')[2].partition(":")
    if error != "BudgetExceeded":
        return error
    whose = "a session" if "a session" in why else "a send" if "this send of" in why else "a wallet"
    return f"{error} of {whose}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
