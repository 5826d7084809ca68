from vegakit import program, vega


@program
def main() -> None:
    print(vega.text(vega.list.flatten([[1], [], [2, 3]])))  # expect: [1,2,3]
    print(vega.text(vega.list.chunks([1, 2, 3, 4, 5], 2)))  # expect: [[1,2],[3,4],[5]]
    print(vega.text(vega.list.slice([1, 2, 3, 4], 1, 3)))  # expect: [2,3]
    print(vega.text(vega.list.slice([1, 2, 3, 4], -2)))  # expect: [3,4]
