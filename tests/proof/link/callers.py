"""Who reaches a function: `callers.py OBJDUMP FILE TARGET ROOT` prints the shortest chain of calls from what ROOT's table
names to TARGET in a linked object with its relocations kept."""

import collections
import re
import subprocess
import sys

HEADER = re.compile(r"^[0-9a-f]+ <(.+)>:$")
RELOCATION = re.compile(r"^\s*[0-9a-f]+:\s+[A-Z]\S+\s+(\S+?)(?:[+-]0x[0-9a-f]+)?$")


def calls(objdump, file):
    """`{function: functions that it refers to}`."""
    text = subprocess.run([objdump, "-dr", "--no-show-raw-insn", file], check=True, capture_output=True, text=True).stdout
    edges, function = collections.defaultdict(set), None
    for line in text.splitlines():
        if header := HEADER.match(line):
            function = header.group(1)
        elif function and (relocation := RELOCATION.match(line)):
            edges[function].add(relocation.group(1))
    return edges


def chains(edges, target):
    """Every function from which TARGET can be reached, with its next step."""
    callers = collections.defaultdict(set)
    for caller, callees in edges.items():
        for callee in callees:
            callers[callee].add(caller)
    step, queue = {target: None}, collections.deque([target])
    while queue:
        function = queue.popleft()
        for caller in sorted(callers[function]):
            if caller not in step:
                step[caller] = function
                queue.append(caller)
    return step


def main(objdump, file, target):
    step = chains(calls(objdump, file), target)
    for function in step:
        chain = [function]
        while step[chain[-1]]:
            chain.append(step[chain[-1]])
        # Only those that are the core's own, and call into core's.
        core = [re.search(r"freezeframe_(asm|arch|unwind|report)", name) is not None for name in chain]
        if core[0] and not any(core[1:]):
            print("  " + " → ".join(chain))


if __name__ == "__main__":
    main(*sys.argv[1:])
