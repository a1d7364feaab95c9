"""The devices of a cluster as dictionary-encoded columns, with pools and what is in use.

Built from API objects, from files or from a watch alike. Decides nothing.
"""

from baro.inventory.columns import Column, DeviceExtra, DeviceTable
from baro.inventory.inventory import Inventory
from baro.inventory.pools import NodePool, NodePools, SliceRecord
from baro.inventory.snapshot import Snapshot
from baro.inventory.usage import DeviceKey, Share, Usage, claim_name

__all__ = [
    "Column",
    "DeviceExtra",
    "DeviceKey",
    "DeviceTable",
    "Inventory",
    "NodePool",
    "NodePools",
    "Share",
    "SliceRecord",
    "Snapshot",
    "Usage",
    "claim_name",
]
