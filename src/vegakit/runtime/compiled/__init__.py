"""Compiled programs on this host: from a file to processes of a runtime (host)."""

from vegakit.runtime.compiled.deploying import Deployed, deploy
from vegakit.runtime.compiled.loading import (
    ProgramRefused,
    VegaFunction,
    VegaProgram,
    load,
)
from vegakit.runtime.compiled.tools import VegaTool
from vegakit.runtime.compiled.values import arguments, python_value

__all__ = [
    "Deployed",
    "ProgramRefused",
    "VegaFunction",
    "VegaProgram",
    "VegaTool",
    "arguments",
    "deploy",
    "load",
    "python_value",
]
