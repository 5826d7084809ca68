"""A web service that answers customers, traced with OpenTelemetry from request to model.

    pip install 'vegakit[otel]' fastapi uvicorn opentelemetry-instrumentation-fastapi
    VEGA_MODELS_FAST=scripted:service.script.json uvicorn service:app
    curl -X POST localhost:8000/orders/17/reply

Without the variable, the model `fast` of your settings answers; the script knows the orders 17 and
18, three times each. Spans go to the collector that
OTEL_EXPORTER_OTLP_ENDPOINT names, as those of every service that uses OpenTelemetry.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from vegakit import Agent, Runtime, trace
from vegakit.config import load

COLLECTOR = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318")
ORDERS = {"17": "two lamps, sent on Monday", "18": "a desk, being made"}

# As in any service: these lines know nothing of Vega.
provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
database = provider.get_tracer("database")


async def look_up(order: str) -> str:
    """Return what is known of an order."""
    with database.start_as_current_span("SELECT orders"):
        found = ORDERS.get(order)
    trace.event("found" if found else "not found")
    return found or "there is no such order"


reader = Agent("reader", model="fast", tools=[look_up], budget="$0.05")
writer = Agent("writer", model="fast", budget="$0.05")
checker = Agent("checker", model="fast", budget="$0.05")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Keep one runtime for all requests."""
    async with Runtime.from_config(load({"telemetry.otlp": COLLECTOR})) as rt:
        app.state.rt = rt
        yield
    provider.shutdown()


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order}/reply")
async def reply(order: str) -> dict[str, str]:
    """Write to the customer, and say whether the text may be sent."""
    rt: Runtime = app.state.rt
    facts = await rt.ask(reader, f"What do we know of order {order}?")
    draft = await rt.ask(writer, f"Write to the customer: {facts}")
    verdict = await rt.ask(checker, f"May this be sent? {draft}")
    return {"reply": str(draft), "verdict": str(verdict)}


FastAPIInstrumentor.instrument_app(app, tracer_provider=provider, exclude_spans=["receive", "send"])
