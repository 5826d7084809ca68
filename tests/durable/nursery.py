"""Workers forked from a process that has imported everything: a provider's library takes seconds.

Each is a process of its own, which `kill -9` ends like any other.
"""

import multiprocessing
import os
from multiprocessing.context import ForkServerProcess

from vegakit.durable.worker import main

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.durable.nursery", "tests.durable.warm"])

DEPLOYMENT = "tests.durable.dying:deployment"


def start_worker(address: str, queue: str, **told: str) -> ForkServerProcess:
    """`told` is what the deployment reads from its environment."""
    command = [DEPLOYMENT, "--address", address, "--queue", queue]
    worker = _FORKS.Process(target=_live, args=(told, command), daemon=True)
    worker.start()
    return worker


def _live(told: dict[str, str], command: list[str]) -> None:
    os.environ.update(told)
    main(command)
