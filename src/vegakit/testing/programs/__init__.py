"""Tests in the language itself: programs with what they shall do beside the line (kit)."""

from vegakit.testing.programs.expecting import Expected, read_expected
from vegakit.testing.programs.running import (
    Ran,
    compare,
    given_to,
    model_of,
    run_program,
    run_test,
    tests_below,
)
from vegakit.testing.programs.simulated import run_simulated

__all__ = [
    "Expected",
    "Ran",
    "compare",
    "given_to",
    "model_of",
    "read_expected",
    "run_program",
    "run_simulated",
    "run_test",
    "tests_below",
]
