"""Commands for programs: run, check, build, disasm, fmt, test."""

__all__ = []
