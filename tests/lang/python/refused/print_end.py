from vegakit import Agent, program

writer = Agent("writer", model="fast")


@program
def main(topic: str) -> None:
    for piece in writer.stream(topic):
        print(piece, end="", flush=True)
