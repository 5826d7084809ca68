"""Source as it should look: tokens and comments stay, blanks and some line breaks change.

- four spaces for each level; a line that goes on is indented by one level more
- blocks over several lines have each statement on a line of its own; blocks on one line stay so
- one blank line around a declaration of several lines, never two, none at the edges of braces
- settings on one line stand two blanks apart; comments behind lines that follow each other align
- other line breaks, long lines and strings stay as they are written

    text ── atoms ── where lines break ── how they are indented ── blanks between atoms ── text
"""

from vegakit.lang.formatting.layout import format_source

__all__ = ["format_source"]
