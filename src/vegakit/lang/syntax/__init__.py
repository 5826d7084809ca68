"""Source to tokens to tree, and back to formatted source (pure)."""

__all__: list[str] = []
