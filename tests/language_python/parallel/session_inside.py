# Each task may open a session of its own.
# budget: $10.00
from vegakit import parallel, program, session, vega


def limit(m: vega.Money) -> vega.Money:
    with session(budget=m):
        vega.process.sleep("1s")
        return vega.budget.limit()


@program
def main() -> None:
    with parallel():
        a = limit(vega.money("$1.00"))
        b = limit(vega.money("$2.00"))
    print(vega.text(a + b))  # expect: $3.00
    # expect time: 1s
    print(vega.text(vega.budget.remaining()))  # expect: $10.00
