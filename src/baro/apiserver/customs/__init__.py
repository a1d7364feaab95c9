"""Kinds that a CustomResourceDefinition brings: their schemas, columns and names.

Functions on documents. What happens to definitions and their objects in the store is in ``registry``.
Not built: rules in CEL (``x-kubernetes-validations``), conversion webhooks (versions differ in their name
only) and the scale subresource; a definition that asks for them is accepted with a warning.
"""

from baro.apiserver.customs.definitions import (
    AGE,
    DEFINITION_KIND,
    DEFINITION_SCHEMA,
    Version,
    check_definition,
    check_definition_update,
    complete,
    established,
    ignored,
    status_of,
    versions_of,
)
from baro.apiserver.customs.jsonpath import JsonPathError, find
from baro.apiserver.customs.schemas import problems, unknown_fields, with_defaults, without_unknown

__all__ = [
    "AGE",
    "DEFINITION_KIND",
    "DEFINITION_SCHEMA",
    "JsonPathError",
    "Version",
    "check_definition",
    "check_definition_update",
    "complete",
    "established",
    "find",
    "ignored",
    "problems",
    "status_of",
    "unknown_fields",
    "versions_of",
    "with_defaults",
    "without_unknown",
]
