"""Records, requests and replies of the bus of a tenant (pure).

What is published is for whoever reads the topic now or soon: it is gone when the history of the
topic is. A command (`send`, `query`) is for exactly one handler and is a record of the tenant: once
it is acknowledged it is handed out, or it is told that its time was over.
"""

from enum import StrEnum
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

from vegakit.control.kernel_messages import Count, Milliseconds, Name, OptionalName

WaitMs: TypeAlias = Annotated[int, Meta(ge=0, le=60_000)]


# Topics.


class PublishRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A message to whoever reads the topic. It is not kept for those who come much later."""

    topic: Name
    message: Any = None


class PublishedMessage(Struct, frozen=True):
    """The number of a message that was published; a reader with the cursor before it gets it."""

    topic: str
    number: int


class SubscribeRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The messages of a topic with numbers above `after` that are still kept, and those to come; if
    not given, only those to come. With `follow` false the stream ends with what is kept."""

    topic: Name
    after: Count | None = None
    follow: bool = True


class TopicItemKind(StrEnum):
    """The kinds of what a subscriber gets: first where it begins, then messages."""

    SUBSCRIBED = "subscribed"
    MESSAGE = "message"


class TopicItem(Struct, frozen=True, omit_defaults=True):
    """One item of a subscription; its number is the cursor to go on from. `missed` is how many
    messages before it are no longer kept; `is_cut` says that there may have been more, which nobody
    can count, because the history of the topic was lost. `by` is the user who published it."""

    kind: TopicItemKind
    number: int
    at_ms: int
    message: Any = None
    by: str = ""
    missed: int = 0
    is_cut: bool = False


# Commands.


class CommandStatus(StrEnum):
    """The states of a command. The last three are final."""

    WAITING = "waiting"
    TAKEN = "taken"
    DONE = "done"
    FAILED = "failed"
    EXPIRED = "expired"


class CommandRecord(Struct, frozen=True, omit_defaults=True):
    """A command, and how it stands. `attempt` counts how often it was handed out; `holder` is who
    had it last. A query must be answered by `expires_ms`, any other must be handed out by then."""

    id: str
    topic: str
    by: str
    created_ms: int
    expires_ms: int
    body: Any = None
    is_query: bool = False
    max_attempts: int = 1
    status: CommandStatus = CommandStatus.WAITING
    attempt: int = 0
    holder: str = ""
    lease_until_ms: int | None = None
    answer: Any = None
    error: str = ""
    ended_ms: int | None = None


class SendRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A command for one handler of the topic. A caller that names the `id` may ask again without
    sending a second one. A handler that lets its lease end is followed by the next, up to
    `max_attempts` of them: with 1 no two are ever handed it."""

    topic: Name
    body: Any = None
    id: OptionalName = ""
    expires_in_ms: Milliseconds = 86_400_000
    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 5


class QueryRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A command whose answer is waited for, `wait_ms` from when it was first asked. A caller that
    names the `id` may ask again, and gets the same answer."""

    topic: Name
    body: Any = None
    id: OptionalName = ""
    wait_ms: Annotated[int, Meta(ge=1, le=60_000)] = 10_000
    max_attempts: Annotated[int, Meta(ge=1, le=100)] = 5


class TakeCommandRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`holder` handles the command; if it neither answers nor renews within `lease_ms`, the command
    is handed out again. While there is none the reply waits, for at most `wait_ms`."""

    topic: Name
    holder: Name
    lease_ms: Milliseconds = 60_000
    wait_ms: WaitMs = 0


class TakenCommand(Struct, frozen=True, omit_defaults=True):
    """The command to handle; None if none waits."""

    command: CommandRecord | None = None


class RenewCommandRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`holder` still handles the command; `attempt` is as it was handed out."""

    id: Name
    holder: Name
    attempt: Count
    lease_ms: Milliseconds = 60_000


class AnswerCommandRequest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The command was handled, with this answer, or with this error for good. `attempt` is as it
    was handed out: one that was handed out again meanwhile is not answered by the first holder."""

    id: Name
    holder: Name
    attempt: Count
    answer: Any = None
    error: Annotated[str, Meta(max_length=10_000)] = ""


class CommandIdRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The command that an operation is about."""

    id: Name
