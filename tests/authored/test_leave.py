"""What a written program may use, and what its model is told of it."""

from pathlib import Path

import pytest

from tests.authored.stage import call, play, results
from vegakit.errors import UserError
from vegakit.host import Agent, run_program
from vegakit.program import ProgramRights
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.tools import tool

ASK = 'fn main() -> str { let a = reader <- "hi"; return a; }'


async def test_agents_of_its_own_use_models_and_tools_that_were_given() -> None:
    """By the names that they were given by."""

    @tool()
    def look(path: str) -> str:
        """Look."""
        return f"saw {path}"

    source = """
agent Own { model "scripted"  system "Be brief."  max_tokens 50  tools [look]  budget $0.02 }
fn main() -> str { let a = Own <- "hi"; return a + look("b"); }
"""
    script = [{"calls": [{"name": "look", "arguments": {"path": "a"}}]}, "done, "]
    played = await play(call(source), answers=script, tools=[look], teach=False)
    assert played.last["result"] == "done, saw b"
    assert "saw a" in str(played.reader.requests[1])


async def test_a_planner_may_be_called_like_an_agent_of_its_programs() -> None:
    """They are two bodies all the same."""
    model = ScriptedModel([call(ASK), "done"])
    reader = Agent("reader", ScriptedModel("fine"), max_tokens=100)
    async with Runtime("$10") as rt:
        reply = await rt.ask(Agent("reader", model, tools=[run_program([reader])]), "go")
        assert reply.text == "done"
    assert '"result":"fine"' in results(model.requests)[0]


async def test_files_inside_are_read_and_others_denied(tmp_path: Path) -> None:
    """Whatever the program declares."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.txt").write_text("inside")
    (tmp_path / "secret.txt").write_text("outside")
    source = """program may [fs::read]
print(file::read("src/a.txt"));
try { print(file::read("secret.txt")); } catch CapabilityDenied(why) { print(why); }
"""
    may = ProgramRights(capabilities=["fs::read"], paths=["src/**"])
    played = await play(call(source), may=may, root=tmp_path)
    assert played.last["printed"].startswith("inside\n")
    assert "outside" not in played.last["printed"]
    assert "secret.txt was asked" in played.last["printed"].replace("'", "")


async def test_an_agent_with_memory_keeps_it_as_a_process() -> None:
    """Sends to its name are each their own conversation."""
    model = ScriptedModel(lambda request: str(len(request.messages)))
    keeper = Agent("keeper", model, memory="conversation", max_tokens=10)
    source = """
let a = spawn keeper wallet $0.05;
let one = a <- "x"; let two = a <- "y"; let three = keeper <- "z";
print("{one} {two} {three}");
"""
    played = await play(call(source), agents=[keeper])
    assert played.last["printed"] == "1 3 1\n"


async def test_an_agent_of_a_program_file_may_write_programs(tmp_path: Path) -> None:
    """`tools [run_program]` in Vega."""
    (tmp_path / "main.vega").write_text(
        "agent P { model m  tools [run_program] }\n"
        'fn main() -> str { let a = P <- "go"; return a; }'
    )
    planner = ScriptedModel([call(ASK), "done"])
    reader = Agent("reader", ScriptedModel("fine"), max_tokens=100)
    async with Runtime("$10", models=lambda _: planner) as rt:
        program = rt.load(tmp_path / "main.vega", tools=[run_program([reader])])
        assert await program.main() == "done"
    assert '"result":"fine"' in results(planner.requests)[0]


PYTHON = """\
from vegakit import program


@program
def main() -> int:
    total = 0
    for i in range(3):
        said = reader(f"part {i}")
        total = total + len(said)
    print(f"{total} letters")
    return total
"""


async def test_a_program_in_python_is_the_same() -> None:
    """Checked, quoted, refused and run as one in Vega."""
    dear = PYTHON.replace("range(3)", "range(355000)")
    script = [call(dear, language="python"), call(PYTHON, language="python")]
    played = await play(*script)
    assert played.told[0].startswith("refused (cost)")
    assert "Most expensive is line 8" in played.told[0]
    assert played.last["result"] == 12
    assert played.last["printed"] == "12 letters\n"
    assert len(played.reader.requests) == 3
    played = await play(call("import os", language="python"), call(PYTHON), languages=["python"])
    assert played.told[0].startswith("refused (mistakes)")
    assert played.last["result"] == 12


async def test_the_model_is_told_what_it_may_use() -> None:
    """Agents, functions, rights, limits and the language."""

    def look(path: str, most: int = 2) -> list[str]:
        return [path] * most

    played = await play(tools=[look])
    [request] = played.planner.requests
    assert request.system.startswith("Plan.\n\n# Programs for run_program")
    for told in ("- reader: Read it.", "- look(path: str, most?: int?) -> [str]", "none but print"):
        assert told in request.system
    assert "# Vega on a card" in request.system
    assert "It is in vega, or with `language` in python." in request.system
    assert len(request.tools[0].description) < 1_000


def test_what_cannot_be_given_is_said_at_once() -> None:
    """Before any model is asked."""
    model = ScriptedModel("x")
    with pytest.raises(UserError, match="cannot ask the agent 'a b'"):
        run_program([Agent("a b", model)])
    with pytest.raises(UserError, match="a name of its own"):
        run_program([Agent("a", model), Agent("a", model)])
    with pytest.raises(UserError, match="give run_program to one of its agents"):
        run_program([], [run_program()])
    with pytest.raises(UserError, match="languages are some of: vega, python"):
        run_program([], languages=["cobol"])
    with pytest.raises(UserError, match="grants nothing alone"):
        ProgramRights(hosts=["example.com"])
