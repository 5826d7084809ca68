from vegakit import program, vega


@program
def main(n: int) -> bool:
    return vega.human.approve("Go on?")
