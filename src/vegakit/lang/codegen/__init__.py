"""Checked tree to bytecode, its verification and its listing (pure)."""

__all__: list[str] = []
