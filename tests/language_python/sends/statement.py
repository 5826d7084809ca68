# A send as a statement: the answer is not needed.
# reply: done
from vegakit import Agent, program

A = Agent("A", model="fast")


@program
def main() -> None:
    A("do it")
    print("after")  # expect: after


# expect calls: 1
