"""What starting costs: an agent that runs no program loads no compiler and no virtual machine, and
importing the API loads little. `benchmarks/importing.py` has the time it takes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MOST_MODULES = 250
LATER = {
    *("ctypes", "email", "importlib.metadata", "importlib.resources", "sqlite3", "tomllib"),
    *("pydantic", "vegakit.config", "vegakit.host.program_run", "vegakit.providers.access"),
    *("vegakit.store", "vegakit.telemetry.jsonl", "vegakit.telemetry.otel", "vegakit.tools.files"),
}
"""What is loaded when a runtime is made, opens something or calls a provider, and not before."""

ASKS = {
    "plain": ("", "", ""),
    "with a tool": (
        '{"calls": [{"name": "double", "arguments": {"number": 2}}]}, ',
        "tools=[double]",
        "",
    ),
    "with a type": ("", "output_type=int", ""),
    "with a journal": ("", "", 'journal="run.db"'),
    "as a process": ("", 'memory="conversation"', 'mode="ask"'),
}
ASK = """
import asyncio, sys
from vegakit import Agent, Runtime
from vegakit.providers import ScriptedModel

def double(number: int) -> int:
    "Double a number."
    return 2 * number

async def main():
    model = ScriptedModel([{said}'{{"result": 4}}', '{{"result": 4}}'])
    agent = Agent("calculator", model=model, {agent})
    async with Runtime({runtime}) as rt:
        assert "4" in str((await rt.ask(agent, "Twice two?")).output)
        await rt.spawn(agent).ask("Twice two?")

asyncio.run(main())
print(*sys.modules)
"""


def _loaded(code: str, folder: Path) -> set[str]:
    # What measures coverage in child processes loads modules of its own there.
    environment = {name: v for name, v in os.environ.items() if not name.startswith("COVERAGE")}
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return set(ran.stdout.split())


@pytest.mark.parametrize("way", ASKS)
def test_agents_load_no_language(way: str, tmp_path: Path) -> None:
    """Neither for asks nor for processes, whatever the agent has beside its model."""
    said, agent, runtime = ASKS[way]
    loaded = _loaded(ASK.format(said=said, agent=agent, runtime=runtime), tmp_path)
    assert "vegakit.program.machine" in loaded
    programs = ("vegakit.lang", "vegakit.vm", "vegakit.program.admission", "vegakit.host.admission")
    assert [name for name in sorted(loaded) if name.startswith(programs)] == []


def test_the_api_is_imported_with_few_modules(tmp_path: Path) -> None:
    """What is needed later is loaded later."""
    loaded = _loaded(
        "import sys; from vegakit import Agent, Runtime; print(*sys.modules)", tmp_path
    )
    assert {"vegakit.sdk.runtime", "vegakit.host.agents"} <= loaded
    assert loaded & LATER == set()
    assert len(loaded) <= MOST_MODULES, f"{len(loaded)} modules"


def test_a_program_loads_what_it_needs(tmp_path: Path) -> None:
    """The same runtime runs one: the checks above do not hold because nothing works."""
    (tmp_path / "two.vega").write_text("fn main() -> int { return 2; }\n")
    code = (
        "import asyncio, sys; from vegakit import Runtime\n"
        "async def main():\n"
        "    async with Runtime() as rt: assert await rt.load('two.vega').main() == 2\n"
        "asyncio.run(main()); print(*sys.modules)"
    )
    assert {"vegakit.lang", "vegakit.vm"} <= _loaded(code, tmp_path)
