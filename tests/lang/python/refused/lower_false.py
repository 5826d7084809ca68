from vegakit import program


@program
def main(n: int) -> bool:
    done = false
    return done
