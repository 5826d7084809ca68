# Failures count in a row.
# reply: {"error": "rejected"}
# reply: good
# reply: {"error": "rejected"}
# reply: good
from vegakit import Agent, AgentFailed, program, vega

A = Agent("A", model="fast", breaker=vega.circuit_breaker(threshold=2, reset_after="30s"))


@program
def main() -> None:
    for i in range(4):
        try:
            print(A("hi"))
        except AgentFailed:
            print("failed")


# expect: failed
# expect: good
# expect: failed
# expect: good
