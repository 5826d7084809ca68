from typing import Annotated

from pydantic import BaseModel
from vegakit import MaxLen, program, vega


class Report(BaseModel):
    state: str
    changed: list[str]
    failed: str | None


@program(
    may=["process::exec", "fs::write"],
    allowed_commands=["sh scripts/rotate.sh **", "sh scripts/restore.sh **"],
    allowed_paths=["keys.txt"],
    budget="$5",
)
def main(keys: Annotated[list[str], MaxLen(8)]) -> Report:
    nothing: list[str] = []
    names = ", ".join(keys)
    if not vega.human.approve(f"Change the keys {names}?", "10s"):
        return Report(state="declined", changed=nothing, failed=None)

    changed: list[str] = []
    lines: list[str] = []
    failed: str | None = None
    for name in keys:
        if failed is None:
            ran = vega.exec.run(f"sh scripts/rotate.sh {name}")
            if ran.code == 0:
                changed = changed + [name]
                lines = lines + [f"{name}: {ran.out.strip()}"]
            else:
                failed = name
    if failed is not None:
        for name in vega.list.reverse(changed):
            vega.exec.run(f"sh scripts/restore.sh {name}")
        return Report(state="restored", changed=nothing, failed=failed)

    vega.file.write("keys.txt", "\n".join(lines))
    return Report(state="changed", changed=changed, failed=None)
