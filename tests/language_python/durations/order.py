from vegakit import program, vega


@program
def main() -> None:
    longest = vega.default(
        vega.list.max([vega.duration("3s"), vega.duration("1m"), vega.duration("500ms")]),
        vega.duration("0ms"),
    )
    print(vega.text(longest))  # expect: 1m
    print(
        vega.text(sorted([vega.duration("3s"), vega.duration("1m"), vega.duration("500ms")]))
    )  # expect: ["500ms","3s","1m"]
    if longest > vega.duration("59s"):
        print("long")  # expect: long
