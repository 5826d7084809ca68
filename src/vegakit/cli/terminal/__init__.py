"""The terminal of the coding agent: `vega code` on a screen, or in plain lines.

`state`, `reducer`, `diffs`, `commands` and `narrator` are pure and know no screen; `driver` has the
session. `plain` and `typed` tell it in lines. `draw` and `markdown` make the lines of a screen; the
rest is drawn by Textual, and only loaded when a screen is opened.
"""

__all__: list[str] = []
