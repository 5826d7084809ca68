"""Sessions and wallets of random programs, against a plain model of money."""

from hypothesis import given, strategies as st

from tests.program.spending import Spending


@given(st.integers(0, 10**9))
def test_no_program_spends_more_than_it_may(seed: int) -> None:
    """Whatever it opens, sends, spawns, cancels: no cap is passed, all is given back, sums fit."""
    Spending(seed).run()
