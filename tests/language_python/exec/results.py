# A bad exit raises from `exec` alone; what commands may see changes between them.
# command "pytest -q": {"code": 1, "out": "1 failed", "err": "warned"}
# command "pytest -q": {"code": 1, "out": "1 failed", "err": ""}
# command "pytest -q": {"code": 0, "out": "1 passed", "err": ""}
# command "git log": two commits
from vegakit import ToolFailed, program, vega


@program(may=["process::exec"], allowed_commands=["pytest -q", "git log"])
def main() -> None:
    ran = vega.exec.run("pytest -q")
    print(f"{ran.code} {ran.out} {ran.err}")  # expect: 1 1 failed warned
    try:
        print(vega.exec("pytest -q"))
    except ToolFailed as e:
        print(vega.reason(e))  # expect: pytest -q ended with exit code 1: 1 failed
    ran = vega.exec.run("pytest -q")
    print(vega.text(ran.code == 0))  # expect: true
    print(vega.exec("git log"))  # expect: two commits
    print(vega.exec.look("git log").out)  # expect: two commits
    print(vega.text(vega.exec.look("rm a")))  # error: CapabilityDenied
