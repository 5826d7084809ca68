from typing import Annotated

from vegakit import Max, program


@program
def main(items: Annotated[list[str], Max(0xffffffffffffffffffffffffffffffffffffffff)]) -> None:
    print(len(items))
