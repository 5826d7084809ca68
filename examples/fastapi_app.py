"""A web application with an agent that answers its users, each within a budget of their own.

    pip install vegakit fastapi uvicorn
    VEGA_MODELS_FAST=scripted:fastapi_app.script.json uvicorn fastapi_app:app
    curl -N localhost:8000/agents/assistant -H 'X-User: ann' -H 'Accept: text/event-stream' \
        -H 'Content-Type: application/json' -d '{"prompt": "Where is order 17?"}'

Without the variable, the model `fast` of your settings answers. Leave out the header `Accept`, and
the answer is one JSON object. A front end that speaks AG-UI posts to the same address.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from vegakit import Agent, Runtime
from vegakit.server import AsgiScope, vega_router

ORDERS = {"17": "two lamps, sent on Monday", "18": "a desk, being made"}


async def look_up(order: str) -> str:
    """Return what is known of an order."""
    return ORDERS.get(order, "there is no such order")


assistant = Agent(
    "assistant",
    model="fast",
    instructions="You answer customers of a shop, in one sentence.",
    tools=[look_up],
    max_tokens=300,
    budget="$0.02",
)
rt = Runtime("$20/day", name="shop")


def user_of(scope: AsgiScope) -> str | None:
    """Say whose request it is. Take it from your session or token, not from a header like this."""
    return dict(scope["headers"]).get(b"x-user", b"").decode() or None


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    """Keep one runtime for all requests."""
    async with rt:
        yield


app = FastAPI(lifespan=lifespan)
app.mount(
    "/agents",
    vega_router({"assistant": assistant}, rt, identify=user_of, user_budget="$0.05/day"),
)
