"""The JSON Schema of a Grafana dashboard, from the types of grafana-foundation-sdk: no key and no type but theirs."""

from __future__ import annotations

import enum
import inspect
import re
import types
import typing
from typing import Any, Final

from grafana_foundation_sdk.cog import variants
from grafana_foundation_sdk.models import dashboard, heatmap, prometheus, stat, table, text, timeseries

__all__ = ["DASHBOARD", "PLUGINS", "schema_of"]

_KEY: Final = re.compile(r"""(?:"(\w+)": |payload\["(\w+)"\] = )self\.(\w+)""")
_REQUIRED: Final = re.compile(r'^\s+"(\w+)": self\.', re.MULTILINE)
_PLAIN: Final[dict[Any, dict[str, Any]]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    object: {},
    typing.Any: {},
}


def schema_of(model: type) -> dict[str, Any]:
    """The schema of one of the SDK's classes with all that it refers to."""
    definitions: dict[str, Any] = {}
    return {**_refer(model, definitions), "$defs": definitions}


def _refer(model: type, definitions: dict[str, Any]) -> dict[str, Any]:
    name = f"{model.__module__.rsplit('.', 1)[-1]}.{model.__qualname__}"
    if name not in definitions:
        definitions[name] = {}
        definitions[name] = _object(model, definitions)
    return {"$ref": f"#/$defs/{name}"}


def _object(model: type, definitions: dict[str, Any]) -> dict[str, Any]:
    source = inspect.getsource(model.to_json)  # type: ignore[attr-defined]  # every model has it
    hints = typing.get_type_hints(model)
    keys = {first or second: attribute for first, second, attribute in _KEY.findall(source)}
    return {
        "type": "object",
        "properties": {key: _type(hints.get(attribute, typing.Any), definitions) for key, attribute in keys.items()},
        "required": _REQUIRED.findall(source),
        "additionalProperties": False,
    }


def _type(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_type(each, definitions) for each in arguments]}
    if origin is list:
        return {"type": "array", "items": _type(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _type(arguments[1], definitions)}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [each.value for each in hint]}
    return _refer(prometheus.Dataquery if hint is variants.Dataquery else hint, definitions)


DASHBOARD: Final = schema_of(dashboard.Dashboard)

PLUGINS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    module.__name__.rsplit(".", 1)[-1]: {
        name: schema_of(getattr(module, name)) for name in ("Options", "FieldConfig") if hasattr(module, name)
    }
    for module in (timeseries, stat, table, heatmap, text)
}
"""What the SDK leaves open in a panel, by the type of the panel: its options, and its fields' custom part."""
