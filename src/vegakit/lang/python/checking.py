"""The check of a program in Python: lowered, checked like any other, then held to its demands."""

from collections.abc import Mapping, Sequence

from vegakit.lang.bytecode import AgentSpec
from vegakit.lang.checked import Checked
from vegakit.lang.checking import check
from vegakit.lang.checking.importing import Read
from vegakit.lang.diagnostics import Diagnostic
from vegakit.lang.parsing import Parsed
from vegakit.lang.python.demands import unmet
from vegakit.lang.python.lowering import lower
from vegakit.lang.python.spelling import in_python
from vegakit.lang.signatures import Signature
from vegakit.lang.types import Type

__all__ = ["check_python"]


def check_python(
    text: str,
    file: str,
    read: Read,
    *,
    tools: Mapping[str, Signature | None] | None = None,
    types: Mapping[str, Type] | None = None,
    agents: Sequence[AgentSpec] = (),
) -> tuple[Checked | None, tuple[Diagnostic, ...]]:
    """Faults of the lowering are told alone, as those of spelling are; so are those of types."""
    lowered = lower(text, file, frozenset(spec.name for spec in agents))
    parsed = Parsed(lowered.source, lowered.diagnostics)
    known = {**(tools or {}), **lowered.tools}
    checked, found = check(
        text,
        file,
        read,
        tools=known,
        types=types,
        agents=agents,
        parse=lambda _text, _file: parsed,
    )
    if lowered.diagnostics:
        return None, lowered.diagnostics
    told = tuple(in_python(one, text) for one in found)
    if checked is None:
        return None, told
    more = unmet(lowered.demands, checked, text, file)
    return (None if more else checked), tuple(sorted((*told, *more), key=lambda one: one.at))
