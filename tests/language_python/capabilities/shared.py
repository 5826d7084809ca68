# file: a.txt = "hello"
from vegakit import Agent, program, vega

teller = Agent("Teller of tales", model="fast")


def read(path: str) -> str:
    return vega.file.read(path)


@program(may=["fs::read"])
def main() -> None:
    print(read("a.txt")[0:4], vega.money("$1.50"))  # expect: hell $1.50
