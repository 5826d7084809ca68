from typing import List
from vegakit import program


@program
def main(xs: List[str]) -> int:
    return len(xs)
