"""The rules of the runtime, one small machine a file (pure).

Each machine is a record that turns to JSON and back at any step. It is told what happened, with
`now` in steady milliseconds, and answers with a verdict or actions as data; nobody here waits,
reads a clock, draws a random number or logs. Rules and table stand at the top of each file; the
tests hold every machine against an independent model.
"""

from vegakit.policy.breaker import Breaker, BreakerChange, BreakerRule, BreakerState, Permit
from vegakit.policy.verdicts import NotYet

__all__ = ["Breaker", "BreakerChange", "BreakerRule", "BreakerState", "NotYet", "Permit"]
