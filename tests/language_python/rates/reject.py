# With `reject` it raises instead.
# reply: a
from vegakit import Agent, RateLimited, program, vega

A = Agent(
    "A",
    model="fast",
    rate=vega.rate_limit(requests=1, per="1m", burst=1, strategy="reject"),
)


@program
def main() -> None:
    print(A("x"))  # expect: a
    try:
        print(A("x"))
    except RateLimited:
        print("not now")  # expect: not now


# expect calls: 1
