from vegakit import program


@program
def main() -> None:
    for i, name in enumerate(["a", "b"]):
        print(f"{i}: {name}")


# expect: 0: a
# expect: 1: b
