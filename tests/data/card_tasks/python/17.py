from pydantic import BaseModel
from vegakit import Agent, program, vega


class Scan(BaseModel):
    title: str
    content: str


namer = Agent("namer", model="fast", system="Give a short title and nothing else.", max_tokens=300)


@program(
    may=["fs::read", "fs::write"], allowed_paths=["scans", "scans/**", "named/**"], budget="$5"
)
def main() -> list[str]:
    scans: list[Scan] = []
    for path in vega.list.take(sorted(vega.file.list("scans")), 20):
        content = vega.file.read(path)
        title = namer.ask(f"Give a title for this text:\n{content}", returns=str)
        scans = scans + [Scan(title=title.strip(), content=content)]
    titles = sorted([s.title for s in scans])
    names = "\n".join(titles)
    if vega.human.approve(f"Write the scans under these titles?\n{names}", timeout="20s"):
        for scan in scans:
            vega.file.write(f"named/{scan.title}.txt", scan.content)
        return titles
    return []
