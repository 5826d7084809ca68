"""Hostile nodes are refused at once, with little memory, and nothing of them runs.

Each is read in a process of its own, whose peak is held against that of one which reads a good
node: what a file makes the reader keep is seen whatever else the tests have loaded.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from campaigns.admission import scale

from tests.vesper.test_nodes import WITHDRAW
from vegakit.contracts import NodeStatus
from vegakit.errors import UserError
from vegakit.vesper import DirectPath, PythonPath, parse_node

CORPUS = Path(__file__).parents[1] / "data" / "attacks" / "contract.jsonl"
LIMIT_S, LIMIT_MB = 0.5, 80
READ = """
import json, resource, sys, time
from vegakit.errors import UserError
from vegakit.vesper import parse_node
text = sys.stdin.buffer.read()
parse_node(GOOD, "good.vsp")
began, said = time.process_time(), ""
try:
    parse_node(text, "w.vsp")
except UserError as error:
    said = str(error)
took = time.process_time() - began
print(json.dumps([said, took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def _is_fast(took_s: float) -> bool:
    """Whether that is within the limit, on a machine as slow as this one is now."""
    return took_s < LIMIT_S or took_s < LIMIT_S * scale()


def _with(clause: str) -> str:
    """A node with such a precondition."""
    return WITHDRAW.replace("[amount > 0]", f"[{json.dumps(clause)}]")


def _computing(value: str) -> str:
    return WITHDRAW.replace("{value: balance - amount}", f"{{value: {json.dumps(value)}}}")


def _typed(kind: str) -> str:
    return WITHDRAW.replace("  amount:", f"  more: {{type: {json.dumps(kind)}}}\n  amount:")


_LOOPS = "".join(f"FORALL x{n} IN more: " for n in range(12)) + "true"
_LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)
)
HOSTILE: dict[str, str] = {
    "a file of 10 MB": "x" * 10_000_000,
    "10 MB of a comment": "#" * 10_000_000,
    "a billion laughs": _LAUGHS,
    "an alias in itself": "a: &a [*a]\n",
    "merge keys": WITHDRAW + "more: {<<: {a: 1}}\n",
    "a tag that makes objects": "!!python/object/apply:os.system ['touch PWNED']\n",
    "a tag within": WITHDRAW.replace("type: payment", "type: !!binary cGF5"),
    "a directive": "%YAML 1.1\n---\n" + WITHDRAW,
    "two documents": WITHDRAW + "---\n" + WITHDRAW,
    "a key twice": WITHDRAW + "intent: Another.\n",
    "deep lists": "a: " + "[" * 30_000,
    "deep mappings": "a: " + "{a: " * 15_000,
    "deep blocks": "".join(" " * n + "a:\n" for n in range(300)),
    "many values": "a: [" + "1, " * 20_000 + "1]\n",
    "a long key": "x" * 60_000 + ": 1\n",
    "a question of keys": "? " * 20_000,
    "deep parentheses": _with("(" * 3_900),
    "deep signs": _with("-" * 3_900 + "1"),
    "deep NOT": _with("NOT " * 900 + "true"),
    "a long chain": _with(" + ".join(["amount"] * 600)),
    "deep fields": _with("amount" + ".a" * 1_900),
    "deep items": _with("amount" + "[0]" * 1_300),
    "deep IF": _with("IF true THEN " * 250 + "1"),
    "deep FORALL": _typed("array<integer>").replace("amount > 0", json.dumps(_LOOPS)),
    "wide loops": _typed("array<array<array<integer>>>").replace(
        "amount > 0", '"FORALL x IN more: FORALL y IN x: FORALL z IN y: z > 0"'
    ),
    "a huge integer": _with("amount > " + "9" * 3_900),
    "a huge decimal": _with("amount > 0." + "1" * 3_900),
    "a huge default": _typed("decimal")
    .replace("'", "")
    .replace('{type: "decimal"}', f'{{type: "decimal", default: "{"9" * 50_000}"}}'),
    "places": _computing("ROUND(balance, 99999999999999999999)"),
    "a deep type": _typed("array<" * 80 + "integer" + ">" * 80),
    "a huge size": _typed("string<999999999>"),
    "a type of many choices": _typed("enum[" + ", ".join(f"a{n}" for n in range(90)) + "]" * 9),
    "a value of a gigabyte": WITHDRAW.replace(
        "balance: integer\n", "balance: integer\n    all_of_it: 'array<array<string>>'\n", 1
    ),
    "an import": _with("__import__('os').system('touch PWNED')"),
    "subclasses": _with("().__class__.__base__.__subclasses__()"),
    "a lambda": _with("(lambda: 0)()"),
    "a comprehension": _with("[c for c in amount]"),
    "a format": _with("'{0.__class__}'.format(amount)"),
    "a power": _with("10**10**10 > amount"),
    "an attribute": _with("amount.real > 0"),
    "a call": _with("getattr(amount, 'real')"),
    "a walrus": _with("(y := amount) > 0"),
    "a newline in an expression": _with("amount > 0\nimport os"),
    "a quote in a text": _with("'a' == 'b\\' or x'"),
    "a pattern that backtracks": _with("MATCHES(amount, '(a+)+$')"),
    "backslashes": _with('"' + "\\" * 3_900),
    "blanks": _with(" " * 3_999 + "!"),
    "a transition of many blanks": WITHDRAW.replace(
        "operation: compute", "operation: transition"
    ).replace("{value: balance - amount}", f"{{key: a, change: 'a.b {'a ' * 20_000}'}}"),
    "code in a name": WITHDRAW.replace("withdraw_v1", '"withdraw_v1\\nimport os"'),
    "code in a step": WITHDRAW.replace("step: balance", "step: 'x = 1; import os'"),
    "a dunder as a name": _typed("integer").replace("  more:", "  __class__:"),
    "full-width letters": _with("\uff45\uff56\uff41\uff4c('1')"),
    "letters that look alike": _with("\u0430mount > 0"),
    "a text that runs backwards": _with("amount > 0 \u202e"),
    "a blank without width": _with("am\u200bount > 0"),
    "digits of another script": _with("amount > \u0661"),
    "no UTF-8": "node_id: \udcff",
    "a zero byte": WITHDRAW.replace("payment", "pay\0ment"),
    "a right that nothing uses": WITHDRAW + "security: {capabilities_required: [database]}\n",
    "a right that there is not": WITHDRAW + "security: {denied_capabilities: [everything]}\n",
    "a right by another name": WITHDRAW
    + "security: {capabilities_required: ['network.http_client.*.com']}\n",
    "a right by a path": WITHDRAW
    + "security: {capabilities_required: ['filesystem.read./a/../etc']}\n",
    "an operation that runs": WITHDRAW.replace("operation: compute", "operation: exec"),
    "an address that is computed": WITHDRAW.replace(
        "operation: compute", "operation: http"
    ).replace("{value: balance - amount}", "{method: GET, url: \"balance + '.example.com'\"}"),
    "an address with a user": WITHDRAW.replace("operation: compute", "operation: http").replace(
        "{value: balance - amount}", "{method: GET, url: 'https://a@b.example.com/'}"
    ),
    "two statements": WITHDRAW.replace("operation: compute", "operation: sql").replace(
        "{value: balance - amount}", "{query: 'SELECT 1; DROP TABLE accounts'}"
    ),
    "a node that calls itself": WITHDRAW.replace("operation: compute", "operation: call").replace(
        "{value: balance - amount}", "{node: withdraw_v1, inputs: '{balance: balance}'}"
    ),
}


def _read(text: str) -> tuple[str, float, float]:
    """What is said of a file in a fresh process, the time it took, and the most memory."""
    code = f"GOOD = {WITHDRAW.encode()!r}\n{READ}"
    given = text.encode("utf-8", "surrogateescape")
    ran = subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, check=True)
    said, took, peak = json.loads(ran.stdout)
    return said, took, peak


