"""NamedTuple without typing, which takes as long to import as all else that a worker needs."""
from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Named(type):
    def __new__(cls, name: str, bases: "tuple[type, ...]", names: "dict[str, Any]") -> Any:
        if not bases:
            return type.__new__(cls, name, bases, names)
        fields = list(names.get("__annotations__", ()))
        made: Any = namedtuple(name, fields, defaults=[names[f] for f in fields if f in names])  # type: ignore[misc]
        for key, value in names.items():
            if key not in fields:
                setattr(made, key, value)
        return made


class NamedTuple(metaclass=_Named):
    pass
