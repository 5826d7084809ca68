# What is not listed is not tried again.
# reply: {"error": "overloaded"}
# reply: not asked
from vegakit import Agent, AgentFailed, program, vega

A = Agent("A", model="fast", retry=vega.retry(max_attempts=3, on=["rate_limit"]))


@program
def main() -> None:
    try:
        print(A("hi"))
    except AgentFailed:
        print("not retried")  # expect: not retried


# expect calls: 1
