from vegakit import program


@program("review")
def main(xs: list[str]) -> int:
    return len(xs)
