# pyright: basic, reportMissingImports=false
"""Pydantic AI's harness on DBOS, in a process that may be killed: `python -m … PLAN URL FOLDER`.

DynamicWorkflow, planner and reader with `DBOSDurability`, steps in a SQLite file of the folder. A
second life finds the workflow by its id. Prints what the planner said last.
"""

import asyncio
import sys
from pathlib import Path

from dbos import DBOS, SetWorkflowID
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits
from pydantic_ai_harness import DynamicWorkflow

from benchmarks.peers_programs.plans import ASKS, MODEL

__all__ = ["live"]

NO_LIMITS = UsageLimits(request_limit=None)
VERSION = "1"
"""Of the program, so that a second life takes over what a first one left."""


async def live(plan: str, url: str, folder: Path) -> str:
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="any"))
    reader = Agent(
        model,
        name="reader",
        description="Reads a page.",
        instructions="Be brief.",
        model_settings={"max_tokens": 1_250},
        capabilities=[DBOSDurability()],
    )
    workflow = DynamicWorkflow(
        agents=[reader], max_agent_calls=ASKS, sub_agent_usage_limits=NO_LIMITS, id="workflow"
    )
    planner = Agent(model, name="planner", capabilities=[workflow, DBOSDurability()])

    @DBOS.workflow(name="plan")
    async def work(prompt: str) -> str:
        return (await planner.run(prompt, usage_limits=NO_LIMITS)).output

    database = f"sqlite:///{folder / 'dbos.sqlite'}"
    DBOS(
        config={
            "name": "plans",
            "system_database_url": database,
            "application_version": VERSION,
            "run_admin_server": False,
            "log_level": "ERROR",
        }
    )
    DBOS.launch()
    with SetWorkflowID("one"):
        handle = await DBOS.start_workflow_async(work, f"plan {plan}")
    try:
        return await handle.get_result()
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    print(asyncio.run(live(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
