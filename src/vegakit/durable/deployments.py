"""What a worker serves: bodies, and the truth about money and answers that its fleet shares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from vegakit.errors import UserError
from vegakit.ports import Ledger, Store
from vegakit.runtime import Agent, Reducer, Registry, Runtime, VegaProgram, deploy

__all__ = ["Deployment", "deployment_at"]


@dataclass(frozen=True)
class Deployment:
    """`ledger` and `answers` are those of all workers of one queue: files on one machine, a server
    for several. With `answers` an answer that was paid for outlives a worker that dies before
    Temporal heard of it. `options` are further ones of `Runtime`: budget, models, limits, trace.
    Of a compiled program each function is a body. `version` names the code; Temporal shows it
    beside every task."""

    bodies: Sequence[Agent[Any] | Reducer | VegaProgram]
    ledger: Ledger
    answers: Store | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    version: str = "unversioned"

    def runtime(self) -> Runtime:
        return Runtime(ledger=self.ledger, **self.options)

    def registry(self, runtime: Runtime) -> Registry:
        registry = Registry(runtime)
        for body in self.bodies:
            if isinstance(body, VegaProgram):
                deploy(body.module, body.root, registry)
            else:
                _check(body)
                registry.register(body)
        return registry


def _check(body: object) -> None:
    if not isinstance(body, Agent | Reducer):
        raise UserError(
            f"{body!r} cannot run on Temporal: no other worker could take up a coroutine where it "
            "stood; write it as a Reducer, or spawn it with a local Runtime"
        )


def deployment_at(place: str) -> Deployment:
    """`module:function`, which is called without arguments."""
    module, _, name = place.partition(":")
    try:
        made = getattr(import_module(module), name)()
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(
            f"{place!r} is not a function that can be imported ({error}); write module:function, "
            "of a function that returns a Deployment"
        ) from error
    if not isinstance(made, Deployment):
        raise UserError(f"{place} returned {made!r}; it must return a Deployment")
    return made
