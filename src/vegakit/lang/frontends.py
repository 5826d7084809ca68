"""Choose the front end of a file and check it: `.py` is Python, everything else is Vega (pure).

The only module that knows both front ends, and so above both.
"""

import re
from collections.abc import Mapping, Sequence

from vegakit.lang.check.program import check_program as check_vega
from vegakit.lang.check.symbols import Checked, ReadSource, Reports, read_units
from vegakit.lang.codegen.bytecode import AgentSpec
from vegakit.lang.diagnostics import (
    Diagnostic,
    TooManyDiagnosticsError,
    TooMuchWorkError,
    step_limit,
)
from vegakit.lang.syntax.tree import Source, UseNode
from vegakit.lang.types import Signature, Type


def declared_nodes(text: str, file: str, read: ReadSource) -> tuple[str, ...]:
    """Return the ids of the nodes that a program declares, also in the files that it uses: who
    checks it passes them in. What is wrong with the program is told when it is checked."""
    if not _MAY_DECLARE.search(text):
        return ()
    try:
        with step_limit():
            sources = _sources(text, file, read)
    except (TooManyDiagnosticsError, TooMuchWorkError, RecursionError):
        return ()
    found = [one for source in sources for one in source.decls if isinstance(one, UseNode)]
    return tuple(dict.fromkeys(one.node for one in found))


def _sources(text: str, file: str, read: ReadSource) -> list[Source]:
    if file.endswith(".py"):
        from vegakit.lang.python import lower

        return [lower(text, file).source]
    return [unit.source for unit in read_units(text, file, read, Reports(file)).values()]


_MAY_DECLARE = re.compile(r"\bnode\b|^\s*use\s*\"", re.MULTILINE)
"""Most programs have no nodes, and need not be parsed to know that."""


def check_program(
    text: str,
    file: str,
    read: ReadSource,
    *,
    tools: Mapping[str, Signature | None] | None = None,
    types: Mapping[str, Type] | None = None,
    agents: Sequence[AgentSpec] = (),
    is_lent: bool = False,
) -> tuple[Checked | None, tuple[Diagnostic, ...]]:
    """`read` gives the text of a file below the project root; `tools` are Python functions that are
    passed in, with what they take and give if that is known, and `types` are types from there;
    `agents` are declared by who runs the program, and who lends it the hosts and commands that it
    leaves open if it `is_lent` its rights."""
    try:
        with step_limit():
            if file.endswith(".py"):
                from vegakit.lang.python import check_python as check
            else:
                check = check_vega
            return check(text, file, read, tools=tools, types=types, agents=agents, is_lent=is_lent)
    except TooMuchWorkError as spent:
        what, _, remedy = str(spent).partition("; ")
        return None, (Diagnostic("too-much-work", what, file, 0, 1, remedy),)
