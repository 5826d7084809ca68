# A process is a value that functions take.
# reply: hello
from vegakit import Agent, program, spawn, vega

A = Agent("A", model="fast")


def ask(to: vega.Process, q: str) -> str:
    return to(q)


@program
def main() -> None:
    a = spawn(A)
    print(ask(a, "hi"))  # expect: hello
