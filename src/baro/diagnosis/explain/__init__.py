"""Why a pod or claim is pending, or why it has these devices: asked of the production allocator.

``World`` indexes the evidence, ``explain`` answers for one pod or claim, ``lines`` and ``documents`` show it.
"""

from baro.diagnosis.explain.document import documents
from baro.diagnosis.explain.explain import explain
from baro.diagnosis.explain.result import Explanation, Step, Verdict
from baro.diagnosis.explain.subjects import Subject, alike, named, pending
from baro.diagnosis.explain.text import lines
from baro.diagnosis.explain.world import Options, World

__all__ = [
    "Explanation",
    "Options",
    "Step",
    "Subject",
    "Verdict",
    "World",
    "alike",
    "documents",
    "explain",
    "lines",
    "named",
    "pending",
]
