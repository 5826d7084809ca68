# The earliest error in the program wins, and what was begun behind it is given up.
# reply "first": {"error": "rejected"}
# reply "second": {"error": "unavailable"}
# reply "third": 3
# latency: 1s
from vegakit import Agent, AgentFailed, program, vega

A = Agent("A", model="fast", retry=vega.retry(max_attempts=1))


@program
def main() -> None:
    try:
        a = A("first")
        b = A("second")
        c = A("third")
        print(f"{a} {b} {c}")
    except AgentFailed:
        print("first")  # expect: first


# expect time: 1s
