"""Who reaches the panic handler: `callers.py OBJDUMP FILE` prints, for each function of the core that calls into others'
code from which the handler is reached, the shortest chain of calls."""

import collections
import re
import subprocess
import sys

HEADER = re.compile(r"^[0-9a-f]+ <(.+)>:$")
REFERENCE = re.compile(r"<([^<>+]*(?:<[^<>]*>[^<>+]*)*)(?:\+0x[0-9a-f]+)?>")
# Calls by way of a table are named by relocations only, which ELF objects can keep.
RELOCATION = re.compile(r"^\s*[0-9a-f]+:\s+R_\S+\s+(\S+?)(?:[+-]0x[0-9a-f]+)?$")
HANDLER = "rust_begin_unwind"
CORE = re.compile(r"freezeframe_(asm|arch|unwind|report)")


def callers(objdump, file):
    """`{function: functions that refer to it}`."""
    command = [objdump, "-dr", "--no-show-raw-insn", file]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found, function = collections.defaultdict(set), None
    for line in text.splitlines():
        if header := HEADER.match(line):
            function = header.group(1)
        elif function:
            for callee in REFERENCE.findall(line) + RELOCATION.findall(line):
                found[callee].add(function)
    return found


def chains(found):
    """Every function from which the handler can be reached, with its next step."""
    step = {name: None for name in found if HANDLER in name}
    queue = collections.deque(step)
    while queue:
        function = queue.popleft()
        for caller in sorted(found[function]):
            if caller not in step:
                step[caller] = function
                queue.append(caller)
    return step


def main(objdump, file):
    step = chains(callers(objdump, file))
    for function in step:
        chain = [function]
        while step[chain[-1]]:
            chain.append(step[chain[-1]])
        if CORE.search(chain[0]) and not any(CORE.search(name) for name in chain[1:]):
            print("  can panic: " + " → ".join(chain))


if __name__ == "__main__":
    main(*sys.argv[1:])
