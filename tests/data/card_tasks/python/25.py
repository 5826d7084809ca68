from pydantic import BaseModel
from vegakit import Agent, program, vega


class Stat(BaseModel):
    file: str
    lines: int


class Summary(BaseModel):
    file: str
    lines: int
    summary: str


summarizer = Agent("summarizer", model="smart", system="Summarize files.", max_tokens=300)


@program(
    may=["process::exec", "fs::read", "fs::write"],
    allowed_commands=["sh scripts/stats.sh"],
    allowed_paths=["**"],
    budget="$5",
)
def main() -> list[Summary]:
    stats: list[Stat] = []
    for line in vega.str.lines(vega.exec("sh scripts/stats.sh")):
        if len(line.strip()) > 0:
            stats = stats + [vega.cast(vega.json.parse(line), Stat)]
    summaries: list[Summary] = []
    text: list[str] = []
    for stat in vega.list.take(sorted(stats, key=lambda x: -x.lines), 3):
        content = vega.file.read(stat.file)
        summary = summarizer(f"Summarize this file:\n{content}")
        summaries = summaries + [Summary(file=stat.file, lines=stat.lines, summary=summary)]
        text = text + [f"## {stat.file}", summary]
    vega.file.write("summaries.md", "\n".join(text) + "\n")
    return summaries
