from vegakit import program


@program(may=["fs::read"])
def main(path: str) -> str:
    return vega.file.read(path)
