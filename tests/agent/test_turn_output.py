"""Answers that must fit, and the tokens they may take."""

from tests.agent.turns import PROMPT, begin, call, calls, count, failure, rule, text, user
from vegakit.agent import AskModel, Finished, ToolOutcome, Turn
from vegakit.conversation import OutputSpec, Usage

OUTPUT = OutputSpec("Sum", {"type": "object"})


def too_short(answer: str) -> str | None:
    return None if len(answer) > 3 else f"{answer!r} is too short"


def test_an_answer_that_fits_is_taken() -> None:
    """The check is asked once."""
    assert isinstance(begin().on_reply(text("long"), too_short, count=count), Finished)


def test_a_problem_is_told_to_the_model() -> None:
    """The answer stays in the conversation, the problem follows it in the user's name."""
    asked = begin().on_reply(text("no"), too_short, count=count)
    assert isinstance(asked, AskModel)
    told = user("Your answer does not fit: 'no' is too short. Answer again.")
    assert asked.request.messages[1:] == (text("no").message, told)


def test_after_all_retries_the_contract_is_violated() -> None:
    """Two retries are three answers; the last problem is in the error."""
    turn = begin(rule(output=OUTPUT, output_retries=2))
    turn.on_reply(text("a"), too_short, count=count)
    turn.on_reply(text("b"), too_short, count=count)
    error, reason = failure(turn.on_reply(text("c"), too_short, count=count))
    assert error == "ContractViolated"
    assert "3 answers of test:m did not fit the schema Sum; the last one: 'c' is too sho" in reason


def test_a_check_needs_no_schema() -> None:
    """A contract may be about plain text."""
    turn = begin(rule(output_retries=0))
    error, reason = failure(turn.on_reply(text("a"), too_short, count=count))
    assert (error, "did not fit what was asked for" in reason) == ("ContractViolated", True)


def test_an_empty_answer_is_not_a_broken_contract() -> None:
    """It has its own re-ask, and the check does not see it."""
    turn = begin(rule(output_retries=0))
    assert isinstance(turn.on_reply(text(""), too_short, count=count), AskModel)
    assert isinstance(turn.on_reply(text("long"), too_short, count=count), Finished)


def test_tokens_are_reserved_before_they_are_used() -> None:
    """2 letters in, 100 out at most: 102 fit, 101 do not, before the first call."""
    assert isinstance(Turn(rule(max_total_tokens=102)).start(PROMPT, count=count), AskModel)
    error, reason = failure(Turn(rule(max_total_tokens=101)).start(PROMPT, count=count))
    assert error == "LimitReached"
    assert "may take 2 for its input and 100 for its answer, above max_total_tokens=101" in reason


def test_what_was_used_is_what_counts_after_the_call() -> None:
    """15 were used; the next request has 2 + 3 + 1 letters and may take 100 more."""
    for limit, fits in ((121, True), (120, False)):
        turn = begin(rule(max_total_tokens=limit))
        turn.on_reply(calls(call()), count=count)
        action = turn.on_tools({0: ToolOutcome("3")}, count=count)
        assert isinstance(action, AskModel) == fits


def test_a_silent_provider_is_counted_at_the_most() -> None:
    """Its input bound and max_tokens, as the money for it is."""
    turn = begin(rule(max_total_tokens=10_000))
    turn.on_reply(text("done", usage=None), count=count)
    assert turn.spent.tokens == 102


def test_an_answer_above_its_bound_is_still_an_answer() -> None:
    """It is paid for; only a further call is refused."""
    turn = begin(rule(max_total_tokens=200))
    assert isinstance(turn.on_reply(text("done", usage=Usage(900, 5)), count=count), Finished)


def test_quotes_count_what_is_said_of_an_empty_answer() -> None:
    """In the words of the turn."""
    from vegakit.agent import turn
    from vegakit.lang.analysis.cost_sends import EMPTY_NOTE

    assert EMPTY_NOTE == turn._NO_TOOLS  # pyright: ignore[reportPrivateUsage]
