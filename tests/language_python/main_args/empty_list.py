from typing import Annotated

from vegakit import MaxLen, program


@program
def main(paths: Annotated[list[str], MaxLen(30)]) -> int:
    return len(paths)


# expect result: 0
