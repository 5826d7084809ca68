from vegakit import program


@program
def main() -> None:
    names = {1: "a"}
    print(names[1])
    print(len(sorted([True, False, True])))
    print(len([x for x in [2] if x in ["a"]]))
