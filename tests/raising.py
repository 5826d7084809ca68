"""More money for a resumed run, as `vega resume --budget` adds it."""

import pytest

from vegakit.config import BudgetChange, ResumeTarget, resume_variables
from vegakit.money import dollars


def raised(amount: str) -> ResumeTarget:
    return ResumeTarget(budget=BudgetChange(dollars(amount), is_more=True))


def resume_next_command(monkeypatch: pytest.MonkeyPatch, target: ResumeTarget) -> None:
    """Have the next `vega run` in this process resume a run, as if `vega resume` had started it."""
    for name, value in resume_variables(target).items():
        monkeypatch.setenv(name, value)
