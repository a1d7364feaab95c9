"""Pods that are placed wholly or not at all: their nodes and devices chosen together."""

from baro.placement.gang.domains import LEVELS
from baro.placement.gang.place import GangPlacement, place_gang
from baro.placement.gang.realise import Seated
from baro.placement.gang.units import GangMember, Seat

__all__ = ["LEVELS", "GangMember", "GangPlacement", "Seat", "Seated", "place_gang"]
