from vegakit import program


@program
def main(n: int) -> int:
    if n < 0:
        raise Exception("negative")
    return n
