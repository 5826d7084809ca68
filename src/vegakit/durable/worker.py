"""`python -m vegakit.durable.worker module:function`: serves the deployment it returns."""

import argparse
import asyncio
import signal
from contextlib import suppress

from vegakit.concurrency import end_signals
from vegakit.durable.client import connect
from vegakit.durable.deployment import Role, deployment_at, serve


def main(arguments: list[str] | None = None) -> None:
    """Serve a queue from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m vegakit.durable.worker",
        description="Serves the programs of a task queue of Temporal until it is ended.",
    )
    parser.add_argument("deployment", help="module:function that returns a Deployment")
    parser.add_argument("--address", default="localhost:7233", help="of Temporal's frontend")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--queue", default="vega", help="the programs' task queue")
    parser.add_argument(
        "--role", action="append", type=Role, choices=list(Role), help="all, unless some are named"
    )
    options = parser.parse_args(arguments)
    for number in end_signals():
        signal.signal(number, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        asyncio.run(_run(options))


async def _run(options: argparse.Namespace) -> None:
    connection = await connect(options.address, namespace=options.namespace, queue=options.queue)
    await serve(deployment_at(options.deployment), connection, roles=options.role or tuple(Role))


if __name__ == "__main__":
    main()
