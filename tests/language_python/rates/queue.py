# Two a second: the third waits for its turn.
# reply: a
# reply: b
# reply: c
from vegakit import Agent, program, vega

A = Agent(
    "A",
    model="fast",
    rate=vega.rate_limit(requests=2, per="1s", burst=2, strategy="queue"),
)


@program
def main() -> None:
    print(A("x"))  # expect: a
    print(A("x"))  # expect: b
    print(A("x"))  # expect: c


# expect time: 500ms
