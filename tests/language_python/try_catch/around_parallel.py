# budget: $9.00
from vegakit import Failed, parallel, program, session, vega


def costly() -> None:
    with session(budget="$1.00"):
        vega.process.sleep("1s")
        raise Failed("inside")


@program
def main() -> None:
    try:
        with parallel():
            costly()
            vega.process.sleep("5s")
    except Failed as reason:
        print(reason)  # expect: inside
    print(vega.text(vega.budget.remaining()))  # expect: $9.00


# expect time: 1s
