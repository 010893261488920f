"""Audit the private methods: python -m fedsynth_lib.audit [--methods aim fedbn] [--runs 160]
[--minutes 60] [--again]

Prints a table, and keeps finished lines in data/results/audit.csv, so that an interrupted audit
goes on where it was. The committed lines count as finished: `--again` measures them anew. Exit
status 1 where a lower bound exceeds its claim, 2 where a method cannot be audited.
"""

import argparse
import sys
import time

import pandas as pd

from fedsynth_lib.audit import neighbours, table
from fedsynth_lib.core.contract import BadInput

HEADINGS = {
    "method": "method",
    "clients": "clients",
    "epsilon": "claimed",
    "delta": "delta",
    "lower": "at least",
    "by": "by",
    "plain": "unassuming",
    "synthetic": "from rows",
    "control": "control",
    "runs": "runs",
    "verdict": "verdict",
    "sees": "the adversary sees",
}


def printed(lines: list[table.Line]) -> str:
    """The lines as text."""
    frame = pd.DataFrame([vars(line) for line in lines]).sort_values(["clients"], kind="stable")
    return (
        frame[list(HEADINGS)]
        .rename(columns=HEADINGS)
        .to_string(index=False, float_format=lambda x: f"{x:.3g}")
    )


def main(arguments: list[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m fedsynth_lib.audit", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--methods", nargs="+", default=list(neighbours.private_methods()), metavar="KEY"
    )
    parser.add_argument(
        "--runs", type=int, default=table.RUNS, help="of a network; faster methods get more"
    )
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="begin no line after so long"
    )
    parser.add_argument("--again", action="store_true", help="measure finished lines anew")
    given = parser.parse_args(arguments)
    try:
        for key in given.methods:
            neighbours.case_of(key)
    except BadInput as error:
        print(error, file=sys.stderr)
        return 2
    until = time.monotonic() + 60 * given.minutes
    say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    lines = list(
        table.lines(tuple(given.methods), given.runs, until=until, again=given.again, say=say)
    )
    if lines:
        print(printed(lines))
    print(
        "at least: 95 percent lower bound on epsilon; control: the same with 0.3 times the "
        "noise, to be noticed"
    )
    return int(any(line.verdict == table.EXCEEDED for line in lines))


if __name__ == "__main__":
    sys.exit(main())
