import vegakit

writer = vegakit.Agent("writer", model="fast")


@vegakit.program
def main(topic: str) -> str:
    return writer(topic)
