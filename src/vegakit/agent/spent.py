"""What a turn has used of its bounds, and whether the next call still fits them.

| bound            | a model call fits while                 | tool calls fit while           |
|------------------|-----------------------------------------|--------------------------------|
| max_steps        | a step is left; for a summary, two      | a step is left for the results |
| max_total_tokens | used + input at most + max_tokens <= it | –                              |
| context_tokens   | input at most + max_tokens <= it        | –                              |
| max_tool_calls   | –                                       | made + wanted <= it            |

So a bound is never passed, and no call is bought whose fruit could not be used.
"""

from msgspec import Struct

from vegakit.agent.actions import Failed
from vegakit.agent.failures import too_long, too_many_calls, too_many_steps, too_many_tokens
from vegakit.agent.rule import TurnRule
from vegakit.conversation import Usage

__all__ = ["Spent"]


class Spent(Struct, omit_defaults=True):
    """`usage` is what providers reported; `tokens` takes a call they kept silent about at its most,
    which is `at_risk` while the call is out."""

    steps: int = 0
    tool_calls: int = 0
    usage: Usage = Usage()
    tokens: int = 0
    at_risk: int = 0

    def begin_call(self, rule: TurnRule, input_tokens: int, steps: int) -> int | Failed:
        """The number of the call, if `steps` are left and it fits."""
        most = input_tokens + rule.settings.max_tokens
        if self.steps + steps > rule.max_steps:
            return too_many_steps(rule, self.steps)
        if rule.input_room is not None and input_tokens > rule.input_room:
            return too_long(rule, input_tokens)
        if rule.max_total_tokens is not None and self.tokens + most > rule.max_total_tokens:
            return too_many_tokens(rule, self.tokens, input_tokens)
        self.at_risk = most
        self.steps += 1
        return self.steps - 1

    def begin_tools(self, rule: TurnRule, calls: int) -> Failed | None:
        if self.tool_calls + calls > rule.max_tool_calls:
            return too_many_calls(rule, self.tool_calls, calls)
        if self.steps >= rule.max_steps:
            return too_many_steps(rule, self.steps)
        self.tool_calls += calls
        return None

    def on_answered(self, usage: Usage | None) -> None:
        if usage is None:
            self.tokens += self.at_risk
        else:
            self.tokens += usage.input_tokens + usage.output_tokens
            self.usage += usage
        self.at_risk = 0
