"""The supervisor against the script of `otp_model`, over random histories and slow hosts."""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.policy.supervision_histories import SupervisorAgainstOtp, coverage_table, never_met

FULL_SIZE = 1000


@pytest.mark.timeout(60 + settings().max_examples)
def test_it_says_what_the_model_says() -> None:
    """No difference; and a full run meets every strategy, type and reason."""
    run_state_machine_as_test(SupervisorAgainstOtp, settings=settings(stateful_step_count=25))
    print(coverage_table())
    if settings().max_examples >= FULL_SIZE:
        assert never_met() == []
