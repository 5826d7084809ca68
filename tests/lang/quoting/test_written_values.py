"""Texts that go through records, lists, maps, JSON and CSV, as long as they can be: no message is
longer than its quote says."""

from pathlib import Path
from random import Random

import pytest

from tests.lang.quoting.running import checked_of
from tests.lang.quoting.test_sizes import HEAD, size
from vegakit.conversation import ModelRequest, Text, UserMessage
from vegakit.lang import compile_program
from vegakit.lang.analysis.cost_sends import ANSWER_BYTES
from vegakit.providers import ScriptedModel, ScriptedReply
from vegakit.sdk import Runtime, VegaProgram

PROGRAMS = 60
SENT = ["made", "made", "ps[0].note", '"{p}"']
TABLE = '"a long name of a column,b\\n' + "x\\n" * 40 + '"'
"""Few bytes a row, and as JSON each has the name of the column."""
WORST = ["\x01", '"', "\\", "ŉ", "a\n", "a,\n", "é"]


def _text(chance: Random, depth: int) -> str:
    """An expression that is a text."""
    if depth == 0:
        return chance.choice(["a", "a", "b", '"k,l\\nx"', '"\\\\ \\" \\n"'])
    inner = _text(chance, depth - 1)
    other = _text(chance, depth - 1)
    return chance.choice(
        [
            f"{inner} + {other}",
            f"str::upper({inner})",
            f"Plan(steps: [{inner}, {other}], note: {other}, count: 7).steps[0]",
            f"Plan(steps: [], note: {inner}, count: 7).note",
            f'"{{Plan(steps: [{inner}], note: {other}, count: 7)}}"',
            f"json::text([{inner}, {other}])",
            f'json::text({{"k": {inner}, "l\\n": {other}}})',
            f"json::text([[{inner}], [{other}]])",
            f'"{{[{inner}, {other}]}}"',
            f'list::sort_by([Plan(steps: [], note: {inner}, count: 1)], "note")[0].note',
            f"json::text(csv::parse(str::slice({inner}, 0, 40)))",
            f"json::text(csv::parse({TABLE} + str::slice({other}, 0, 9)))",
        ]
    )


def _body(chance: Random) -> str:
    """A send whose message is made of two answers, one of them by way of a record."""
    return (
        'let a = A <- "x";\n'
        'let b = A <- "y";\n'
        'let p = Plan(steps: [], note: "", count: 1);\n'
        'let ps = [p]; let made = "";\n'
        "try {\n"
        f"p.note = {_text(chance, chance.randint(0, 2))};\n"
        "p.count = 2;\n"
        f"ps = [p, Plan(steps: [], note: {_text(chance, 1)}, count: 3)];\n"
        f"made = {_text(chance, chance.randint(1, 3))};\n"
        "} catch { }\n"
        f"A <- {chance.choice(SENT)};"
    )


@pytest.mark.parametrize("seed", range(PROGRAMS))
async def test_a_message_is_no_longer_than_its_quote(seed: int) -> None:
    chance = Random(seed)
    body, unit = _body(chance), chance.choice(WORST)
    most = 10 * ANSWER_BYTES
    said = (unit * most).encode()[:most].decode(errors="ignore")
    sent: list[str] = []

    def answer(request: ModelRequest) -> ScriptedReply:
        message = request.messages[-1]
        assert isinstance(message, UserMessage)
        sent.append("".join(part.text for part in message.parts if isinstance(part, Text)))
        return ScriptedReply(text=said)

    program = VegaProgram(compile_program(checked_of(HEAD + body)), Path())
    async with Runtime("$1000", models=lambda _: ScriptedModel(answer)) as rt:
        await rt.run(program)
    quoted = size(body)
    assert quoted is not None
    assert len(sent[-1].encode()) <= quoted
