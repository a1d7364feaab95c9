"""Agreement with recorded answers of real Kubernetes code: reading, asking our rooms, comparing.

One module per kind of record: ``validation`` (writes and what an API server says about them), ``cel``
(selectors on devices) and ``allocation`` (claims on one node). Records come in as JSON, answers go out with
the same keys as the recorded ones, and a ``Tally`` counts agreement. Nothing here decides anything itself: if
an answer is wrong, the room that gave it is. Knows no command line and writes no files.
"""

from baro.conformance.tally import Agreement, Tally

__all__ = ["Agreement", "Tally"]
