# Two processes of one agent have memories of their own.
# reply "x": one
# reply "y": two
# reply "z": three
from vegakit import Agent, program, spawn

A = Agent("A", model="fast", memory="conversation")


@program
def main() -> None:
    a = spawn(A)
    b = spawn(A)
    a("x")
    b("y")
    a("z")


# 1 in + 1 out, 1 in + 1 out, 3 in + 1 out
# expect spent: $0.00002
