# Under `restart` a crash is no end: the linked one lives on.
# reply "boom": {"crash": "boom"}
# reply "boom": better
# reply "hi": here
from vegakit import Agent, program, spawn, vega

A = Agent("A", model="fast")

B = Agent("B", model="fast")


@program
def main() -> None:
    a = spawn(A)
    b = spawn(B)
    vega.link(a, b)
    print(a("boom"))  # expect: better
    print(b("hi"))  # expect: here
