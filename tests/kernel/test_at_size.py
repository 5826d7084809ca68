"""The campaign of the kernel at commit size: every process is taken once, on every store."""

from campaigns.kernel import run


async def test_a_few_processes_are_each_taken_once() -> None:
    figures = await run((120, 20))
    assert [one.name for one in figures if not one.holds] == []
    assert {one.name.partition(":")[0] for one in figures} == {"memory", "SQLite", "PostgreSQL"}
