# The abnormal end of one ends the other.
# reply "boom": {"crash": "boom"}
from vegakit import Agent, AgentFailed, program, spawn, vega

A = Agent("A", model="fast")

B = Agent("B", model="fast")


@program
def main() -> None:
    a = spawn(A, strategy="stop")
    b = spawn(B, strategy="stop")
    vega.link(a, b)
    try:
        a("boom")
    except AgentFailed:
        print("a is gone")  # expect: a is gone
    try:
        b("hi")
    except AgentFailed:
        print("b is gone")  # expect: b is gone
