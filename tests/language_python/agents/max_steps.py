# The tool loop ends after `max_steps` rounds.
# reply: {"calls": [{"name": "look", "arguments": {"n": 1}}]}
# reply: {"calls": [{"name": "look", "arguments": {"n": 2}}]}
# reply: {"calls": [{"name": "look", "arguments": {"n": 3}}]}
from vegakit import Agent, LimitReached, program


@program.tool()
def look(n: int) -> str:
    "Look."
    return f"nothing at {n}"


A = Agent("A", model="fast", max_steps=2, tools=[look])


@program
def main() -> None:
    try:
        print(A("search"))
    except LimitReached:
        print("gave up")  # expect: gave up


# expect calls: 2
