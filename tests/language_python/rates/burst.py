# A burst goes at once, then the rate holds.
# reply: a
# reply: b
# reply: c
# reply: d
from vegakit import Agent, program, vega

A = Agent(
    "A",
    model="fast",
    rate=vega.rate_limit(requests=1, per="1s", burst=3, strategy="queue"),
)


@program
def main() -> None:
    for i in range(4):
        print(A("x"))


# expect: a
# expect: b
# expect: c
# expect: d
# expect time: 1s
