from vegakit import Agent, program, vega

translator = Agent(
    "translator", model="fast", system="You translate texts into French.", max_tokens=300
)


@program(
    may=["fs::read", "fs::write"],
    allowed_paths=["texts.txt", "memory.json", "french.txt"],
    budget="$5",
)
def main() -> int:
    texts = [x for x in vega.str.lines(vega.file.read("texts.txt")) if len(x.strip()) > 0]
    memory: dict[str, str] = {}
    if vega.file.exists("memory.json"):
        memory = vega.cast(vega.json.parse(vega.file.read("memory.json")), dict[str, str])
    missing = [x for x in vega.list.unique(texts) if vega.map.get(memory, x) is None]
    asked = 0
    for text in vega.list.take(missing, 40):
        memory[text] = translator.ask(f"Translate into French: {text}", returns=str)
        asked = asked + 1
    vega.file.write("french.txt", "\n".join([memory[x] for x in texts]))
    vega.file.write("memory.json", vega.json.text(memory))
    return asked
