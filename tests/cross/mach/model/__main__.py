"""Runs the scenarios.

    python -m model FOLDER [WORD…]

FOLDER has, in a folder for each architecture (aarch64, x86_64), the files core.dylib, mischief.dylib and targets.dylib.
Of several words, scenarios are run whose names contain one.
"""

import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from .architecture import ARCHITECTURES
from .check import Wrong
from .rules import Broken
from .scenarios import SCENARIOS, Lab
from .world import Files


def main(folder: Path, words: list[str]) -> int:
    passed: Counter[str] = Counter()
    failed = 0
    costs = []
    for architecture in ARCHITECTURES:
        here = folder / architecture.target
        lab = Lab(architecture, Files(here / "core.dylib", here / "mischief.dylib", here / "targets.dylib"))
        for scenario in SCENARIOS:
            if architecture not in scenario.architectures or words and not any(w in scenario.name for w in words):
                continue
            start = time.monotonic()
            try:
                seen = scenario.run(lab)
            except (Broken, Wrong) as failure:
                failed += 1
                print(f"{architecture.name:7} {scenario.name}: FAILED, {failure}", flush=True)
                continue
            except Exception:
                failed += 1
                print(f"{architecture.name:7} {scenario.name}: FAILED", flush=True)
                traceback.print_exc()
                continue
            passed[architecture.name] += 1
            print(
                f"{architecture.name:7} {scenario.name}: ok{', ' + seen if seen else ''} ({time.monotonic() - start:.1f} s)",
                flush=True,
            )
            if seen and seen.startswith("kernel calls per captured thread"):
                costs.append(f"{seen} ({architecture.name})")
    print("emulated scenarios: " + ", ".join(f"{a.name} {passed[a.name]}" for a in ARCHITECTURES))
    print("\n".join(costs))
    print(f"{passed.total()} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
