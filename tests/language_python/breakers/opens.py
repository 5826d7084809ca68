# After `threshold` failures the agent refuses without asking.
# reply: {"error": "rejected"}
# reply: {"error": "rejected"}
# reply: not asked
from vegakit import Agent, AgentFailed, CircuitOpen, program, vega

A = Agent("A", model="fast", breaker=vega.circuit_breaker(threshold=2, reset_after="30s"))


@program
def main() -> None:
    for i in range(3):
        try:
            print(A("hi"))
        except CircuitOpen:
            print("open")
        except AgentFailed:
            print("failed")


# expect: failed
# expect: failed
# expect: open
# expect calls: 2
