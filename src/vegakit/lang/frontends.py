"""Choose the front end of a file and check it: `.py` is Python, everything else is Vega (pure).

The only module that knows both front ends, and so above both.
"""

from collections.abc import Mapping, Sequence

from vegakit.lang.check.program import check_program as check_vega
from vegakit.lang.check.symbols import Checked, ReadSource
from vegakit.lang.codegen.bytecode import AgentSpec
from vegakit.lang.diagnostics import Diagnostic, TooMuchWorkError, step_limit
from vegakit.lang.types import Signature, Type


def check_program(
    text: str,
    file: str,
    read: ReadSource,
    *,
    tools: Mapping[str, Signature | None] | None = None,
    types: Mapping[str, Type] | None = None,
    agents: Sequence[AgentSpec] = (),
) -> tuple[Checked | None, tuple[Diagnostic, ...]]:
    """`read` gives the text of a file below the project root; `tools` are Python functions that are
    passed in, with what they take and give if that is known, and `types` are types from there;
    `agents` are declared by who runs the program."""
    try:
        with step_limit():
            if file.endswith(".py"):
                from vegakit.lang.python import check_python

                return check_python(text, file, read, tools=tools, types=types, agents=agents)
            return check_vega(text, file, read, tools=tools, types=types, agents=agents)
    except TooMuchWorkError as spent:
        what, _, remedy = str(spent).partition("; ")
        return None, (Diagnostic("too-much-work", what, file, 0, 1, remedy),)
