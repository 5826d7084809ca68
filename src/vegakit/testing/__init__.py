"""What tests of programs need instead of the world (kit, host).

Public: our own tests use it, and so do yours. It may import what it stands in for; nothing of the
package imports it.
"""

from vegakit.testing.clock import FakeClock
from vegakit.testing.script import ScriptedCall, ScriptedReply
from vegakit.testing.scripted import ScriptedModel

__all__ = ["FakeClock", "ScriptedCall", "ScriptedModel", "ScriptedReply"]
