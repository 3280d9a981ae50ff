"""What the core is put into. Each module registers its scenarios."""

from . import code, faults, images, mistakes, stacks, threads
from .base import SCENARIOS, Lab, Scenario

__all__ = ["SCENARIOS", "Lab", "Scenario", "code", "faults", "images", "mistakes", "stacks", "threads"]
