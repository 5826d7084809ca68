from vegakit import Agent, program, race

Writer = Agent("Writer", model="fast")


def is_long(text: str) -> bool:
    return len(text) > 3


@program
def main(names: list[str]) -> None:
    print(race(Writer("a"), Writer("b"), good=is_long))
    print(race(*names))
    print(race())
