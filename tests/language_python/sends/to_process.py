# reply "one": 1
# reply "two": 2
from vegakit import Agent, program, spawn

A = Agent("A", model="fast")


@program
def main() -> None:
    a = spawn(A)
    print(a("one"))  # expect: 1
    print(a("two"))  # expect: 2
