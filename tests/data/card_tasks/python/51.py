from pydantic import BaseModel
from vegakit import program, vega


class Flag(BaseModel):
    owner: str
    age: int


class Candidate(BaseModel):
    name: str
    owner: str
    age: int


class Report(BaseModel):
    removed: list[str]
    used: dict[str, int]


@program(
    may=["fs::read", "fs::write"],
    allowed_paths=["flags.json", "code", "code/**"],
    budget="$5",
)
def main() -> Report:
    flags = vega.cast(vega.json.parse(vega.file.read("flags.json")), dict[str, Flag])
    contents: list[str] = []
    for path in vega.list.take(vega.file.list("code"), 20):
        contents = contents + [vega.file.read(path)]

    used: dict[str, int] = {}
    candidates: list[Candidate] = []
    for name, flag in flags.items():
        count = 0
        for content in contents:
            if vega.str.find(content, name) is not None:
                count = count + 1
        if count > 0:
            used[name] = count
        elif flag.age > 90:
            candidates = candidates + [Candidate(name=name, owner=flag.owner, age=flag.age)]

    removed: list[str] = []
    for c in vega.list.reverse(sorted(candidates, key=lambda x: x.age)):
        if vega.human.approve(f"Remove the flag {c.name} of {c.owner}?", "10s"):
            removed = removed + [c.name]

    if len(removed) > 0:
        rest: dict[str, Flag] = {}
        for name, flag in flags.items():
            if not (name in removed):
                rest[name] = flag
        vega.file.write("flags.json", vega.json.text(rest))
    return Report(removed=removed, used=used)
