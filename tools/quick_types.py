"""Checks the types of `src` with ty, in seconds, and prints what is not known yet.

    python tools/quick_types.py            what is new; exits 1 if anything is
    python tools/quick_types.py --write    keep what it says today in tools/quick_types.txt

basedpyright in strict mode is what CI holds; it takes minutes. ty takes seconds and reports some
correct code. `quick_types.txt` lists these reports without their lines.
"""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
KNOWN = Path(__file__).with_suffix(".txt")
REPORT = re.compile(r"^(\S+?):(\d+):\d+: (?:error|warning)(\[[\w-]+\] .*)$")


def reports() -> list[tuple[str, str]]:
    """Return what ty reports: each with the place that it names, and without."""
    command = ["ty", "check", "--python", sys.prefix, "--output-format", "concise", "src"]
    command[0] = str(Path(sys.executable).with_name("ty"))
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode > 1:
        sys.exit(ran.stderr)
    lines = ran.stdout.replace(f"{ROOT}/", "").splitlines()
    matches = (REPORT.match(line) for line in lines)
    return [(match[0], f"{match[1]} {match[3]}") for match in matches if match]


def main() -> int:
    current = reports()
    if "--write" in sys.argv:
        KNOWN.write_text("".join(f"{report}\n" for report in sorted(text for _, text in current)))
        return 0
    known = Counter(KNOWN.read_text("utf-8").splitlines())
    unknown: list[str] = []
    for line, report in current:
        known[report] -= 1
        if known[report] < 0:
            unknown.append(line)
    print(*unknown, sep="\n")
    return int(bool(unknown))


if __name__ == "__main__":
    sys.exit(main())
