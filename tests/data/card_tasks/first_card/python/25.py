from pydantic import BaseModel
from vegakit import Agent, program, vega


class Stat(BaseModel):
    file: str
    lines: int


class Summary(BaseModel):
    file: str
    lines: int
    summary: str


summarizer = Agent("summarizer", model="smart", system="Summarize files briefly.", max_tokens=300)


@program(
    may=["process::exec", "fs::read", "fs::write"],
    allowed_commands=["sh scripts/stats.sh"],
    allowed_paths=["**"],
    budget="$5",
)
def main() -> list[Summary]:
    out = vega.exec("sh scripts/stats.sh")
    stats = [
        vega.cast(vega.json.parse(line), Stat) for line in vega.str.lines(out) if line.strip() != ""
    ]
    summaries: list[Summary] = []
    text: list[str] = []
    for stat in vega.list.take(sorted(stats, key=lambda s: -s.lines), 3):
        content = vega.file.read(stat.file)
        summary = summarizer(f"Summarize this file:\n{content}")
        summaries = summaries + [Summary(file=stat.file, lines=stat.lines, summary=summary)]
        text = text + [f"## {stat.file}", summary]
    vega.file.write("summaries.md", "\n".join(text))
    return summaries
