from vegakit import program


@program
def main(n: int) -> int:
    let x = n
    return x
