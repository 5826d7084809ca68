from vegakit import program


@program
def main(xs: list[str]) -> str:
    if not xs:
        return "none"
    return xs[0]
