from pathlib import Path
from vegakit import program


@program(may=["fs::read"])
def main(path: str) -> str:
    return Path(path).read_text()
