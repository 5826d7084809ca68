from vegakit import program, vega


@program
def main() -> None:
    groups: dict[str, list[int]] = {}
    for n in range(5):
        key = "odd"
        if n % 2 == 0:
            key = "even"
        groups[key] = groups.get(key, []) + [n]
    print(vega.text(groups))  # expect: {"even":[0,2,4],"odd":[1,3]}
