# When an earlier statement fails, the younger send is cancelled and charged as reserved.
# budget: $1.00
# reply: never seen
# latency: 1h
from vegakit import Agent, Failed, parallel, program, vega

A = Agent("A", model="fast", max_tokens=100)


@program
def main() -> None:
    try:
        with parallel():
            raise Failed("stop")
            A("x")
    except Failed:
        print(vega.text(vega.budget.used() <= vega.money("$0.000501")))  # expect: true


# expect time: 0s
