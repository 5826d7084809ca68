from vegakit import program, vega


def give_up() -> None:
    vega.process.exit("no way")  # error: AgentFailed: no way


@program
def main() -> None:
    give_up()  # through: main
