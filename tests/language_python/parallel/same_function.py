# Two tasks in one function are two calls of it.
# reply "x": X
# reply "y": Y
# latency: 1s
from vegakit import Agent, parallel, program, vega

A = Agent("A", model="fast")


def ask(q: str) -> str:
    first = A(q)
    vega.process.sleep("1s")
    return first + "!"


@program
def main() -> None:
    with parallel():
        x = ask("x")
        y = ask("y")
    print(x + y)  # expect: X!Y!


# expect time: 2s
