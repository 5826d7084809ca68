# A send takes as long as its answer.
# reply: a
# reply: b
# latency: 2s
from vegakit import Agent, program

A = Agent("A", model="fast")


@program
def main() -> None:
    first = A("x")
    second = A(first)
    print(second)  # expect: b


# expect time: 4s
