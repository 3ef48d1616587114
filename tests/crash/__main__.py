"""`python -m tests.crash power 8472` replays a seed; `power 0 --count 1000` runs that many from there on."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter

from tests.crash.device_errors import DeviceErrors
from tests.crash.power_loss import PowerLoss
from tests.crash.run import Run

RUNS: dict[str, type[Run]] = {run.command: run for run in (PowerLoss, DeviceErrors)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash")
    parser.add_argument("kind", choices=sorted(RUNS))
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--go-on", action="store_true", help="do not stop at the first seed that fails")
    options = parser.parse_args()
    logging.getLogger("ottla").setLevel(logging.CRITICAL)
    points: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    begun = time.monotonic()
    for seed in range(options.seed, options.seed + options.count):
        try:
            points += RUNS[options.kind](seed).go()
        except AssertionError as error:
            if not options.go_on:
                raise
            line = f"{type(error.__cause__).__name__}: {str(error).splitlines()[0]}"
            failed[line[:60]] += 1
            print(f"seed {seed}: {line}", file=sys.stderr)
    seconds = time.monotonic() - begun
    total = sum(points.values())
    print(f"{total} crashes in {options.count} runs, {seconds:.1f} s:", dict(sorted(points.items())))
    for line, count in failed.most_common():
        print(f"{count:>5}  {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
