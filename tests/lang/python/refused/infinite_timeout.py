from vegakit import Agent, program

reviewer = Agent("reviewer", model="fast", timeout=1e999)


@program
def main() -> None:
    print(reviewer.ask("hi"))
