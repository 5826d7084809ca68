from vegakit import Agent, program

writer = Agent("writer", model="fast")


@program
def main(topic: str) -> str:
    w = writer.spawn(wallet="$1")
    return w.ask(topic)
