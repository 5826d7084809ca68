from typing import Annotated

from vegakit import program


@program
def main(paths: Annotated[list[str], Max(50)]) -> int:
    return len(paths)
