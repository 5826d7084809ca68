from vegakit import program


@program
def main(xs: list[int]) -> int:
    ys = xs - [1]
    return len(ys)
