"""The whole runtime on virtual time, with a world that fails as a seed says (kit, host).

python -m vegakit.testing.simulation 1000        seeds 0 to 999, figures last
python -m vegakit.testing.simulation 1 735       seed 735 alone
"""

from vegakit.testing.simulation.host import SimulatedHost
from vegakit.testing.simulation.loop import VirtualClock, VirtualLoop, run_virtual
from vegakit.testing.simulation.seeds import Tally, run_seeds
from vegakit.testing.simulation.story import Ran, simulate

__all__ = [
    "Ran",
    "SimulatedHost",
    "Tally",
    "VirtualClock",
    "VirtualLoop",
    "run_seeds",
    "run_virtual",
    "simulate",
]
