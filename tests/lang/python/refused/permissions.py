from vegakit import program, vega


@program(permissions=["fs::read"])
def main(path: str) -> str:
    return vega.file.read(path)
