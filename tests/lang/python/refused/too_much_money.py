from vegakit import Agent, program

reviewer = Agent("reviewer", model="fast", budget="$999999999999")


@program
def main() -> None:
    print(reviewer.ask("hi"))
