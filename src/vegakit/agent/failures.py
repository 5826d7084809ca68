"""How a turn can fail: each bound and fault with its name in the language and its words."""

from vegakit.agent.actions import Failed
from vegakit.agent.rule import HistoryPolicy, TurnRule
from vegakit.conversation import Finish, ModelReply, ToolResult
from vegakit.errors import (
    AgentFailed,
    ContractViolated,
    ErrorClass,
    LimitReached,
    OutputTruncated,
    Raised,
    RateLimited,
    Timeout,
    ToolFailed,
)
from vegakit.events import Failed as CallFailed
from vegakit.events import Refused, Unknown

__all__ = [
    "broken_contract",
    "call_failed",
    "keeps_failing",
    "nothing_said",
    "too_long",
    "too_many_calls",
    "too_many_steps",
    "too_many_tokens",
    "unusable",
]

_NAMES: dict[ErrorClass, type[Raised]] = {
    ErrorClass.TIMEOUT: Timeout,
    ErrorClass.RATE_LIMIT: RateLimited,
    ErrorClass.CONTEXT_LENGTH: LimitReached,
}
"""Whatever else the world does is `AgentFailed`."""


def _failed(kind: type[Raised], reason: str) -> Failed:
    return Failed(kind.__name__, reason)


def call_failed(outcome: CallFailed | Refused | Unknown) -> Failed:
    match outcome:
        case Refused():
            return Failed(outcome.error, outcome.reason)
        case CallFailed():
            return _failed(_NAMES.get(outcome.error_class, AgentFailed), outcome.reason)
        case Unknown():
            return _failed(
                AgentFailed,
                "the call was cut off when the run was, so its answer is lost; it is charged in "
                "full, and its rule says not to send it again; to have it sent, type: vega resume",
            )


def unusable(rule: TurnRule, reply: ModelReply) -> Failed | None:
    """An answer that was not brought to its end is not looked into, its tool calls neither."""
    match reply.finish:
        case Finish.LENGTH:
            most = rule.settings.max_tokens
            what = "a tool call" if reply.message.tool_calls else "the answer"
            return _failed(
                OutputTruncated,
                f"{what} of {rule.model} was cut off at max_tokens={most}; "
                f"set max_tokens higher, for example {2 * most}, or ask for less",
            )
        case Finish.CONTENT_FILTER:
            return _failed(
                AgentFailed,
                f"the content filter of {rule.model} stopped the answer; "
                "change what is asked, or ask another model",
            )
        case Finish.STOP | Finish.TOOL_CALLS:
            return None


def nothing_said(rule: TurnRule) -> Failed:
    return _failed(
        AgentFailed,
        f"{rule.model} answered with neither text nor a tool call that it could make; "
        "make the prompt say what answer is wanted, or ask another model",
    )


def broken_contract(rule: TurnRule, problem: str) -> Failed:
    wanted = f"the schema {rule.output.name}" if rule.output else "what was asked for"
    return _failed(
        ContractViolated,
        f"{rule.output_retries + 1} answers of {rule.model} did not fit {wanted}; "
        f"the last one: {problem}; make the schema simpler or raise output_retries",
    )


def keeps_failing(rule: TurnRule, result: ToolResult) -> Failed:
    return _failed(
        ToolFailed,
        f"tool {result.name} failed {rule.identical_failures} times in a row with the same "
        f"arguments: {result.content}; repair the tool, say in its description what it takes, "
        "or raise identical_failures",
    )


def too_many_steps(rule: TurnRule, steps: int) -> Failed:
    return _failed(
        LimitReached,
        f"{steps} model calls were made and the answer needs more than max_steps={rule.max_steps}; "
        "raise max_steps, or ask for less at once",
    )


def too_many_calls(rule: TurnRule, made: int, wanted: int) -> Failed:
    return _failed(
        LimitReached,
        f"{made} tool calls were made and the model wants {wanted} more, above "
        f"max_tool_calls={rule.max_tool_calls}; raise max_tool_calls, or ask for less at once",
    )


def too_many_tokens(rule: TurnRule, used: int, tokens: int) -> Failed:
    return _failed(
        LimitReached,
        f"{used} tokens are used and the next model call may take {tokens} for its input and "
        f"{rule.settings.max_tokens} for its answer, above max_total_tokens="
        f"{rule.max_total_tokens}; raise max_total_tokens, or lower max_tokens",
    )


def too_long(rule: TurnRule, tokens: int) -> Failed:
    hint = "set history to drop_oldest or summarise, " * (rule.history is HistoryPolicy.ERROR)
    return _failed(
        LimitReached,
        f"a request may take {tokens} tokens and its answer {rule.settings.max_tokens}, but the "
        f"window of {rule.model} holds {rule.context_tokens}; {hint}shorten the prompt or the "
        "tools' results, lower max_tokens, or take a model with a larger window",
    )
