"""Who owns which field: the set algebra of ``metadata.managedFields`` and server-side apply.

Functions on documents and shapes; nothing here knows stores, HTTP or kinds. The rules are those of
``sigs.k8s.io/structured-merge-diff`` and ``k8s.io/apimachinery/pkg/util/managedfields``. One simplification:
a set of another API version is used as it is, without converting its paths.
"""

from baro.apiserver.ownership.managers import (
    Applied,
    ConflictError,
    Managed,
    Manager,
    apply,
    decode_managed,
    encode_managed,
    record_update,
)
from baro.apiserver.ownership.shapes import BuiltinShape, SchemaShape, Shape
from baro.apiserver.ownership.values import misfits

__all__ = [
    "Applied",
    "BuiltinShape",
    "ConflictError",
    "Managed",
    "Manager",
    "SchemaShape",
    "Shape",
    "apply",
    "decode_managed",
    "encode_managed",
    "misfits",
    "record_update",
]
