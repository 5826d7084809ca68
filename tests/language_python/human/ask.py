# answer: Ada
from vegakit import program, vega


@program
def main() -> None:
    name = vega.human.ask("Who are you?", "1h")
    if name is not None:
        print(f"Hello {name}")  # expect: Hello Ada
