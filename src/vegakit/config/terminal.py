"""What the environment says about the terminal."""

import os
from collections.abc import Mapping
from typing import TextIO

__all__ = ["wants_colour"]


def wants_colour(stream: TextIO, environment: Mapping[str, str] | None = None) -> bool:
    """On a terminal, unless NO_COLOR is set to anything or the terminal is dumb."""
    variables = os.environ if environment is None else environment
    return stream.isatty() and not variables.get("NO_COLOR") and variables.get("TERM") != "dumb"
