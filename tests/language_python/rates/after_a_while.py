# reply: a
# reply: b
from vegakit import Agent, program, vega

A = Agent(
    "A",
    model="fast",
    rate=vega.rate_limit(requests=1, per="1m", burst=1, strategy="reject"),
)


@program
def main() -> None:
    print(A("x"))  # expect: a
    vega.process.sleep("1m")
    print(A("x"))  # expect: b
