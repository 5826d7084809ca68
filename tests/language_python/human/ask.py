# answer: Ada
from vegakit import program, vega


@program
def main() -> None:
    name = vega.human.ask("Who are you?", "1h")
    print(f"Hello {name}")  # expect: Hello Ada
