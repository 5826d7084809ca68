# reply: a
from vegakit import Agent, program, vega

A = Agent(
    "A",
    model="fast",
    rate=vega.rate_limit(requests=1, per="1h", burst=1, strategy="reject"),
)


@program
def main() -> None:
    print(A("x"))  # expect: a
    print(A("y"))  # error: RateLimited
