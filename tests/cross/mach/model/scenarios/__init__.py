"""What the core is put into. Each module registers its scenarios, in this order."""

from importlib import import_module

from .base import SCENARIOS, Lab, Scenario

for module in ("threads", "stacks", "code", "images", "faults", "mistakes"):
    import_module(f".{module}", __package__)

__all__ = ["SCENARIOS", "Lab", "Scenario"]
