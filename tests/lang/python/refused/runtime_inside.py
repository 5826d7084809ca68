from vegakit import Agent, Runtime, program

writer = Agent("writer", model="fast")


@program
def main(topic: str) -> str:
    rt = Runtime(budget="$1")
    return rt.run_sync(writer, topic)
