"""What the kernel asks of PostgreSQL: a look is one statement, a change one transaction."""

from benchmarks.kernel_life import LIFE, record

from tests.store.postgres import own_schema, url_of

LOOK = 1
TRANSACTION = 4
"""Begin, number, lock and commit."""
SENT = [
    ("create_process", TRANSACTION + 1 + 2),
    ("transition_state", TRANSACTION + 2 + 2),
    ("initialize_session", TRANSACTION + 3 + 4),
    ("get_next_instruction", TRANSACTION + 2),
    ("report_agent_result", TRANSACTION + 3 + 5),
    ("record_usage", TRANSACTION + 2 + 2),
    ("get_next_instruction", TRANSACTION + 2),
    ("report_agent_result", TRANSACTION + 3 + 5),
    ("record_usage", TRANSACTION + 2 + 2),
    ("list_processes", LOOK),
    ("watch_events", LOOK),
    ("transition_state", TRANSACTION + 3 + 3),
]
"""What each call of a life reads and writes; its token is one look more."""


async def test_a_call_sends_no_statement_that_it_can_do_without() -> None:
    with own_schema() as schema:
        found = await record(url_of(schema), "acme")
    assert [(one.name, len(one.statements) - LOOK) for one in found] == SENT
    assert [one.name for one in found] == [call.name for call in LIFE]
