# A process with memory is told the whole conversation: 1 word, then 1 + 1 + 1.
# reply: one
# reply: two
from vegakit import Agent, program, spawn, vega

A = Agent("A", model="fast", memory="conversation")


@program
def main() -> None:
    a = spawn(A)
    print(a("x"))  # expect: one
    print(vega.text(vega.budget.used()))  # expect: $0.000006
    print(a("y"))  # expect: two


# 1 in + 1 out, then 3 in + 1 out
# expect spent: $0.000014
