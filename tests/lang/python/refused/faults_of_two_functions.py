from vegakit import program


def first(text: str) -> str:
    lambda: text
    return 1


def second(text: str) -> int:
    return text


@program
def main() -> None:
    print(first("a"))
    print(f"{second(1)}")
