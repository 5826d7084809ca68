from vegakit import program


@program
def main(xs: list[str]):
    return len(xs)
