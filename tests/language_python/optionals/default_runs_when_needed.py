from vegakit import program


def costly() -> int:
    print("computed")
    return 9


@program
def main() -> None:
    a: int | None = 1
    print(a if a is not None else costly())  # expect: 1
    a = None
    print(a if a is not None else costly())


# expect: computed
# expect: 9
