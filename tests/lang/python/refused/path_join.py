import os
from vegakit import program


@program
def main(path: str) -> str:
    return os.path.join("src", path)
