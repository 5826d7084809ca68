from pydantic import BaseModel
from vegakit import Agent, program, vega


class Scan(BaseModel):
    title: str
    content: str


titler = Agent("titler", model="fast", system="Give a short title that can be a file name.", max_tokens=300)


@program(
    may=["fs::read", "fs::write"], allowed_paths=["scans", "scans/**", "named/**"], budget="$5"
)
def main() -> list[str]:
    scans: list[Scan] = []
    for path in vega.file.list("scans"):
        content = vega.file.read(path)
        title = titler.ask(f"Give a title to this text:\n{content}", returns=str)
        scans = scans + [Scan(title=title, content=content)]
    titles = sorted([scan.title for scan in scans])
    listed = "\n".join(titles)
    if not vega.human.approve(f"Name the scans like this?\n{listed}", timeout="20s"):
        return []
    for scan in scans:
        vega.file.write(f"named/{scan.title}.txt", scan.content)
    return titles
