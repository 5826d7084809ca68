"""Tools that are written in Vega, as agents know them."""

from collections.abc import Mapping
from typing import Any

from vegakit.conversation import ToolSpec as ModelTool
from vegakit.errors import BugError
from vegakit.lang import RecordOf, ToolSpec, schema_of
from vegakit.program import ProcessSpec

__all__ = ["VegaTool"]


class VegaTool:
    """Of a program: the machine runs it as a fiber; no host ever calls it."""

    timeout_ms = 600_000

    def __init__(self, spec: ToolSpec, process: ProcessSpec) -> None:
        name = spec.name.rpartition(".")[2].rpartition("::")[2]
        self.spec = ModelTool(name, spec.description, schema_of(RecordOf(name, spec.params)))
        self.repeatable = spec.repeatable
        self.process = process

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        raise BugError(f"{self.spec.name} runs inside its program")
