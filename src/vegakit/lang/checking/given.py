"""Agents that whoever runs a program declares: to the program they are its own.

They stand in a file of their own that nobody can read or name, and are not checked: their names and
settings come from outside. What they may cost and touch is known from their specs as of any agent.
"""

from collections.abc import Sequence

from vegakit.lang.bytecode import AgentSpec
from vegakit.lang.checked import Unit
from vegakit.lang.checking.relations import shown
from vegakit.lang.signatures import Signature
from vegakit.lang.tree import (
    AgentDecl,
    AgentField,
    Decimal,
    Duration,
    Expr,
    MoneyLit,
    Name,
    Setting,
    Source,
    Text,
    ToolRef,
    Whole,
)
from vegakit.lang.types import NOTHING

__all__ = ["GIVEN", "given_unit", "signature_text"]

GIVEN = "agents given"


def given_unit(agents: Sequence[AgentSpec]) -> Unit:
    return Unit(GIVEN, "", Source(0, 0, None, tuple(map(_decl, agents)), ()), {})


def signature_text(of: Signature) -> str:
    """`look(path: str, most?: int) -> [Finding]`, as a program would declare it."""
    params = (f"{one.name}{'?' if one.optional else ''}: {shown(one.type)}" for one in of.params)
    result = "" if of.result == NOTHING else f" -> {shown(of.result)}"
    return f"{of.name}({', '.join(params)}){result}"


def _decl(spec: AgentSpec) -> AgentDecl:
    """Of the settings that a quote and a manifest need; who runs the agent has the others."""
    values: dict[str, Expr | None] = {
        "model": Text(0, 0, (spec.model,)),
        "system": Text(0, 0, (spec.system,)) if spec.system else None,
        "temperature": None if spec.temperature is None else Decimal(0, 0, spec.temperature),
        "max_tokens": None if spec.max_tokens is None else Whole(0, 0, spec.max_tokens),
        "max_steps": None if spec.max_steps is None else Whole(0, 0, spec.max_steps),
        "budget": None if spec.budget is None else MoneyLit(0, 0, spec.budget),
        "timeout": None if spec.timeout_ms is None else Duration(0, 0, spec.timeout_ms),
        "memory": Name(0, 0, "conversation") if spec.memory else None,
    }
    fields = [AgentField(0, 0, name, value) for name, value in values.items() if value is not None]
    if spec.retry is not None:
        attempts = Whole(0, 0, spec.retry["max_attempts"])
        fields.append(AgentField(0, 0, "retry", (Setting(0, 0, "max_attempts", attempts),)))
    refs = (
        *(ToolRef(0, 0, name) for name in spec.tools),
        *(ToolRef(0, 0, name, "yaml") for name in spec.yaml),
    )
    if refs:
        fields.append(AgentField(0, 0, "tools", refs))
    return AgentDecl(0, 0, spec.name, tuple(fields), ())
