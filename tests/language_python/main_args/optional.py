# What may be null may be left out.
# args: a
from vegakit import program


@program
def main(name: str, note: str | None) -> str:
    return f"{name} {note if note is not None else 'none'}"


# expect result: a none
