"""The terminal of the coding agent: `vega code` on a screen.

`state`, `reducer`, `diffs` and `commands` are pure and know no screen; `draw` and `markdown` make
lines of them; the rest is drawn by Textual, and only loaded when a screen is opened.
"""

__all__: list[str] = []
