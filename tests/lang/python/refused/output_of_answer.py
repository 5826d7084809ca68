from vegakit import Agent, program

writer = Agent("writer", model="fast")


@program
def main(topic: str) -> str:
    reply = writer.ask(topic)
    return reply.output
