# reply: {"error": "overloaded"}
# reply: not asked
from vegakit import Agent, AgentFailed, program, vega

A = Agent("A", model="fast", retry=vega.retry(max_attempts=1, on=["overloaded"]))


@program
def main() -> None:
    try:
        print(A("hi"))
    except AgentFailed:
        print("once")  # expect: once


# expect calls: 1
