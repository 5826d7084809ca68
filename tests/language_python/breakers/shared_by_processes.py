# The breaker is the agent's: all its processes share it.
# reply: {"error": "rejected"}
from vegakit import Agent, AgentFailed, CircuitOpen, program, spawn, vega

A = Agent("A", model="fast", breaker=vega.circuit_breaker(threshold=1, reset_after="30s"))


@program
def main() -> None:
    a = spawn(A)
    b = spawn(A)
    try:
        print(a("hi"))
    except AgentFailed:
        print("failed")  # expect: failed
    try:
        print(b("hi"))
    except CircuitOpen:
        print("open")  # expect: open
