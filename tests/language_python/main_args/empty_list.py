from typing import Annotated

from vegakit import Max, program


@program
def main(paths: Annotated[list[str], Max(30)]) -> int:
    return len(paths)


# expect result: 0
