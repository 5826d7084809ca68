from vegakit import program


@program
def main(a: str, n: int) -> None:
    print(a, n, sep=", ")
