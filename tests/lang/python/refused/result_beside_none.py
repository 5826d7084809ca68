from vegakit import program


@program
def main() -> None:
    return 3
