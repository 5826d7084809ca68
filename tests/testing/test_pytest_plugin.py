"""The fixture `vega`, as a user's tests see it."""

import subprocess
import sys

import pytest

# Before the users' tests run in this process: what each of them loaded itself would be unloaded
# after it, and then be there twice.
from vegakit.sdk import Runtime

_LOADED = Runtime
pytest_plugins = ("pytester",)

HEAD = """
import pytest
from vegakit import Agent, AgentFailed, BudgetExceeded, Dollars
from vegakit.errors import UserError
from vegakit.testing import tool

def lookup(city: str) -> str:
    return f"rain in {city}"

def sum_up(text: str) -> str:
    return text

agent = Agent("a", model="openai:never-asked", tools=[lookup, sum_up], max_tokens=50)
"""


def outcomes(pytester: pytest.Pytester, code: str) -> dict[str, int]:
    pytester.makepyfile(code)
    return pytester.runpytest("-q", "-W", "error").parseoutcomes()


PASSING = {
    "the script stands in for the agent's own model": """
def test(vega):
    vega.script("Looks fine")
    reply = vega.run(agent, "Review this")
    assert reply.text == "Looks fine"
    assert vega.spent == reply.cost > 0
    assert vega.tools_called == []
""",
    "tools are called in the order of the script": """
def test(vega):
    both = {"calls": [{"name": "sum_up", "arguments": {"text": "x"}},
                      {"name": "lookup", "arguments": {"city": "Rome"}}]}
    vega.script(tool("lookup", city="Bern"), both, "Wet.")
    assert vega.run(agent, "Weather?").text == "Wet."
    assert vega.tools_called == ["lookup", "sum_up", "lookup"]
""",
    "what is spent adds up over asks": """
def test(vega):
    vega.script("one", "two")
    costs = [vega.run(agent, "again").cost for _ in range(2)]
    assert vega.spent == sum(costs)
""",
    "the script goes on over asks, and can begin anew": """
def test(vega):
    vega.script("one", "two")
    said = [vega.run(agent, "hi").text, vega.run(agent, "hi").text]
    vega.script("three")
    assert [*said, vega.run(agent, "hi").text] == ["one", "two", "three"]
""",
    "a failed ask counts too": """
def test(vega):
    vega.script(tool("lookup", city="Bern"), {"error": "auth"})
    with pytest.raises(AgentFailed):
        vega.run(agent, "hi")
    assert vega.tools_called == ["lookup"]
    assert vega.spent > 0
""",
    "the agent's own budget holds": """
def test(vega):
    vega.script("x")
    with pytest.raises(BudgetExceeded):
        vega.run(Agent("poor", max_tokens=50, budget="$0.000001"), "hi")
    assert vega.spent == 0
""",
    "options are those of an ask": """
def test(vega):
    vega.script("one", "two")
    first = vega.run(agent, "hi")
    assert len(vega.run(agent, "and?", history=first.messages).messages.messages) == 4
""",
    "no test sees another's": """
@pytest.mark.parametrize("n", [1, 2])
def test(vega, n):
    assert (vega.spent, vega.tools_called) == (0, [])
    vega.script(tool("lookup", city="Bern"), "x")
    vega.run(agent, "hi")
""",
    "a test that waits calls": """
pytestmark = pytest.mark.anyio

@pytest.fixture
def anyio_backend():
    return "asyncio"

async def test(vega):
    vega.script("Looks fine")
    assert (await vega.call(agent, "Review")).text == "Looks fine"
    with pytest.raises(UserError, match="await vega.call"):
        vega.run(agent, "Review")
""",
    "an ask without a script says what to write": """
def test(vega):
    with pytest.raises(UserError, match=r'vega.script\\("…"\\)'):
        vega.run(agent, "hi")
""",
}


@pytest.mark.parametrize("code", PASSING.values(), ids=PASSING)
def test_in_a_users_test(code: str, pytester: pytest.Pytester) -> None:
    """The plugin is found by its entry point alone."""
    assert outcomes(pytester, HEAD + code) == {"passed": 2 if "parametrize" in code else 1}


def test_a_script_that_runs_out_fails_the_test(pytester: pytest.Pytester) -> None:
    """With the question that found no reply."""
    pytester.makepyfile(
        HEAD + "\ndef test(vega):\n    vega.script('one')\n"
        "    vega.run(agent, 'hi'), vega.run(agent, 'One more')"
    )
    ran = pytester.runpytest("-q")
    assert ran.parseoutcomes() == {"failed": 1}
    ran.stdout.fnmatch_lines("*had 1 replies and all are used*'One more'*")


def test_who_does_not_use_it_does_not_pay_for_it() -> None:
    """The plugin loads neither the runtime nor a library."""
    code = (
        "import sys, pytest; before = set(sys.modules); import vegakit.testing.pytest_plugin;"
        "print(*sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    plugin = ["vegakit", "vegakit.lazy", "vegakit.testing", "vegakit.testing.pytest_plugin"]
    assert ran.stdout.split() == plugin
