# pyright: basic, reportMissingImports=false
"""Pydantic AI's harness, in a process that may be killed: `python -m … WAY PLAN URL FOLDER`.

| way       | the program asks `reader` through    | what holds it                             |
|-----------|--------------------------------------|-------------------------------------------|
| defaults  | DynamicWorkflow                      | its defaults: 50 calls                    |
| limits    | DynamicWorkflow, as many as it wants | `UsageLimits(cost_limit=1)`, one counter  |
| spend     | DynamicWorkflow, as many as it wants | `SpendLimits`, one counter for the reader |
| code      | CodeMode, a tool that runs `reader`  | `UsageLimits(cost_limit=1)`, one counter  |

Steps are kept by `StepPersistence` in a file of the folder. Prints what the planner said last.
"""

import asyncio
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, RunContext
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits
from pydantic_ai_harness import CodeMode, DynamicWorkflow, SpendLimits
from pydantic_ai_harness.spend import Budget
from pydantic_ai_harness.step_persistence import SqliteStepStore, StepPersistence, continue_run

from benchmarks.peers_programs.plans import ASKS, CAP, MODEL

__all__ = ["live"]

NO_LIMITS = UsageLimits(request_limit=None)
COST = UsageLimits(request_limit=None, cost_limit=Decimal(CAP))


def programs(way: str, reader: Agent) -> list:
    if way == "code":
        return [CodeMode(max_tool_calls=ASKS)]
    if way == "defaults":
        return [DynamicWorkflow(agents=[reader])]
    limits = COST if way == "limits" else NO_LIMITS
    workflow = DynamicWorkflow(agents=[reader], max_agent_calls=ASKS, sub_agent_usage_limits=limits)
    return [workflow]


async def live(way: str, plan: str, url: str, folder: Path) -> str:
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=f"{url}/v1", api_key="any"))
    spend = [SpendLimits(budgets=[Budget(usd=Decimal(CAP), window="total")])]
    reader = Agent(
        model,
        name="reader",
        description="Reads a page.",
        instructions="Be brief.",
        model_settings={"max_tokens": 1_250},
        capabilities=spend if way == "spend" else [],
    )
    store = SqliteStepStore(database=str(folder / "steps.db"))
    kept = StepPersistence(store=store, agent_name="planner")
    planner = Agent(model, capabilities=[*programs(way, reader), kept])
    if way == "code":

        async def ask(ctx: RunContext[Any], task: str) -> str:
            """Reads a page."""
            return (await reader.run(task, usage=ctx.usage, usage_limits=COST)).output

        planner.tool(name="reader")(ask)
    history = await earlier(store)
    prompt = None if history else f"plan {plan}"
    run = await planner.run(
        prompt, message_history=history, conversation_id="one", usage_limits=COST
    )
    return run.output


async def earlier(store: SqliteStepStore) -> list | None:
    """What a life before this one left, as far as it can be gone on from."""
    runs = await store.list_runs(conversation_id="one")
    if not runs:
        return None
    for interrupted in (False, True):
        try:
            history = await continue_run(
                store, run_id=runs[-1].run_id, include_interrupted=interrupted
            )
        except LookupError as error:
            print(f"continue_run: {error}", file=sys.stderr)
            continue
        return history
    return None


if __name__ == "__main__":
    print(asyncio.run(live(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))))
