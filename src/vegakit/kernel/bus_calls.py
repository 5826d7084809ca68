"""The bus of a tenant as one caller sees it: topics that fan out, and commands for one handler.

What waits on purpose holds a bell before it looks, so that nothing which happens in between is seen
late. A bus that fails holds up subscribers and refuses publishers; commands do not need it.
"""

import logging
from collections.abc import AsyncGenerator
from typing import Any

from msgspec import Struct

from vegakit.control import (
    AnswerCommandRequest,
    CommandIdRequest,
    CommandRecord,
    OperationError,
    PublishedMessage,
    PublishRequest,
    QueryRequest,
    RefusalCode,
    RenewCommandRequest,
    SendRequest,
    SubscribeRequest,
    TakeCommandRequest,
    TakenCommand,
    TopicItem,
    TopicItemKind,
)
from vegakit.errors import BusError
from vegakit.kernel import commands
from vegakit.kernel.kernel import Calls
from vegakit.ports import TopicMessage, TopicPage
from vegakit.records import from_json, to_json

_LOG = logging.getLogger("vegakit")

_LOOK_MS = 1_000
"""How soon a subscriber sees a message whose bell was lost, or a bus that answers again."""


class SignedMessage(Struct, frozen=True):
    """A message on the bus, with the user who published it."""

    by: str
    message: Any = None


class BusCalls(Calls):
    """The operations on topics and commands."""

    async def publish(self, request: PublishRequest) -> PublishedMessage:
        """Give a message to whoever reads a topic; it is not kept for long."""
        commands.check_size("the message", request.message)
        body = to_json(SignedMessage(self._caller.user, request.message))
        number = await self._kernel.bus.publish(self._caller.tenant, request.topic, body)
        if number is None:
            raise OperationError(
                RefusalCode.EXHAUSTED,
                "this tenant has as many topics as it may; publish to one of them, or wait until "
                "one is no longer used",
            )
        return PublishedMessage(request.topic, number)

    async def subscribe(self, request: SubscribeRequest) -> AsyncGenerator[TopicItem]:
        """Show the messages of a topic after a cursor, and those to come."""
        kernel, tenant, topic = self._kernel, self._caller.tenant, request.topic
        with kernel.bus.listen(tenant, topic) as bell:
            # Where a reader begins must be known before it is told that it has begun: an error here
            # is the reply.
            page = await kernel.bus.read(tenant, topic, request.after)
            began = page.cursor if request.after is None else request.after
            yield TopicItem(TopicItemKind.SUBSCRIBED, began, kernel.clock.now())
            is_cut = False
            while True:
                is_cut |= page.is_cut
                for message in page.messages:
                    yield _item(message, is_cut=is_cut)
                    is_cut = False
                if not page.messages:
                    if not request.follow or kernel.is_draining:
                        return
                    await bell.wait(kernel.clock.now() + _LOOK_MS)
                page = await self._next_page(topic, page.cursor)

    async def _next_page(self, topic: str, after: int) -> TopicPage:
        """Read on; from a bus that does not answer nothing comes for now."""
        try:
            return await self._kernel.bus.read(self._caller.tenant, topic, after)
        except BusError as error:
            # There may be many subscribers: that the bus is lost, it says itself.
            _LOG.info("a subscriber waits for the bus: %s", error)
            return TopicPage((), after)

    async def send(self, request: SendRequest) -> CommandRecord:
        """Give a command to exactly one handler of a topic; it is kept until it is handled."""
        key, by = request.id or self._new_id(), self._caller.user
        return await self._do(lambda it: commands.accept(it, request, key, by))

    async def query(self, request: QueryRequest) -> CommandRecord:
        """Give a command to exactly one handler of a topic, and wait for its answer."""
        kernel, tenant = self._kernel, self._caller.tenant
        key, by = request.id or self._new_id(), self._caller.user
        with kernel.bus.listen(tenant) as bell:
            command = await self._do(lambda it: commands.accept(it, request, key, by))
            while command.ended_ms is None:
                if kernel.clock.now() >= command.expires_ms:
                    # Whether the answer or the end of its time was first, is decided once.
                    command = await self._do(lambda it: commands.settled(it, key))
                    continue
                await kernel.wait_for_change(tenant, command.expires_ms, bell)
                command = await self._see(lambda it: commands.need(it, key))
        return command

    async def take_command(self, request: TakeCommandRequest) -> TakenCommand:
        """Take the next command of a topic, to handle it."""
        kernel, tenant = self._kernel, self._caller.tenant
        deadline_ms = kernel.clock.now() + request.wait_ms
        with kernel.bus.listen(tenant) as bell:
            while True:
                # Looking costs little: a transaction is only made when there is something to take.
                if await self._see(lambda it: commands.is_waiting(it, request.topic)):
                    taken = await self._do(lambda it: commands.take(it, request))
                    if taken is not None:
                        return TakenCommand(taken)
                elif kernel.is_draining or kernel.clock.now() >= deadline_ms:
                    return TakenCommand()
                else:
                    await kernel.wait_for_change(tenant, deadline_ms, bell)

    async def renew_command(self, request: RenewCommandRequest) -> CommandRecord:
        """Keep a command that is still handled."""
        return await self._do(lambda it: commands.renew(it, request))

    async def answer_command(self, request: AnswerCommandRequest) -> CommandRecord:
        """Say what came of a command; the first answer stands."""
        return await self._do(lambda it: commands.answer(it, request))

    async def get_command(self, request: CommandIdRequest) -> CommandRecord:
        """Show a command and how it stands."""
        return await self._see(lambda it: commands.need(it, request.id))


def _item(message: TopicMessage, *, is_cut: bool) -> TopicItem:
    signed = from_json(SignedMessage, message.body)
    return TopicItem(
        TopicItemKind.MESSAGE,
        message.number,
        message.at_ms,
        signed.message,
        signed.by,
        message.missed,
        message.is_cut or is_cut,
    )
