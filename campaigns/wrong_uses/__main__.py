"""Make every wrong use, and compare what is said with what is kept.

python -m campaigns.wrong_uses                 compare with tests/data/wrong_uses.txt
python -m campaigns.wrong_uses --write         keep what is said now; then read the difference
python -m campaigns.wrong_uses WORD …          print those whose name has the word
"""

import argparse
import sys

from campaigns.wrong_uses.page import KEPT, Said, faults, page_of, pages, said
from campaigns.wrong_uses.stage import Stage
from campaigns.wrong_uses.table import WRONG


def main() -> int:
    """Make the wrong uses that are chosen."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.wrong_uses")
    parser.add_argument("words", nargs="*", help="only those whose name has one of these")
    parser.add_argument("--write", action="store_true", help="keep what is said now")
    chosen = parser.parse_args()
    stage, found = Stage(), list[Said]()
    for wrong in WRONG:
        if not chosen.words or any(word in wrong.name for word in chosen.words):
            found.append(said(wrong, stage))
            if chosen.words:
                print(found[-1].text)
    stage.close()
    kept = {} if chosen.write else pages(KEPT.read_text(encoding="utf-8"))
    told = [fault for one in found for fault in faults(one)]
    if chosen.write and not chosen.words:
        KEPT.write_text(page_of(found), encoding="utf-8")
    elif not chosen.write:
        told += [
            f"{one.wrong.name}: differs from what is kept; look, then --write"
            for one in found
            if kept.get(one.wrong.name) != one.text
        ]
    print(*told, f"{len(found)} wrong uses, {len(told)} faults", sep="\n")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
