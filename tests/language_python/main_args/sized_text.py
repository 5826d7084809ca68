# args: hällo {"a":1}
from typing import Annotated

from vegakit import MaxLen, program


@program
def main(
    text: Annotated[str, MaxLen(5)], votes: Annotated[dict[str, int], MaxLen(1)]
) -> str:
    return text + str(len(votes))


# expect result: hällo1
