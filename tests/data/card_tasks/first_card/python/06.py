from vegakit import Agent, program, vega

writer = Agent("writer", model="smart", system="Write short release notes.", max_tokens=300)


@program(
    may=["fs::read", "fs::write"],
    allowed_paths=["CHANGES.txt", "published/**", "pending/**"],
    budget="$5",
)
def main() -> str:
    changes = vega.file.read("CHANGES.txt")
    note = writer(f"Write a release note for these changes:\n{changes}")
    if vega.human.approve(f"Publish this release note?\n{note}", timeout="10s"):
        vega.file.write("published/note.md", note)
        return "published"
    vega.file.write("pending/note.md", note)
    return "pending"
