from vegakit import program


@program
def main(n: int) -> int
    return n
