"""Names and types: a tree becomes a checked program, or diagnostics (pure)."""

__all__: list[str] = []
