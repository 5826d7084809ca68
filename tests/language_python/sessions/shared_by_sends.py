# All sends inside share it. One could cost $0.000501 and costs $0.000006: the fifth does not fit.
# reply: a
# reply: b
# reply: c
# reply: d
from vegakit import Agent, BudgetExceeded, program, session, vega

A = Agent("A", model="fast", max_tokens=100)


@program
def main() -> None:
    n = 0
    try:
        with session(budget="$0.00052"):
            while vega.limit(9, True):
                A("x")
                n += 1
    except BudgetExceeded:
        print(f"after {n}")  # expect: after 4


# expect calls: 4
