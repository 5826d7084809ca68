from pydantic import BaseModel
from vegakit import Agent, program, vega


class Translation(BaseModel):
    text: str
    sure: bool


translator = Agent(
    "translator",
    model="fast",
    system="Translate. Keep placeholders such as %name% as they are.",
    max_tokens=300,
)


def placeholders(text: str) -> list[str]:
    found: list[str] = []
    parts = text.split("%")
    opened = False
    for i, part in enumerate(parts):
        inner = i < len(parts) - 1 and len(part) > 0 and vega.str.find(part, " ") is None
        if opened and inner:
            found = found + [f"%{part}%"]
            opened = False
        else:
            opened = True
    return found


@program(may=["fs::read", "fs::write"], allowed_paths=["**"], budget="$5")
def main(language: str) -> list[str]:
    strings = vega.cast(vega.json.parse(vega.file.read("strings.json")), dict[str, str])
    result: dict[str, str] = {}
    kept: list[str] = []
    for key, text in strings.items():
        needed = placeholders(text)
        t = translator.ask(f"Translate into {language}: {text}", returns=Translation)
        missing = [p for p in needed if vega.str.find(t.text, p) is None]
        if len(missing) > 0:
            names = ", ".join(missing)
            t = translator.ask(
                f"Translate into {language}: {text}\nThis translation: {t.text}\nlacks: {names}",
                returns=Translation,
            )
            missing = [p for p in needed if vega.str.find(t.text, p) is None]
        if len(missing) > 0:
            result[key] = text
            kept = kept + [key]
        else:
            result[key] = t.text
    vega.file.write(f"strings.{language}.json", vega.json.text(result))
    return sorted(kept)
