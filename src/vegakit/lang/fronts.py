"""Which front end reads a file: `.py` is Python, all others are Vega."""

from collections.abc import Mapping, Sequence

from vegakit.lang.bytecode import AgentSpec
from vegakit.lang.checked import Checked
from vegakit.lang.checking import check as check_vega
from vegakit.lang.checking.importing import Read
from vegakit.lang.diagnostics import Diagnostic
from vegakit.lang.signatures import Signature
from vegakit.lang.steps import StepsSpentError, counted
from vegakit.lang.types import Type

__all__ = ["check"]


def check(
    text: str,
    file: str,
    read: Read,
    *,
    tools: Mapping[str, Signature | None] | None = None,
    types: Mapping[str, Type] | None = None,
    agents: Sequence[AgentSpec] = (),
) -> tuple[Checked | None, tuple[Diagnostic, ...]]:
    """`read` gives the text of a file below the project root; `tools` are Python functions that are
    passed in, with what they take and give if that is known, and `types` are types from there;
    `agents` are declared by who runs the program."""
    try:
        with counted():
            if file.endswith(".py"):
                from vegakit.lang.python import check_python

                return check_python(text, file, read, tools=tools, types=types, agents=agents)
            return check_vega(text, file, read, tools=tools, types=types, agents=agents)
    except StepsSpentError as spent:
        what, _, remedy = str(spent).partition("; ")
        return None, (Diagnostic("too-much-work", what, file, 0, 1, remedy),)
