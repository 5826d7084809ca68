from vegakit import program, vega


def long(name: str | None) -> bool:
    return name is not None and len(name) > 3


@program
def main() -> None:
    print(vega.text(long(None)))  # expect: false
    print(vega.text(long("abcd")))  # expect: true
