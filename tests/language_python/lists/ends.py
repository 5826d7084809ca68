from vegakit import program, vega


@program
def main() -> None:
    xs = [3, 1, 2]
    none: list[int] = []
    print(vega.default(vega.list.first(xs), 0))  # expect: 3
    print(vega.default(vega.list.last(xs), 0))  # expect: 2
    print(vega.default(vega.list.first(none), 0))  # expect: 0
    print(vega.text(vega.list.take(xs, 2)))  # expect: [3,1]
    print(vega.text(vega.list.drop(xs, 2)))  # expect: [2]
    print(vega.text(vega.list.take(xs, 9)))  # expect: [3,1,2]
