from vegakit import program, vega


@program(may=["fs.read"])
def main(path: str) -> str:
    return vega.file.read(path)
