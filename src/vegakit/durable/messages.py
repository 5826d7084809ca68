"""Messages between clients, the workflow of a program and its activities, and their encoding as
Temporal payloads.
"""

from enum import StrEnum
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    EncodingPayloadConverter,
)

from vegakit.agent import ToolOutcome
from vegakit.conversation import Conversation, ModelReply
from vegakit.effects import Effect
from vegakit.events import EffectOutcome
from vegakit.ids import Digest
from vegakit.money import Money
from vegakit.policy import Interrupts
from vegakit.program import (
    AgentReply,
    AuthoredProgram,
    Event,
    MessageFailed,
    Printed,
    Program,
    Returned,
    Spawned,
    SpawnRefused,
)
from vegakit.records import from_json, to_json

# What clients, the workflow of a program and its activities say to each other.


BETWEEN_TASKS = "the program is between two tasks; ask again"
"""Why a query failed that came at a bad moment."""


class ActivityName(StrEnum):
    """The activities. `FIND_OUTCOME` asks what became of a call whose worker did not say."""

    MODEL = "call_model"
    TOOL = "call_tool"
    FIND_OUTCOME = "find_outcome"


class ChargedReply(Struct, frozen=True, tag=True, omit_defaults=True):
    """The answer of an agent."""

    said: AgentReply
    charged: Money = Money(0)


class ReplyPending(Struct, frozen=True, tag=True):
    """A command was obeyed, and its answer is still to come."""


Reply: TypeAlias = Returned | MessageFailed | ChargedReply | Spawned | SpawnRefused | ReplyPending


class Command(Struct, frozen=True, omit_defaults=True):
    """The same `id` is obeyed once. A post that wants an answer carries it as its `ask`."""

    id: str
    event: Event
    timeout_ms: int | None = None


class PersonAnswer(Struct, frozen=True, omit_defaults=True):
    """A person's answer to a question, by its id or the beginning of it; `action` is what they were
    shown with it."""

    question: str
    answer: bool | str
    by: str
    action: Digest | None = None


class Launch(Struct, frozen=True, omit_defaults=True):
    """The input of one run of the workflow. `queue` names the code. After `longest` events of
    history it moves to a next run; `replies` go with it, for those who have not heard them, and
    `interrupts`, the questions that people have not answered, and the last that was `printed`."""

    state: Program
    queue: str
    heartbeat_ms: int = 10_000
    longest: int = 10_000
    replies: dict[str, Reply] = {}
    interrupts: Interrupts | None = None
    printed: list[Printed] = []


class ActivityInput(Struct, frozen=True, omit_defaults=True):
    """An effect for an activity: `body` names the agent that it is for, `authored` is the program
    that declares it, if a model wrote that."""

    effect: Effect
    body: str
    path: str
    cancelled: bool = False
    authored: AuthoredProgram | None = None


class ActivityResult(Struct, frozen=True):
    """The outcome of an effect; `digest` is that of the request."""

    digest: Digest
    outcome: EffectOutcome


# Our records as Temporal keeps them: JSON that people can read in its histories.
#
# Workflows run in many threads, and msgspec crashes the process when two of them look into a kind
# of record for the first time at once. So all kinds that are read in a workflow are looked into
# here.


_JSON = "json/plain"
_LARGEST_BYTES = 1_800_000
"""Temporal takes two million, and would try what is larger again for ever."""
_READ = (
    *(Launch, Command, PersonAnswer, ActivityResult, ActivityInput, Reply),
    *(Program, Interrupts, Conversation, ModelReply, ToolOutcome),
)
_LOOKED_INTO = [msgspec.json.Decoder[Any](kind) for kind in _READ]


class _Records(EncodingPayloadConverter):
    @property
    def encoding(self) -> str:
        return _JSON

    def to_payload(self, value: Any) -> Payload | None:  # noqa: ANN401
        return Payload(metadata={"encoding": _JSON.encode()}, data=to_json(value))

    def from_payload(self, payload: Payload, type_hint: type[Any] | None = None) -> Any:  # noqa: ANN401
        return from_json(type_hint or object, payload.data)


class RecordConverter(CompositePayloadConverter):
    """A converter like Temporal's own, except that our code writes and checks its JSON."""

    def __init__(self) -> None:
        usual = DefaultPayloadConverter.default_encoding_payload_converters
        kept = (converter for converter in usual if converter.encoding != _JSON)
        super().__init__(*kept, _Records())


RECORDS = DataConverter(payload_converter_class=RecordConverter)


def why_too_large(what: str, record: object, remedy: str) -> str:
    """Return why Temporal does not take a record, or an empty text if it does."""
    size = len(to_json(record))
    if size <= _LARGEST_BYTES:
        return ""
    return f"{what} has {size:,} bytes, and Temporal keeps at most {_LARGEST_BYTES:,}; {remedy}"
