# A last list takes all that are left.
# args: x a b c
from vegakit import program


@program
def main(first: str, rest: list[str]) -> list[str]:
    return rest + [first]


# expect result: ["a","b","c","x"]
