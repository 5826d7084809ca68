"""The pieces of a streamed answer, as they come.

Of a tool call only its beginning is told: half its arguments are of no use to anybody. The
arguments of the output tool are the answer itself and come as text.
"""

from collections.abc import Iterator

from pydantic_ai.messages import (
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)

from vegakit.conversation import ModelChunk, ReasoningDelta, TextDelta, ToolCallStarted

__all__ = ["Chunks"]


class Chunks:
    def __init__(self, output_tool: str | None) -> None:
        self._output_tool = output_tool
        self._outputs: set[int] = set()
        self._calls = 0

    def of(self, event: ModelResponseStreamEvent) -> Iterator[ModelChunk]:
        match event:
            case PartStartEvent(part=TextPart(content=str(text))) if text:
                yield TextDelta(text)
            case PartStartEvent(part=ThinkingPart(content=str(text))) if text:
                yield ReasoningDelta(text)
            case PartStartEvent(part=ToolCallPart() as call):
                yield from self._on_call(event.index, call)
            case PartDeltaEvent(delta=TextPartDelta(content_delta=str(text))) if text:
                yield TextDelta(text)
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=str(text))) if text:
                yield ReasoningDelta(text)
            case PartDeltaEvent(delta=ToolCallPartDelta(args_delta=str(text))):
                if text and event.index in self._outputs:
                    yield TextDelta(text)
            case _:
                pass

    def _on_call(self, index: int, call: ToolCallPart) -> Iterator[ModelChunk]:
        if call.tool_name == self._output_tool:
            self._outputs.add(index)
            if isinstance(call.args, str) and call.args:
                yield TextDelta(call.args)
        else:
            yield ToolCallStarted(call.tool_name, self._calls)
            self._calls += 1
