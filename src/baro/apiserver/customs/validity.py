"""Whether a definition may be: names, versions, columns, paths, and the structure of its schemas.

What all versions share, the real server keeps in one place and names there (``spec.validation``,
``spec.subresources`` …). Source: ``pkg/apis/apiextensions/validation`` and ``pkg/apiserver/schema`` of
``apiextensions-apiserver``; rules in CEL are checked by ``baro.apiserver.rules``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from baro.apiserver.customs.jsonpath import JsonPathError, find
from baro.apiserver.customs.schemas import problems, unknown_fields
from baro.apiserver.rules import FieldPathError, check_rules, found, rule_tree, run_rules
from baro.apiserver.rules.declared import Schema
from baro.apiserver.status import Cause
from baro.model.gotext import go_quote
from baro.model.validation.causes import shown

Body = dict[str, Any]

_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_LIST_TYPES: Final = ("atomic", "set", "map")
_MAP_TYPES: Final = ("atomic", "granular")
_MOST_SELECTABLE: Final = 8
_DNS_1035: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_1035_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def check_definition(body: Body, *, new: bool) -> list[Cause]:
    """Why a well-typed definition is none. ``new``: its name is looked at too."""
    spec = body["spec"]
    names = spec.get("names") or {}
    causes: list[Cause] = []
    wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
    if new and body["metadata"].get("name") != wanted:
        rule = 'must be spec.names.plural+"."+spec.group'
        causes.append(_invalid("metadata.name", body["metadata"].get("name"), rule))
    causes += _check_group(spec.get("group"))
    causes += _check_scope(spec.get("scope"))
    versions = spec.get("versions") or []
    for index, version in enumerate(versions):
        causes += _check_version(version, f"spec.versions[{index}]")
    if sum(version.get("storage") is True for version in versions) != 1:
        causes.append(_versions(versions, "must have exactly one version marked as storage version"))
    if len({version.get("name") for version in versions}) < len(versions):
        causes.append(_versions(versions, "must contain unique version names"))
    causes += _check_names(names)
    for index, version in enumerate(versions):
        causes += _check_parts(version, f"spec.versions[{index}]", versions)
    causes += _check_conversion(spec.get("conversion") or {})
    return list(dict.fromkeys(causes))


def _versions(versions: list[Body], text: str) -> Cause:
    """About all versions, which the real server prints as Go has them and this one leaves out."""
    value = "" if versions else "[]: "
    return Cause("FieldValueInvalid", "spec.versions", f"Invalid value: {value}{text}")


def _check_group(group: Any) -> Iterator[Cause]:
    if not group:
        yield _required("spec.group")
    elif "." not in group:
        yield _invalid("spec.group", group, "should be a domain with at least one dot")


def _check_scope(scope: Any) -> Iterator[Cause]:
    if not scope:
        yield _required("spec.scope")
    elif scope not in ("Cluster", "Namespaced"):
        yield _unsupported("spec.scope", scope, ("Cluster", "Namespaced"))


def _check_names(names: Body) -> Iterator[Cause]:
    for name in ("plural", "singular", "kind", "listKind"):
        if not names.get(name):
            yield _required(f"spec.names.{name}")
            continue
        mixed = name in ("kind", "listKind")
        value = str(names[name])
        if not _DNS_1035.fullmatch(value.lower() if mixed else value):
            rule = f"may have mixed case, but should otherwise match: {_DNS_1035_RULE}"
            yield _invalid(f"spec.names.{name}", value, rule if mixed else _DNS_1035_RULE)
    for kind in ("shortNames", "categories"):
        for index, value in enumerate(names.get(kind) or ()):
            if not _DNS_1035.fullmatch(str(value)):
                yield _invalid(f"spec.names.{kind}[{index}]", value, _DNS_1035_RULE)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield _invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")


def _check_conversion(conversion: Body) -> Iterator[Cause]:
    strategy = conversion.get("strategy")
    if strategy and strategy not in ("None", "Webhook"):
        yield _unsupported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    if strategy == "Webhook" and not (conversion.get("webhook") or {}).get("clientConfig"):
        text = "required when strategy is set to Webhook"
        yield _required("spec.conversion.webhookClientConfig", text)


# --- versions --------------------------------------------------------------------------------------------


def _check_version(version: Body, path: str) -> Iterator[Cause]:
    """What belongs to a version alone."""
    if not _DNS_1035.fullmatch(str(version.get("name", ""))):
        yield _invalid(f"{path}.name", version.get("name"), _DNS_1035_RULE)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not isinstance(schema, Mapping) or not schema:
        yield _required(f"{path}.schema.openAPIV3Schema")
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    where = f"{path}.deprecationWarning"
    if version.get("deprecated") is not True:
        yield _invalid(where, warning, "can only be set for deprecated versions")
    elif len(warning.encode()) > 256:
        yield _invalid(where, warning, "must be <= 256 characters long")
    elif not warning:
        yield _invalid(where, warning, "must not be an empty string")


def _check_parts(version: Body, path: str, versions: list[Body]) -> Iterator[Cause]:
    """Schema, subresources, columns and fields: under the version, or where what all share is kept."""

    def place(name: str, shared: str) -> str:
        return (
            f"spec.{shared}" if all(v.get(name) == version.get(name) for v in versions) else f"{path}.{name}"
        )

    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if isinstance(schema, Mapping) and schema:
        yield from _check_schema(schema, f"{place('schema', 'validation')}.openAPIV3Schema")
    scale = (version.get("subresources") or {}).get("scale")
    if isinstance(scale, Mapping):
        yield from _check_scale(scale, f"{place('subresources', 'subresources')}.scale")
    where = place("additionalPrinterColumns", "additionalPrinterColumns")
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield from _check_column(column, f"{where}[{index}]")
    fields = version.get("selectableFields") or []
    if fields and isinstance(schema, Mapping):
        yield from _check_selectable(fields, schema, place("selectableFields", "selectableFields"))


def _check_scale(scale: Schema, path: str) -> Iterator[Cause]:
    for name, roots in (
        ("specReplicasPath", (".spec.",)),
        ("statusReplicasPath", (".status.",)),
        ("labelSelectorPath", (".spec.", ".status.")),
    ):
        value, where = str(scale.get(name) or ""), f"{path}.{name}"
        if not value:
            if name != "labelSelectorPath":
                yield _required(where)
        elif not value.startswith("."):
            yield _invalid(where, value, "must be a simple json path starting with .")
        elif not value.startswith(roots):
            under = "either .spec or .status" if len(roots) > 1 else roots[0].rstrip(".")
            yield _invalid(where, value, f"should be a json path under {under}")


def _check_column(column: Body, path: str) -> Iterator[Cause]:
    if not column.get("name"):
        yield _required(f"{path}.name")
    type_, format_, json_path = column.get("type"), column.get("format"), str(column.get("jsonPath") or "")
    if type_ not in _COLUMN_TYPES:
        text = f"must be one of {','.join(_COLUMN_TYPES)}"
        yield _invalid(f"{path}.type", type_, text) if type_ else _required(f"{path}.type", text)
    if format_ and format_ not in _COLUMN_FORMATS:
        yield _invalid(f"{path}.format", format_, f"must be one of {','.join(_COLUMN_FORMATS)}")
    where = f"{path}.JSONPath"
    if not json_path:
        yield _required(where)
    elif not json_path.startswith("."):
        yield _invalid(where, json_path, "must be a simple json path starting with .")
    else:
        try:
            find({}, json_path)
        except JsonPathError as error:  # a real server takes the definition and cannot list its objects
            yield _invalid(where, json_path, str(error))


def _check_selectable(fields: list[Body], schema: Schema, path: str) -> Iterator[Cause]:
    seen: set[tuple[str, ...]] = set()
    for index, field in enumerate(fields):
        value, where = str(field.get("jsonPath") or ""), f"{path}[{index}].jsonPath"
        if not value:
            yield _required(where)
            continue
        try:
            steps, leaf = found(value, schema, brackets=False)
        except FieldPathError as error:
            yield _invalid(where, value, f"is an invalid path: {error}")
            continue
        if steps[0] == ".metadata":
            yield _invalid(where, value, "must not point to fields in metadata")
        if leaf.get("type") not in ("string", "boolean", "integer"):
            kinds = "string, boolean or integer. Enum string fields and strings with formats are allowed."
            yield _invalid(where, value, f"must point to a field of type {kinds}")
        if steps in seen:
            yield Cause("FieldValueDuplicate", where, f"Duplicate value: {shown(value)}")
        seen.add(steps)
    if len(seen) > _MOST_SELECTABLE:
        text = f"Too many: {len(seen)}: must have at most {_MOST_SELECTABLE} items"
        yield Cause("FieldValueTooMany", path, text)


# --- updates ---------------------------------------------------------------------------------------------


def check_definition_update(body: Body, old: Body) -> list[Cause]:
    """What a definition never changes once objects may be of its kind."""
    spec, before = body["spec"], old.get("spec") or {}
    names, was = spec.get("names") or {}, before.get("names") or {}
    changes = (
        ("spec.group", spec.get("group"), before.get("group")),
        ("spec.scope", spec.get("scope"), before.get("scope")),
        ("spec.names.kind", names.get("kind"), was.get("kind")),
        ("spec.names.plural", names.get("plural"), was.get("plural")),
    )
    causes = [_invalid(path, value, "field is immutable") for path, value, was in changes if value != was]
    present = {version.get("name") for version in spec.get("versions") or ()}
    for index, name in enumerate((old.get("status") or {}).get("storedVersions") or ()):
        if name not in present:
            causes.append(_invalid(f"status.storedVersions[{index}]", name, _stored(name)))
    return causes


def _stored(name: str) -> str:
    return (
        f"missing from spec.versions; {name} was previously a storage version, and must remain in "
        f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
        f"{name} from status.storedVersions"
    )


# --- structure -------------------------------------------------------------------------------------------


def _check_schema(schema: Schema, path: str) -> Iterator[Cause]:
    causes: list[Cause] = []
    if schema.get("type") != "object":
        text = "must be object at the root"
        given = schema.get("type")
        causes.append(_invalid(f"{path}.type", given, text) if given else _required(f"{path}.type", text))
    if schema.get("nullable") is True:
        causes.append(
            Cause("FieldValueForbidden", f"{path}.nullable", "Forbidden: nullable cannot be true at the root")
        )
    unreadable = [*_check_kinds(schema, path)]
    causes += unreadable
    if not any(cause.field.endswith(".uniqueItems") for cause in unreadable):
        causes += _check_structure(schema, path, root=True)
    if not causes:
        causes += _check_defaults(schema, path)
    yield from causes
    yield from check_rules(schema, path, compiled=not causes)


def _check_structure(schema: Schema, path: str, *, root: bool = False) -> Iterator[Cause]:
    """A structural schema says the type of every field."""
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not schema.get("type") and not free and not root:
        text = "Required value: must not be empty for specified object fields"
        yield Cause("FieldValueRequired", f"{path}.type", text)
    properties, values = schema.get("properties"), schema.get("additionalProperties")
    for name, below in sorted(properties.items()) if isinstance(properties, Mapping) else ():
        if isinstance(below, Mapping) and not (root and name in ("metadata", "apiVersion", "kind")):
            yield from _check_structure(below, f"{path}.properties[{name}]")
    if properties and (isinstance(values, Mapping) or values is False):
        text = "Forbidden: additionalProperties and properties are mutual exclusive"
        yield Cause("FieldValueForbidden", f"{path}.additionalProperties", text)
    for name in ("items", "additionalProperties"):
        below = schema.get(name)
        if isinstance(below, Mapping):
            yield from _check_structure(below, f"{path}.{name}")
    if schema.get("type") == "array" and not isinstance(schema.get("items"), Mapping):
        yield _required(f"{path}.items", "must be specified")


def _check_kinds(schema: Schema, path: str) -> Iterator[Cause]:
    """Types and extensions, here and below."""
    for step, below in _below(schema):
        yield from _check_kinds(below, f"{path}.{step}")
    if (type_ := schema.get("type")) and type_ not in _TYPES:
        yield _unsupported(f"{path}.type", type_, _TYPES)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        where = f"{path}.x-kubernetes-preserve-unknown-fields"
        yield _invalid(where, False, "must be true or undefined")
    if schema.get("uniqueItems") is True:
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield Cause("FieldValueForbidden", f"{path}.uniqueItems", f"Forbidden: {why}")
    yield from _check_merging(schema, path)


def _below(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """The steps to the schemas of fields, values and items."""
    properties = schema.get("properties")
    for name, below in sorted(properties.items()) if isinstance(properties, Mapping) else ():
        if isinstance(below, Mapping):
            yield f"properties[{name}]", below
    for name in ("items", "additionalProperties"):
        below = schema.get(name)
        if isinstance(below, Mapping):
            yield name, below


def _check_defaults(schema: Schema, path: str) -> Iterator[Cause]:
    """Defaults are values that their own schemas allow."""
    for step, below in _below(schema):
        yield from _check_defaults(below, f"{path}.{step}")
    value = schema.get("default")
    if value is None:
        return
    where = f"{path}.default"
    causes = problems(value, schema, where)
    if any(unknown_fields(value, schema)):
        yield _invalid(where, value, "must not have unknown fields")
    for cause in causes:  # the server's checker knows no path here, and says so
        yield Cause(cause.reason, cause.field, cause.message.replace(f"{where} in body", " in body"))
    tree = None if causes else rule_tree({"type": "object", "properties": {"x": schema}}, root=False)
    if tree is not None:
        for cause in run_rules(tree, {"x": value}).causes:
            yield Cause(cause.reason, where + cause.field.removeprefix("x"), cause.message)


def _check_merging(schema: Schema, path: str) -> Iterator[Cause]:
    """The extensions that say how lists and objects merge."""
    for extension, kind, known in (
        ("x-kubernetes-map-type", "object", _MAP_TYPES),
        ("x-kubernetes-list-type", "array", _LIST_TYPES),
    ):
        value, type_ = schema.get(extension), schema.get("type")
        if value is None:
            continue
        if type_ != kind:
            text = f"must be {kind} if {extension} is specified"
            yield _invalid(f"{path}.type", type_, text) if type_ else _required(f"{path}.type", text)
        if value not in known:
            yield _unsupported(f"{path}.{extension}", value, known)
    how, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    items = schema.get("items")
    if keys and how != "map":
        text, where = (
            "must be map if x-kubernetes-list-map-keys is non-empty",
            f"{path}.x-kubernetes-list-type",
        )
        yield _required(where, text) if how is None else _invalid(where, how, text)
    if how == "map" and not keys:
        text = "must not be empty if x-kubernetes-list-type is map"
        yield _required(f"{path}.x-kubernetes-list-map-keys", text)
    if how == "map" and isinstance(items, Mapping):
        yield from _check_keys(items, keys, path)


def _check_keys(items: Schema, keys: list[Any], path: str) -> Iterator[Cause]:
    if items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield _invalid(f"{path}.items.type", items.get("type"), text)
        return
    properties, required = items.get("properties") or {}, items.get("required") or ()
    for key in keys:
        below = properties.get(key)
        if not isinstance(below, Mapping):
            where = f"{path}.x-kubernetes-list-map-keys"
            yield _invalid(where, keys, "entries must all be names of item properties")
        elif key not in required and "default" not in below:
            text = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required "
                "property"
            )
            yield _required(f"{path}.items.properties[{key}].default", text)


def _invalid(path: str, value: Any, text: str) -> Cause:
    return Cause("FieldValueInvalid", path, f"Invalid value: {shown('' if value is None else value)}: {text}")


def _required(path: str, text: str = "") -> Cause:
    return Cause("FieldValueRequired", path, f"Required value: {text}" if text else "Required value")


def _unsupported(path: str, value: str, known: tuple[str, ...]) -> Cause:
    listed = ", ".join(map(go_quote, known))
    return Cause(
        "FieldValueNotSupported", path, f"Unsupported value: {shown(value)}: supported values: {listed}"
    )
