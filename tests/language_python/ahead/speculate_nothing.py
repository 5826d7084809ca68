# Inside a session that may waste nothing, nothing is begun before its turn.
# reply "one": 1
# reply "two": 2
# latency: 1s
from vegakit import Agent, program, session

A = Agent("A", model="fast")


@program
def main() -> None:
    with session(budget="$1.00", speculate="$0.00"):
        a = A("one")
        b = A("two")
        print(f"{a} {b}")  # expect: 1 2


# expect time: 2s
