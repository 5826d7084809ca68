# reply: {"error": "overloaded"}
# reply: {"error": "overloaded"}
# reply: {"error": "overloaded"}
# reply: {"error": "overloaded"}
# reply: at last
from vegakit import Agent, program, vega

A = Agent(
    "A",
    model="fast",
    retry=vega.retry(
        max_attempts=5, backoff=vega.exponential("100ms", 2.0, "5s"), on=["overloaded"]
    ),
)


@program
def main() -> None:
    print(A("hi"))  # expect: at last


# expect calls: 5
