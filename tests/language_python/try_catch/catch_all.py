from vegakit import Failed, program


def broken(n: int) -> None:
    if n == 0:
        raise Failed("x")
    if n == 1:
        print(1 // 0)
    if n == 2:
        print({"a": 1}["b"])


@program
def main() -> None:
    for n in range(3):
        try:
            broken(n)
        except Exception:
            print(f"caught {n}")


# expect: caught 0
# expect: caught 1
# expect: caught 2
