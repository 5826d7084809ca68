# A tool may ask other agents; that is paid from the same wallet.
# reply "outer": {"calls": [{"name": "ask", "arguments": {"q": "inner"}}]}
# reply "inner": deep
# reply "outer": shallow
from vegakit import Agent, program

Inner = Agent("Inner", model="fast")


@program.tool()
def ask(q: str) -> str:
    "Ask the other."
    answer = Inner(q)
    print(answer)  # expect: deep
    return answer


Outer = Agent("Outer", model="fast", tools=[ask])


@program
def main() -> None:
    print(Outer("outer"))  # expect: shallow


# expect calls: 3