@pytest.fixture(scope="module")
def idle_mb() -> float:
    """The most memory of a process that reads a good node."""
    return _read(WITHDRAW)[2]


HEAVY = ("a file of 10 MB", "10 MB of a comment", "a billion laughs", "deep lists", "many values",
         "deep FORALL", "wide loops", "a huge decimal", "a value of a gigabyte")  # fmt: skip
"""Those that are made to need memory; each costs a process."""


@pytest.mark.parametrize("name", HEAVY)
def test_a_bomb_needs_little_memory_and_time(name: str, idle_mb: float) -> None:
    """Beside a process that reads a good node."""
    said, took, peak = _read(HOSTILE[name])
    assert said.startswith("w.vsp:"), said or "it was taken"
    assert _is_fast(took)
    assert peak - idle_mb < LIMIT_MB


@pytest.mark.parametrize("name", [*HOSTILE])
def test_a_hostile_node_is_refused_at_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its line; the message is short and of plain characters, whatever the file holds.

    The heavy ones are timed in a process of their own: beside all that the tests have loaded, the
    collector's work would be counted as theirs.
    """
    monkeypatch.chdir(tmp_path)
    text = HOSTILE[name].encode("utf-8", "surrogateescape")
    began = process_time()
    with pytest.raises(UserError, match=r"^w\.vsp:\d+: ") as told:
        parse_node(text, "w.vsp")
    assert name in HEAVY or _is_fast(process_time() - began)
    said = str(told.value)
    assert len(said) < 1_000
    assert not re.search("[\u0000-\u0009\u000b-\u001f\u200b-\u202e]", said)
    assert [*tmp_path.iterdir()] == []


def _attacks() -> list[Any]:
    """The corpus: what it puts where an expression, a capability or a key stands."""
    rows = [json.loads(line) for line in CORPUS.read_text("utf-8").splitlines()]
    return [pytest.param(row, id=row["id"]) for row in rows]


PLACES: dict[str, list[Callable[[str], str]]] = {
    "expression": [_with, _computing],
    "capability": [
        lambda text: f"{WITHDRAW}security: {{capabilities_required: [{json.dumps(text)}]}}\n",
        lambda text: f"{WITHDRAW}security: {{denied_capabilities: [{json.dumps(text)}]}}\n",
    ],
    "key": [lambda text: f"{WITHDRAW}{text}\n"],
}


@pytest.mark.parametrize("row", _attacks())
def test_the_corpus_of_contracts_is_refused(row: dict[str, str]) -> None:
    """Wherever such a text may stand."""
    text = eval(row["gen"]) if "gen" in row else row["input"]
    for place in PLACES[row["as"]]:
        began = process_time()
        with pytest.raises(UserError, match=r"^w\.vsp:\d+: "):
            parse_node(place(text).encode(), "w.vsp")
        assert _is_fast(process_time() - began)


def test_a_quoted_text_is_no_code() -> None:
    """What an expression quotes stays a text on both paths."""
    value = "IF 'x' == '\"); import os; (\"' THEN 1 ELSE balance - amount"
    node = parse_node(_computing(value).encode(), "w.vsp").program
    for path in (DirectPath(node), PythonPath(node)):
        outcome = path.run({"balance": 3, "amount": 1})
        assert (outcome.status, outcome.outputs) == (NodeStatus.SUCCESS, {"balance": 2})
