"""Kinds that a CustomResourceDefinition brings: their schemas, columns and names.

Functions on documents. What happens to definitions and their objects in the store is in ``registry``; rules
in CEL are in ``rules``. Not built: conversion webhooks (versions differ in their name only); a definition
that asks for one is accepted with a warning.
"""

from baro.apiserver.customs.conditions import established, status_of
from baro.apiserver.customs.definitions import (
    AGE,
    DEFINITION_KIND,
    DEFINITION_SCHEMA,
    Scale,
    Version,
    complete,
    ignored,
    versions_of,
)
from baro.apiserver.customs.jsonpath import JsonPathError, find
from baro.apiserver.customs.scaling import ScalePathError, is_unset, scale_of, scale_problems, with_replicas
from baro.apiserver.customs.schemas import (
    duplicates,
    problems,
    unknown_fields,
    with_defaults,
    without_null_fields,
    without_unknown,
)
from baro.apiserver.customs.validity import check_definition, check_definition_update

__all__ = [
    "AGE",
    "DEFINITION_KIND",
    "DEFINITION_SCHEMA",
    "JsonPathError",
    "Scale",
    "ScalePathError",
    "Version",
    "check_definition",
    "check_definition_update",
    "complete",
    "duplicates",
    "established",
    "find",
    "ignored",
    "is_unset",
    "problems",
    "scale_of",
    "scale_problems",
    "status_of",
    "unknown_fields",
    "versions_of",
    "with_defaults",
    "with_replicas",
    "without_null_fields",
    "without_unknown",
]
