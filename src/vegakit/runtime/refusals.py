"""What a person is told when a call is not made: what it could cost, why not, what to set."""

from typing import Protocol

from vegakit.conversation import ModelRequest
from vegakit.errors import BudgetExceeded, Paused
from vegakit.money import Money, show
from vegakit.policy import Admission, MustAsk, Reserved, ScopeClosed, Short
from vegakit.ports import Model
from vegakit.prices import PriceRow

__all__ = ["price_of", "refusal"]


class _Call(Protocol):
    @property
    def model(self) -> Model: ...
    @property
    def request(self) -> ModelRequest: ...


def price_of(model: Model) -> PriceRow:
    if model.price is None:
        raise BudgetExceeded(
            f"{model.name} has no known price, so what a call could cost cannot be capped; "
            f'give it one in vega.toml: [prices."{model.name}"] input = "$1" output = "$5" '
            "(per million tokens)"
        )
    return model.price


def refusal(call: _Call, worst: Money, verdict: Admission) -> BudgetExceeded:
    tokens = call.request.settings.max_tokens
    could = f"a call of {call.model.name} could cost {show(worst)} (max_tokens {tokens:,})"
    match verdict:
        case Short(scope, cap, settled, reserved):
            left = Money(max(0, cap - settled - reserved))
            return BudgetExceeded(
                f"{could}, but budget {scope!r} has {show(left)} left of {show(cap)}: "
                f"{show(settled)} spent, {show(reserved)} reserved by calls under way; "
                "raise the budget, or lower max_tokens"
                + ("" if verdict.hopeless else ", or pass wait_for_budget=True")
            )
        case MustAsk(scope, cap, missing):
            return Paused(
                f"{could}: {show(missing)} more than budget {scope!r} of {show(cap)} holds, "
                "and it is set to ask; raise it to go on: vega resume --budget '+$1'"
            )
        case ScopeClosed(scope):
            return BudgetExceeded(
                f"{could}, but budget {scope!r} is closed; make the call inside its `with` block"
            )
        case Reserved():
            raise AssertionError("a reserved call is not refused")
