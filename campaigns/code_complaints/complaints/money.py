"""Caps that are passed, agents without number, and calls that are repeated for ever."""

from campaigns.code_complaints.bench import Bench, Call, Say, read, shell, task
from campaigns.code_complaints.trajectory import Faults, complaint
from vegakit.conversation import Usage
from vegakit.testing import ProviderRequest

DEAR = Usage(100_000, 30_000)
"""$0.75 at the prices of the bench."""
SOME = Usage(1_000, 7_000)
"""$0.108, of an answer that is no longer than was allowed."""
SOON = 10
"""Requests within which an agent that learns nothing has to be stopped."""


@complaint(
    "openai/codex #12487",
    "a cap of $0.01 is not passed, and the end says so",
    needs="cap",
)
def cap_overshoot(it: Bench) -> Faults:
    """Every answer costs $0.75."""
    it.script(Say("", [shell("ls")], DEAR), Say("", [shell("ls -a")], DEAR), Say("done", (), DEAR))
    ran = it.ask("List the files.", cap="0.01")
    if it.spent_usd > 0.01:
        yield f"${it.spent_usd:.2f} spent under a cap of $0.01 in {len(it.main)} requests"
    if ran.status == 0:
        yield "exit status 0"
    if "budget" not in ran.said.lower():
        yield "the budget is not named"


@complaint(
    "openai/codex #12487",
    "a cap of $0.15 is for the whole session, however often it is gone on with",
    needs="cap",
)
def cap_of_a_session(it: Bench) -> Faults:
    """Two turns of $0.11 each."""
    it.script(Say("One.", (), SOME), Say("Two.", (), SOME))
    it.ask("Say one.", cap="0.15")
    it.ask("Say two.", cap="0.15", resume=True)
    if it.spent_usd > 0.15:
        yield f"${it.spent_usd:.2f} spent in two turns"
    if not it.main:
        yield "the first turn, which fits, was not made"


@complaint(
    "openai/codex #12487",
    "a cap of $3 that is not reached stops nothing: a turn of $0.97 comes to its end",
    needs="cap",
)
def cap_that_is_not_reached(it: Bench) -> Faults:
    """Eight calls and an answer."""
    it.script(*(Say("", [shell(f"echo {n}")], SOME) for n in range(8)), Say("Done.", (), SOME))
    ran = it.ask("Count.", cap="3")
    if ran.status != 0 or len(it.main) != 9:
        yield f"exit status {ran.status} after {len(it.main)} requests, ${it.spent_usd:.2f}"


@complaint(
    "anthropics/claude-agent-sdk-python #1273",
    "a cap that is hit inside a sub-agent is held, and there is a result",
    needs="task",
)
def cap_in_a_sub_agent(it: Bench) -> Faults:
    """Each answer to the sub-agent costs $0.11, and wants another call."""
    asked: list[str] = []

    def below(request: ProviderRequest) -> Say | None:
        if "COUNT-THE-FILES" not in request.text:
            return None
        asked.append(request.text)
        return Say("", [read("README.md") if len(asked) % 2 else read(".gitignore")], SOME)

    it.sub_agent = below
    it.script(Say("", [task("COUNT-THE-FILES", budget="$0.30")]), "It was stopped.")
    ran = it.ask("Have the files counted.", cap="0.50")
    if it.spent_usd > 0.5:
        yield f"${it.spent_usd:.2f} spent under a cap of $0.50"
    if not asked:
        yield "no sub-agent was begun"
    elif ran.killed:
        yield f"no end in {ran.seconds:.0f} s"
    elif not it.main[1:]:
        yield "the main agent never heard of its sub-agent"
    elif "budget" not in it.told(2).lower() and "spent" not in it.told(2).lower():
        yield "the main agent is not told why"


@complaint(
    "anthropics/claude-code #68157, #93903",
    "101 sub-agents asked for at once are refused or bounded",
    needs="task",
)
def a_hundred_and_one_agents(it: Bench) -> Faults:
    """One answer asks for all of them."""
    begun: list[str] = []

    def below(request: ProviderRequest) -> Say | None:
        if "COUNT-THE-FILES" not in request.text:
            return None
        begun.append(request.text)
        return Say("3")

    it.sub_agent = below
    it.script(Say("", [task(f"COUNT-THE-FILES {n}") for n in range(101)]), "Fewer.")
    ran = it.ask("Have the files counted.", limit_s=120)
    if not {"task", "Task", "Agent"} & {*it.main[0].tools}:
        yield "there is no tool for sub-agents"
    if len(begun) > 40:
        yield f"{len(begun)} sub-agents ran"
    if not it.main[1:]:
        yield f"the main agent did not go on: {ran.said.strip()[-80:]}"


# Circles.


def _circle(it: Bench, *calls: Call, most: int) -> Faults:
    it.script(*(Say("", [call]) for call in calls * 40))
    ran = it.ask("Show me the configuration.", cap="2", limit_s=60)
    if len(it.main) > most:
        yield f"not stopped in {len(it.main)} requests"
    if ran.status == 0:
        yield "exit status 0"


@complaint(
    "earendil-works/pi #9637, QwenLM/qwen-code #10887",
    f"the same failing call for ever is stopped within {SOON} requests, with an exit status",
)
def same_failing_call(it: Bench) -> Faults:
    """A file that is not there is read again and again."""
    yield from _circle(it, shell("cat no-such-file.conf"), most=SOON)


@complaint(
    "anomalyco/opencode #45442",
    f"the same call with the same good result is stopped within {SOON} requests",
)
def same_search(it: Bench) -> Faults:
    """In the thread: 364 searches, 50 minutes."""
    yield from _circle(it, shell("grep -rn project README.md"), most=SOON)


@complaint(
    "anomalyco/opencode #43673, anthropics/claude-code #72080",
    f"two calls in turn, for ever, are stopped within {2 * SOON} requests",
)
def two_calls_in_turn(it: Bench) -> Faults:
    """Neither comes twice in a row."""
    yield from _circle(it, shell("cat no-such-file.conf"), shell("ls"), most=2 * SOON)
