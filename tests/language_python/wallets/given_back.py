# When the process ends what is left comes back.
# budget: $3.00
# reply: {"crash": "boom"}
from vegakit import Agent, AgentFailed, program, spawn, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    a = spawn(A, wallet="$2.00", strategy="stop")
    print(vega.text(vega.budget.remaining()))  # expect: $1.00
    try:
        a("hi")
    except AgentFailed:
        print(vega.text(vega.budget.remaining() > vega.money("$2.90")))  # expect: true
