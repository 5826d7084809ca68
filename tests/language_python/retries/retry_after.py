# The provider's word about when to come again is kept: after 3 s it is still waited for.
# reply: {"error": "rate_limit", "retry_after_ms": 4000}
# reply: fine
from vegakit import Agent, program, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    answer = A.submit("hi")
    vega.process.sleep("3s")
    vega.trace.event("asked once")
    print(answer.result())  # expect: fine


# expect calls: 2
