"""What the objects of the API may go through: create, read, update, patch, bind, delete, and what follows.

The registry sits between requests and the store. It knows kinds and their rules, and neither HTTP nor how
objects are kept.
"""

from baro.apiserver.registry.options import DeleteOptions, WriteOptions
from baro.apiserver.registry.reading import Page, Window
from baro.apiserver.registry.registry import Registry
from baro.apiserver.registry.scaling import patch_scale, read_scale, update_scale

__all__ = [
    "DeleteOptions",
    "Page",
    "Registry",
    "Window",
    "WriteOptions",
    "patch_scale",
    "read_scale",
    "update_scale",
]
