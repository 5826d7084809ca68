"""Checked tree to bytecode: one pass over the statements, no optimiser."""

from vegakit.lang.compiling.module import compile_program

__all__ = ["compile_program"]
