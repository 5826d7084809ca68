from pydantic import BaseModel
from vegakit import program, vega


class Deploy(BaseModel):
    version: str
    status: str
    log: str


@program(
    may=["process::exec", "net::post"],
    allowed_commands=["sh scripts/smoke.sh **", "sh scripts/deploy.sh **"],
    allowed_hosts=["127.0.0.1:8931"],
)
def main(base: str, version: str) -> str:
    smoke = vega.exec.look(f"sh scripts/smoke.sh {version}")
    if smoke.code != 0:
        blocked = Deploy(version=version, status="blocked", log=smoke.out)
        vega.http.post(f"{base}/deploys", vega.json.text(blocked))
        return "blocked"
    if not vega.human.approve(f"Deploy version {version}?", timeout="20s"):
        return "declined"
    log = vega.exec(f"sh scripts/deploy.sh {version}")
    deployed = Deploy(version=version, status="deployed", log=log)
    vega.http.post(f"{base}/deploys", vega.json.text(deployed))
    return "deployed"
