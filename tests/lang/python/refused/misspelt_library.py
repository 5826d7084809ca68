from vegakit import program, vega


@program
def main(xs: list[str]) -> int:
    return len(vega.list.uniq(xs))
