# budget: $4.00
# reply: ok
from vegakit import Agent, program, spawn, vega

A = Agent("A", model="fast", max_tokens=10)


@program
def main() -> None:
    a = spawn(A, wallet=vega.budget.limit() / 4)
    print(vega.text(vega.budget.remaining()))  # expect: $3.00
    print(a("hi"))  # expect: ok
