"""Who stops listening closes the connection."""

import asyncio
from contextlib import aclosing

import pytest

from tests.models.asking import WIRES, answer, request, talk
from tests.patience import PATIENCE_S
from vegakit.conversation import ModelReply
from vegakit.ports import Model
from vegakit.providers import ADMITTED, admitted
from vegakit.providers.connection import Connection
from vegakit.testing import Hang, Provider, ProviderReply, RequestStatus

wires = pytest.mark.parametrize("name", WIRES)
ENDLESS = ProviderReply("word " * 5_000, gap_ms=20)


async def _gone(provider: Provider) -> None:
    (ended,) = await provider.wait_ended(timeout_s=PATIENCE_S)
    assert ended.status is RequestStatus.DISCONNECTED


@wires
def test_closing_a_stream_closes_the_socket(name: str) -> None:
    """The provider sees it go, long before it has said all."""

    async def conversation(model: Model, provider: Provider) -> None:
        async with aclosing(model.stream(request())) as chunks:
            with admitted():
                await anext(chunks)
        await _gone(provider)

    talk(name, ENDLESS, conversation)


@wires
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_cancelling_closes_the_socket(name: str, stream: bool) -> None:
    """In a stream or while the whole answer is waited for."""

    async def conversation(model: Model, provider: Provider) -> None:
        asking = asyncio.create_task(answer(model, request(), stream=stream))
        await provider.wait_received()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await _gone(provider)

    talk(name, ENDLESS if stream else Hang(), conversation)


@wires
def test_a_connection_is_used_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for all calls that follow each other, also if a stream is left with its reply."""
    opened: list[object] = []

    class Counted(Connection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            opened.append(transport)
            super().connection_made(transport)

    monkeypatch.setattr("vegakit.providers.transport.Connection", Counted)

    async def conversation(model: Model, _: Provider) -> None:
        for _round in range(2):
            await answer(model, request(), stream=False)
            async with aclosing(model.stream(request())) as chunks:
                with admitted():
                    while not isinstance(await anext(chunks), ModelReply):
                        pass

    provider = talk(name, "ok", conversation)
    assert len(provider.requests) == 4
    assert len(opened) == 1


def test_a_model_may_be_used_in_one_loop_after_another() -> None:
    """Its connections begin anew."""
    from tests.models.asking import ANTHROPIC, access
    from vegakit.providers import build_model

    with Provider("ok").in_thread() as provider:
        model = build_model(ANTHROPIC, access(provider.url))

        async def once() -> None:
            await answer(model, request(), stream=False)
            await model.aclose()

        asyncio.run(once())
        asyncio.run(once())
    assert len(provider.requests) == 2


def test_an_admission_ends_with_its_block() -> None:
    """Whatever happens inside."""
    with pytest.raises(KeyError), admitted():
        raise KeyError
    assert ADMITTED.get() is None
