"""What the core is put into. Each module registers its scenarios, in this order."""

from . import threads  # isort: skip
from . import stacks  # isort: skip
from . import code  # isort: skip
from . import images  # isort: skip
from . import faults  # isort: skip
from . import mistakes  # isort: skip
from .base import SCENARIOS, Lab, Scenario

__all__ = ["SCENARIOS", "Lab", "Scenario", "code", "faults", "images", "mistakes", "stacks", "threads"]
