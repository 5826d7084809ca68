from pydantic import BaseModel
from vegakit import Agent, program, vega


class Report(BaseModel):
    counts: dict[str, int]
    worst: str
    diagnosis: str


doctor = Agent("doctor", model="smart", system="Diagnose errors briefly.", max_tokens=300)


@program(
    may=["process::exec", "fs::write"],
    allowed_commands=["sh scripts/log.sh"],
    allowed_paths=["report.json"],
    budget="$5",
)
def main() -> dict[str, int]:
    log = vega.exec("sh scripts/log.sh")
    errors = [line for line in vega.str.lines(log) if line.startswith("ERROR ")]
    counts: dict[str, int] = {}
    for line in errors:
        component = line.split()[1]
        counts[component] = vega.default(vega.map.get(counts, component), 0) + 1
    worst = ""
    most = 0
    for name, count in counts.items():
        if count > most:
            worst = name
            most = count
    lines = "\n".join([line for line in errors if line.split()[1] == worst])
    diagnosis = doctor(f"Diagnose the component {worst}:\n{lines}")
    report = Report(counts=counts, worst=worst, diagnosis=diagnosis)
    vega.file.write("report.json", vega.json.text(report))
    return counts
