# Sends to a process with memory are answered in turn, also when they are under way at once.
# reply "first": 1
# reply "second": 2
# latency: 1s
from vegakit import Agent, program, spawn

A = Agent("A", model="fast", memory="conversation")


@program
def main() -> None:
    a = spawn(A)
    one = a.submit("first")
    two = a.submit("second")
    print(two.result())  # expect: 2
    print(one.result())  # expect: 1


# expect time: 2s
