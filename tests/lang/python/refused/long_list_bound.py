from typing import Annotated

from vegakit import MaxLen, program


@program
def main(items: Annotated[list[str], MaxLen(0xfffffffffffffffffffffffffffffffffffff)]) -> None:
    print(len(items))
