"""A model of what Mach gives to a process, for code that captures the threads of its own process.

    Mach-O of the core ──loaded by──▶ machine (unicorn) ──its imports──▶ kernel (the model) ──checks──▶ rules
                                                                           │
                               threads, with registers and stacks ─────────┤ from programs that were run to a known place
                               memory, with holes and protections ─────────┤
                               ports, with counted rights ─────────────────┤
                               dyld's list of images ──────────────────────┘

The captured threads do not run: each stands where a scenario has put it. Only the core is executed, and all it can touch
directly is its own image, its stack and what the kernel has allocated for it: everything else is not mapped there.
"""
