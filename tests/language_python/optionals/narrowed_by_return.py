from vegakit import program


def size(items: list[int] | None) -> int:
    if items is None:
        return -1
    return len(items)


@program
def main() -> None:
    print(size(None))  # expect: -1
    print(size([1, 2]))  # expect: 2
