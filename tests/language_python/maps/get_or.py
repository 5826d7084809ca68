# The default of `get` is worked out first, as Python does it.
from vegakit import program


@program.function()
def other() -> int:
    print("other")
    return 7


@program
def main() -> None:
    m = {"k": 1}
    print(m.get("k", other()))
    # expect: other
    # expect: 1
    print(m.get("z", other()))
    # expect: other
    # expect: 7
