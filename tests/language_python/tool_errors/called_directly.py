# Called by the program itself it raises like a function.
from vegakit import Failed, program


@program.tool()
def bad() -> str:
    "Bad."
    raise Failed("broken")


@program
def main() -> None:
    try:
        print(bad())
    except Failed as reason:
        print(reason)  # expect: broken
