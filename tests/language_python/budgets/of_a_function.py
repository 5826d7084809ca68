# A function may carry a budget of its own.
# budget: $5.00
from vegakit import program, vega


@program.function(budget="$0.25")
def careful() -> vega.Money:
    return vega.budget.limit()


@program
def main() -> None:
    print(vega.text(careful()))  # expect: $0.25
    print(vega.text(vega.budget.limit()))  # expect: $5.00
