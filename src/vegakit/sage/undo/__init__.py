"""Undo of all that a turn wrote: what is kept of files, how a workspace is looked through, how it
is restored, and the turns."""

__all__: list[str] = []
