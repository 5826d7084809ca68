# Calls that need nothing of each other overlap; what is printed keeps its order.
# reply "one": 1
# reply "two": 2
# reply "after 1": 3
# latency: 1s
from vegakit import Agent, program

A = Agent("A", model="fast")


@program
def main() -> None:
    a = A("one")
    print(f"a {a}")  # expect: a 1
    b = A("two")
    c = A(f"after {a}")
    print(f"b {b} c {c}")  # expect: b 2 c 3


# expect time: 2s
