# A future that a function returns is awaited by who called it.
# reply: here
# latency: 1s
from vegakit import Agent, program, vega

A = Agent("A", model="fast")


def begin() -> str:
    f = A.submit("x")
    vega.process.sleep("1s")
    return f.result()


@program
def main() -> None:
    print(begin())  # expect: here


# expect time: 1s
