"""Rights: what is granted, what is asked for, and whether the one covers the other (pure)."""

__all__ = []
