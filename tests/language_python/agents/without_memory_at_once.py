# A process without memory answers many at once.
# reply "first": 1
# reply "second": 2
# latency: 1s
from vegakit import Agent, program, spawn

A = Agent("A", model="fast")


@program
def main() -> None:
    a = spawn(A)
    one = a.submit("first")
    two = a.submit("second")
    print(one.result() + two.result())  # expect: 12


# expect time: 1s
