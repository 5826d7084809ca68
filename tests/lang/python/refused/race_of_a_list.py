from vegakit import Agent, program, race

a = Agent("a", model="fast")


@program
def main() -> None:
    print(race([a("x"), a("y")]))
    print(race([a(x) for x in ["x", "y"]]))
    answers = [a("x"), a("y")]
    print(race(answers))
