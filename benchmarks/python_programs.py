"""Programs in Python, run by Python itself and by Vega: do they do the same?

    python -m benchmarks.python_programs 10000            # from seed 0
    python -m benchmarks.python_programs 300 --first 500  # from seed 500
    python -m benchmarks.python_programs 300 --fault floor

With a fault planted, it tells how many programs show it. Exits with 1 on any difference, with a
fault that nothing shows, or where more than a quarter of the programs is refused.
"""

import argparse
import sys
import time
from collections import Counter
from contextlib import nullcontext

from tests.lang.python.both import refused_by
from tests.lang.python.faults import FAULTS, planted
from tests.lang.python.generated import compared, written

_SHOWN = 3
_MOST_REFUSED = 0.25


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.python_programs")
    parser.add_argument("programs", type=int, nargs="?", default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--fault", choices=sorted(FAULTS))
    chosen = parser.parse_args()
    began, same, differ = time.monotonic(), 0, list[int]()
    refused: Counter[str] = Counter()
    with planted(chosen.fault) if chosen.fault else nullcontext():
        for seed in range(chosen.first, chosen.first + chosen.programs):
            text = written(seed)
            found = compared(text)
            if found is None:
                refused[refused_by(text)[0]] += 1
            elif found[0]:
                differ.append(seed)
                if len(differ) <= _SHOWN:
                    print(
                        f"seed {seed}: {found[0]}\n{text}\nVega:   {found[1]}\nPython: {found[2]}"
                    )
            else:
                same += 1
    took = time.monotonic() - began
    share = sum(refused.values()) / chosen.programs
    print(
        f"{same} the same, {len(differ)} differ {differ[:20]}, {sum(refused.values())} refused "
        f"({share:.1%}; at most {_MOST_REFUSED:.0%})"
    )
    print(f"refused: {', '.join(f'{code} {count}' for code, count in refused.most_common())}")
    print(f"{took:.0f} s")
    if chosen.fault:
        return int(not differ)
    return int(bool(differ) or share > _MOST_REFUSED)


if __name__ == "__main__":
    sys.exit(main())
