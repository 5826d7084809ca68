from pydantic import BaseModel
from vegakit import Agent, program, vega


class Translation(BaseModel):
    text: str
    sure: bool


translator = Agent(
    "translator",
    model="fast",
    system="Translate texts. Keep placeholders such as %name% as they are.",
    max_tokens=300,
)


def missing(text: str, translation: str) -> list[str]:
    parts = text.split("%")
    lost: list[str] = []
    closed = True
    for i, part in enumerate(parts):
        inside = i > 0 and i < len(parts) - 1 and part != "" and vega.str.find(part, " ") is None
        if closed and inside:
            closed = False
            if vega.str.find(translation, f"%{part}%") is None:
                lost = lost + [f"%{part}%"]
        else:
            closed = True
    return lost


@program(may=["fs::read", "fs::write"], allowed_paths=["**"], budget="$5")
def main(language: str) -> list[str]:
    strings = vega.cast(vega.json.parse(vega.file.read("strings.json")), dict[str, str])
    translated: dict[str, str] = {}
    kept: list[str] = []
    for key, text in strings.items():
        first = translator.ask(f"Translate into {language}:\n{text}", returns=Translation)
        result = first.text
        lost = missing(text, result)
        if len(lost) > 0:
            names = ", ".join(lost)
            second = translator.ask(
                f"Translate into {language}:\n{text}\nThis translation is bad:\n{result}\nIt lacks: {names}",
                returns=Translation,
            )
            result = second.text
            if len(missing(text, result)) > 0:
                result = text
                kept = kept + [key]
        translated[key] = result
    vega.file.write(f"strings.{language}.json", vega.json.text(translated))
    return sorted(kept)
