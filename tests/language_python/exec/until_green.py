# A loop of tests and repairs, which ends when the command ends well.
# file: src/a.py = "wrong"
# command "pytest -q": {"code": 1, "out": "a is wrong"}
# command "pytest -q": {"code": 0, "out": "1 passed"}
# reply: right
from vegakit import Agent, program, vega

Fixer = Agent("Fixer", model="smart", max_tokens=100)


@program(
    may=["process::exec", "fs::read", "fs::write"],
    allowed_paths=["src/**"],
    allowed_commands=["pytest **"],
)
def main() -> None:
    tests = vega.exec.run("pytest -q")
    while vega.limit(3, tests.code != 0):
        old = vega.file.read("src/a.py")
        vega.file.write("src/a.py", Fixer(f"{tests.out}: {old}"))
        tests = vega.exec.run("pytest -q")
    new = vega.file.read("src/a.py")
    print(f"{tests.out} {new}")  # expect: 1 passed right
