# After `reset_after` one probe goes through; if it succeeds all is well.
# reply: {"error": "rejected"}
# reply: back
# reply: fine
from vegakit import Agent, AgentFailed, CircuitOpen, program, vega

A = Agent("A", model="fast", breaker=vega.circuit_breaker(threshold=1, reset_after="30s"))


@program
def main() -> None:
    try:
        print(A("hi"))
    except AgentFailed:
        print("failed")  # expect: failed
    try:
        print(A("hi"))
    except CircuitOpen:
        print("open")  # expect: open
    vega.process.sleep("30s")
    print(A("hi"))  # expect: back
    print(A("hi"))  # expect: fine
