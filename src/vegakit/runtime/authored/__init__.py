"""Programs that models write, on this host: the tool, and what runs a source (host)."""

from vegakit.runtime.authored.judging import Judges, Permit
from vegakit.runtime.authored.tool import RunProgram, run_program

__all__ = ["Judges", "Permit", "RunProgram", "run_program"]
