"""The names that the core may need: `names.py SAFETY.md SYSTEM captures|everything` prints them from the table, sorted."""

import re
import sys

ROW = re.compile(r"^\| `(\w+)` \| ([\w, ]+) \| (captures|setup) \| (\S.*) \|$")


def main(doc, system, what):
    with open(doc, encoding="utf-8") as text:
        rows = [row.groups() for line in text if (row := ROW.match(line))]
    found = {name for name, systems, when, _ in rows if system in systems.split(", ") and (what == "everything" or when == "captures")}
    if not found:
        sys.exit(f"{doc} lists no names for {system}")
    print("\n".join(sorted(found)))


if __name__ == "__main__":
    main(*sys.argv[1:])
