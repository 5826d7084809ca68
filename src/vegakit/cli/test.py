"""`vega test`: test programs that say beside their lines what they shall do.

The testing kit is loaded only when the command is called.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vegakit.cli.compiler import check_loading, nodes_at
from vegakit.cli.look import Sign, Tone, duration, look_of, one_line, print_json
from vegakit.cli.main import Argument, CommandParser
from vegakit.cli.trust import TRUST, prepare_trust
from vegakit.errors import UserError


def test_command(arguments: Sequence[str]) -> int:
    """Run `vega test`."""
    chosen = CommandParser(
        prog="vega test",
        description="Run test programs: scripted answers in their comments, virtual time, no key.",
        arguments=[
            Argument("paths", nargs="*", type=Path, default=[Path()], metavar="FILE|FOLDER"),
            Argument("-v", "--verbose", action="store_true", help="name those that passed too"),
            Argument("--json", action="store_true", help="for machines"),
            TRUST,
        ],
    ).parse_args(arguments)
    from vegakit.testing import find_tests, run_test

    began, failed = time.monotonic(), 0
    if missing := [path for path in chosen.paths if not path.exists()]:
        raise UserError(f"there is no file or folder {missing[0]}; correct its path")
    paths = list(find_tests(chosen.paths))
    if not paths:
        raise UserError(
            "no program here says what it shall do; add a line: print(1);  // expect: 1"
        )
    for path in paths:
        prepare_trust(path.resolve().parent, [path], is_trusted=chosen.trust)
    look = look_of(sys.stdout)
    good, bad = (
        look.paint(look.text(str(sign)), tone)
        for sign, tone in ((Sign.DONE, Tone.OK), (Sign.FAILED, Tone.BAD))
    )
    pages: list[dict[str, Any]] = []
    for path in paths:
        ran = run_test(path, loading=check_loading, nodes=nodes_at(path))
        failed += bool(ran.problems)
        pages.append({"file": str(path), "passed": not ran.problems, "problems": ran.problems})
        if chosen.json:
            continue
        if ran.problems:
            told = [line for one in ran.problems for line in look.fold(one, "    ", "  ")]
            print("\n".join([f"{bad} failed {one_line(str(path))}", *told]))
        elif chosen.verbose:
            print(f"{good} passed {one_line(str(path))}")
    if chosen.json:
        print_json(pages)
    took = duration((time.monotonic() - began) * 1000)
    print(f"{len(paths) - failed} of {len(paths)} passed in {took}", file=sys.stderr)
    return 1 if failed else 0
