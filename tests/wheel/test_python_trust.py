"""Python of a file runs after its user trusts that file, and not before: through the wheel."""

from pathlib import Path

import pytest
from campaigns.contract.stage import Done, Stage, stage

RUNS = "__import__('os').system('touch RAN')"
TOOL = '@tool\ndef add(a: int{}) -> int:\n    """Add."""\n    return a\n'
HEAD = "from vegakit import program, tool\n\n\n"
MAIN = "\n\n@program\ndef main() -> int:\n    return 1  # expect: 1\n"
PROGRAM = HEAD + TOOL.format(f', **more: "{RUNS}"') + MAIN
SOUND = HEAD + TOOL.replace("@tool", f"@tool(capabilities=[] if {RUNS} else [])").format("") + MAIN
"""What its annotations hold is no type, so `PROGRAM` itself ends in an error once it is loaded."""
TOOLS = (
    "from __future__ import annotations\nfrom vegakit import tool\n"
    + TOOL.format(f", b: [int for _ in [{RUNS}]][0] = 1")
    + "\n\ndef replace(rt):\n    return None\n"
)
PIPELINE = """\
stages:
  - {name: one, agent: adder}
agents:
  adder: {model: fast, prompt: "{input}", max_tokens: 50, tools: [add]}
"""
WITH_TOOLS = ("vega", "run", "--tools", "tools.py", "--input", "Step 1", "steps.yaml")
REFUSED = (
    ("vega", "run", "x.py"),
    WITH_TOOLS,
    ("vega", "rollout", "start", "tools.py:replace"),
)


def _has_run(here: Stage) -> bool:
    return (here.folder / "RAN").exists()


def _says(done: Done) -> str:
    """Both streams, on one line."""
    return " ".join(f"{done.out} {done.err}".split())


@pytest.mark.timeout(600)
def test_python_is_loaded_after_trust_only(wheel: Path) -> None:
    """Annotations look inert and run: no command decides by their shape whether they are."""
    with stage(wheel) as here:
        here.write({"x.py": PROGRAM, "tools.py": TOOLS, "steps.yaml": PIPELINE})
        for command in REFUSED:
            done = here.run(*command)
            file = "tools.py" if "tools.py" in " ".join(command) else "x.py"
            assert done.code == 1, f"{command}: {done}"
            assert f"vega config trust {here.folder.resolve() / file}" in _says(done)
            assert not _has_run(here), command
        for command in ("explain", "check"):
            said = _says(here.run_well("vega", command, "x.py"))
            assert "Vega cannot know what" in said
            assert "vega config trust x.py" in said
            assert "touches nothing" not in said
            assert not _has_run(here), command
        here.write({"x.py": SOUND})
        here.run_well("vega", "config", "trust", "x.py")
        assert not _has_run(here)
        assert here.run_well("vega", "run", "x.py").out.strip() == "1"
        assert _has_run(here)


@pytest.mark.timeout(600)
def test_trust_ends_with_the_next_change(wheel: Path) -> None:
    """It is bound to the bytes, and the refusal says that they changed."""
    with stage(wheel) as here:
        here.write({"tools.py": TOOLS, "steps.yaml": PIPELINE})
        here.run_well("vega", "config", "trust", "tools.py")
        here.run_well(*WITH_TOOLS)
        assert _has_run(here)
        (here.folder / "RAN").unlink()
        here.write({"tools.py": TOOLS + "# more\n"})
        done = here.run(*WITH_TOOLS)
        assert done.code == 1
        assert "changed since you trusted it" in _says(done)
        assert not _has_run(here)
