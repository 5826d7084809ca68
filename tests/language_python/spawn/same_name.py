# A name is taken once.
from vegakit import Agent, AgentFailed, program, spawn, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    a = spawn(A, named="one")
    try:
        b = spawn(A, named="one")
        print(f"{vega.text(b)}")
    except AgentFailed as reason:
        print(vega.text(vega.str.contains(str(reason), "already")))  # expect: true
    print(vega.text(f"{vega.text(a)}".endswith("one")))  # expect: true
