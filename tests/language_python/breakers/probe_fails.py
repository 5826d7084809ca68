# reply: {"error": "rejected"}
# reply: {"error": "rejected"}
# reply: not asked
from vegakit import Agent, AgentFailed, CircuitOpen, program, vega

A = Agent("A", model="fast", breaker=vega.circuit_breaker(threshold=1, reset_after="10s"))


def try_it() -> str:
    try:
        return A("hi")
    except CircuitOpen:
        return "open"
    except AgentFailed:
        return "failed"


@program
def main() -> None:
    print(try_it())  # expect: failed
    vega.process.sleep("10s")
    print(try_it())  # expect: failed
    print(try_it())  # expect: open


# expect calls: 2
