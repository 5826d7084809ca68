"""Programs that models write, on Temporal: the source travels in the state and with each call."""

from pathlib import Path

from tests.authored.stage import call, results
from tests.durable.stage import stage
from vegakit.host import Agent, run_program
from vegakit.providers import ScriptedModel

SOURCE = """
agent Own { model "reader"  max_tokens 20 }
fn main() -> str {
    let a = "";
    let b = "";
    parallel { a = reader <- "one"; b = Own <- "two"; }
    print(a + b);
    let c = Own <- "three";
    return c;
}
"""
DEAR = 'for i in range(355000) { reader <- "x"; }'


async def test_a_written_program_runs_on_temporal(temporal: str, tmp_path: Path) -> None:
    """Refused, mended, run; every history is replayed at the end, and comes to the same."""
    planner = ScriptedModel([call(DEAR), call(SOURCE), "done"], "planner")
    reader = Agent("reader", ScriptedModel("fine", "reader"), max_tokens=30)
    tool = run_program([reader], teach=False)
    agent = Agent("planner", planner, tools=[tool], budget="$2", max_tokens=50)
    async with stage(temporal, tmp_path, [agent], cache=0) as here:
        program = await here.start()
        path = await program.spawn("planner")
        reply = await program.ask(path, "go")
        assert reply.text == "done"
        refused, ran = results(planner.requests)
        assert refused.startswith("refused (cost)")
        assert '"result":"fine","printed":"finefine\\n"' in ran
        assert '"calls":3' in ran
        state = await program.state()
        assert state.authored == {}
        assert reply.cost == state.wallets[path].spent
        await program.stop()
