"""Which answer a script gives to which request."""

import pytest

from tests.testing.provider.plain import Line, answers, chat, converse, said
from vegakit.testing import Failure, Provider, ProviderReply, ProviderRequest


def test_a_list_is_answered_in_turn_and_its_last_stays() -> None:
    """So "fails twice, then works" is a list of three."""
    got = answers([Failure(500), Failure(529), "ok"], *[chat("hi")] * 5)
    assert [status for status, _, _ in got] == [500, 529, 200, 200, 200]


def test_a_mapping_answers_by_what_the_text_contains() -> None:
    """The first key that fits; each has its own script, and '' fits all."""
    script = {"France": ["Paris", "Lyon"], "Spain": "Madrid", "": "no idea"}
    texts = ["capital of France?", "of Spain?", "and France?", "of Mars?"]
    got = answers(script, *map(chat, texts))
    assert list(map(said, got)) == ["Paris", "Madrid", "Lyon", "no idea"]


def test_a_text_without_an_answer_says_which_there_are() -> None:
    """The test's author reads it as the client's error."""
    ((status, _, body),) = answers({"France": "Paris"}, chat("of Mars?"))
    assert status == 400
    assert "no answer for 'of Mars?'; it knows France" in body["error"]["message"]


def test_a_function_works_the_answer_out() -> None:
    """From anything in the request."""

    def shout(request: ProviderRequest) -> ProviderReply:
        return ProviderReply(f"{request.text.upper()} {request.model} {request.attempt}")

    got = answers(shout, chat("hi"), chat("hi"), chat("ho"))
    assert list(map(said, got)) == ["HI m 1", "HI m 2", "HO m 1"]


def test_an_empty_list_is_no_script() -> None:
    """It is said when it is written, not when it is used."""
    with pytest.raises(ValueError, match="empty list, write"):
        Provider([])


def test_a_reset_forgets_the_log_and_begins_anew() -> None:
    """Counts of attempts start again too."""

    async def conversation(line: Line, provider: Provider) -> None:
        for _ in range(2):
            line.writer.write(chat("hi") * 2)
            assert [said(await line.answer()), said(await line.answer())] == ["one", "two"]
            assert [(r.n, r.attempt) for r in provider.requests] == [(1, 1), (2, 2)]
            provider.reset()

    assert converse(["one", "two"], conversation).requests == []


def test_a_function_that_raises_is_not_lost() -> None:
    """Its client is dropped, and leaving the provider raises it."""

    async def conversation(line: Line, provider: Provider) -> None:
        line.writer.write(chat("hi"))
        assert await line.reader.read() == b""
        assert [request.status for request in provider.requests] == ["stopped"]

    def broken(_: ProviderRequest) -> str:
        raise KeyError("no such city")

    with pytest.raises(KeyError, match="no such city"):
        converse(broken, conversation)
