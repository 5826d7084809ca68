# Any other reason is a failure of the program.
from vegakit import program, vega


@program
def main() -> None:
    print("before")  # expect: before
    vega.process.exit("out of ideas")  # error: AgentFailed
