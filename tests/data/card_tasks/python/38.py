from pydantic import BaseModel
from vegakit import program, vega


class Entry(BaseModel):
    size: int
    path: str


class Report(BaseModel):
    asked: bool
    freed: int
    failed: list[str]


@program(
    may=["process::exec"],
    allowed_commands=["sh scripts/usage.sh", "sh scripts/remove.sh **"],
    budget="$5",
)
def main() -> Report:
    entries: list[Entry] = []
    for line in vega.str.lines(vega.exec("sh scripts/usage.sh")):
        words = line.split()
        if len(words) >= 2:
            size = int(words[0])
            if size >= 100:
                entries = entries + [Entry(size=size, path=words[1])]
    entries = vega.list.reverse(sorted(entries, key=lambda e: e.size))
    failed: list[str] = []
    freed = 0
    if len(entries) == 0:
        return Report(asked=False, freed=freed, failed=failed)

    size_of_all = sum([e.size for e in entries])
    paths = ", ".join([e.path for e in entries])
    if vega.human.approve(f"Remove {paths}, {size_of_all} MB in all?", "10s"):
        for e in entries:
            ran = vega.exec.run(f"sh scripts/remove.sh {e.path}")
            if ran.code == 0:
                freed = freed + e.size
            else:
                failed = failed + [e.path]
    return Report(asked=True, freed=freed, failed=failed)
