# budget: $5.00
from vegakit import Failed, program, session, vega


@program
def main() -> None:
    for i in range(4):
        try:
            with session(budget="$1.00"):
                with session(budget="$0.50"):
                    if i == 1:
                        continue
                    if i == 3:
                        break
                    if i == 2:
                        raise Failed("x")
                    print(vega.text(vega.budget.limit()))  # expect: $0.50
        except Failed:
            print(vega.text(vega.budget.limit()))  # expect: $5.00
    print(vega.text(vega.budget.remaining()))  # expect: $5.00
