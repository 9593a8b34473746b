"""Functions and classes by value: what cannot be imported by another process, of the main program as a rule, travels as code.

A function takes the globals with it that its code names, its defaults and what it closes over; all functions of one
module that are in one value have one set of globals there. A class takes all that it defines, and is the same class
each time that it comes to a process; back where it is from it is the original. Modules are imported by their names.
What can be imported is imported.
"""
import builtins
import marshal
import opcode
import os
import sys
import types
import weakref
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

_GLOBAL = {opcode.opmap[name]: shift for name, shift in
           (("LOAD_GLOBAL", 1 if sys.version_info >= (3, 11) else 0), ("STORE_GLOBAL", 0), ("DELETE_GLOBAL", 0), ("LOAD_NAME", 0))}
_EXTENDED = opcode.opmap["EXTENDED_ARG"]

_by_key: "weakref.WeakValueDictionary[str, type]" = weakref.WeakValueDictionary()
_keys: "weakref.WeakKeyDictionary[type, str]" = weakref.WeakKeyDictionary()
_count = 0


def is_importable(value: Any, name: str) -> bool:
    """Would another process that imports its module find this very object there?"""
    module = getattr(value, "__module__", None)
    if module in (None, "__main__", "__mp_main__") or module not in sys.modules:
        return False
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


def _names(code: types.CodeType) -> Iterator[str]:
    """The globals that the code, and that inside it, names."""
    extended, bytes_ = 0, code.co_code
    for i in range(0, len(bytes_), 2):
        op, arg = bytes_[i], bytes_[i + 1] | extended
        extended = arg << 8 if op == _EXTENDED else 0
        if op in _GLOBAL:
            yield code.co_names[arg >> _GLOBAL[op]]
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _names(const)


def _attributes(code: types.CodeType) -> Set[str]:
    found = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            found |= _attributes(const)
    return found


def _submodules(code: types.CodeType, values: Dict[str, Any]) -> List[str]:
    """Modules inside those that the code names, which it reaches as their attributes: they must be imported, too."""
    attributes, found = _attributes(code), []
    for value in values.values():
        if isinstance(value, types.ModuleType):
            prefix = value.__name__ + "."
            found += [name for name in list(sys.modules)
                      if name.startswith(prefix) and attributes.issuperset(name[len(prefix):].split("."))]
    return found


class Namespace:
    """Stands for the globals of a module while a value is packed: one for each, so that functions share them."""
    __slots__ = ("module", "file", "made")

    def __init__(self, module: str, file: Optional[str]) -> None:
        self.module, self.file = module, file

    def __reduce__(self) -> "Tuple[Any, ...]":
        return _namespace_make, (self.module, self.file)


def _namespace_make(module: str, file: Optional[str]) -> Dict[str, Any]:
    made = {"__name__": module, "__builtins__": builtins, "__package__": None}
    if file is not None:
        made["__file__"] = file
    return made


class Reducers:
    """Of one value that is packed."""

    def __init__(self) -> None:
        self.namespaces: Dict[int, Namespace] = {}

    def namespace(self, values: Dict[str, Any]) -> Namespace:
        found = self.namespaces.get(id(values))
        if found is None:
            found = self.namespaces[id(values)] = Namespace(values.get("__name__") or "__main__", values.get("__file__"))
        return found

    def function(self, f: types.FunctionType) -> Any:
        if is_importable(f, f.__qualname__):
            return NotImplemented
        values = {name: f.__globals__[name] for name in _names(f.__code__) if name in f.__globals__}
        state = (values, _submodules(f.__code__, values), f.__defaults__, f.__kwdefaults__, f.__dict__, f.__qualname__,
                 f.__module__, f.__doc__, getattr(f, "__annotations__", None) if not _is_lazy(f) else None)
        arguments = (marshal.dumps(f.__code__), self.namespace(f.__globals__), f.__name__, f.__closure__)
        return _function_make, arguments, state, None, None, _function_fill

    def class_(self, c: type) -> Any:
        if c in _NAMED:
            return getattr, (types, _NAMED[c])
        if is_importable(c, c.__qualname__) or not c.__flags__ & _MADE_IN_PYTHON:
            return NotImplemented
        return (_class_make, (_key_of(c), type(c), c.__name__, c.__bases__, _slots(c), _members(c)), _contents(c), None, None,
                _class_fill)


_NAMED = {value: name for name, value in vars(types).items() if isinstance(value, type) and value.__module__ == "builtins"}
_MADE_IN_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE


def _is_lazy(f: Any) -> bool:
    """From 3.14 on annotations are computed when asked for, and may name what is not there."""
    return sys.version_info >= (3, 14) and f.__annotate__ is not None


def _function_make(code: bytes, values: Dict[str, Any], name: str, closure: Any) -> types.FunctionType:
    return types.FunctionType(marshal.loads(code), values, name, None, closure)


def _function_fill(f: types.FunctionType, state: Any) -> None:
    values, modules, f.__defaults__, f.__kwdefaults__, more, f.__qualname__, f.__module__, f.__doc__, annotations = state
    f.__globals__.update(values)
    f.__dict__.update(more)
    if annotations:
        f.__annotations__ = annotations
    for name in modules:
        __import__(name)


def _cell_reduce(cell: Any) -> Any:
    try:
        return _cell_make, (), (cell.cell_contents,), None, None, _cell_fill
    except ValueError:  # it is empty
        return _cell_make, ()


def _cell_make() -> Any:
    return types.CellType()


def _cell_fill(cell: Any, state: Any) -> None:
    cell.cell_contents, = state


# ---- classes ----

def _key_of(c: type) -> str:
    global _count
    key = _keys.get(c)
    if key is None:
        _count += 1
        key = "%d.%s.%d" % (os.getpid(), os.urandom(6).hex(), _count)
        _keys[c] = key
        _by_key[key] = c
    return key


def _slots(c: type) -> Any:
    return c.__dict__.get("__slots__")


def _members(c: Any) -> Optional[Dict[str, Any]]:
    """Of an Enum: its members' values."""
    enum = sys.modules.get("enum")
    if enum is None or not isinstance(c, enum.EnumMeta):
        return None
    return {name: member.value for name, member in c.__members__.items()}


_NOT_TAKEN = {"__orig_bases__", "__parameters__", "__dict__", "__weakref__", "__slots__", "_abc_impl", "__annotate__", "__annotate_func__",
              "__annotations_cache__", "__static_attributes__", "__firstlineno__"}
_OF_ENUMS = {"_generate_next_value_", "_member_names_", "_member_map_", "_member_type_", "_value2member_map_",
             "_unhashable_values_", "_unhashable_values_map_", "_hashable_values_", "_use_args_", "_new_member_",
             "_value_repr_", "__new__", "_sort_order_", "_flag_mask_", "_all_bits_", "_boundary_", "_inverted_", "_singles_mask_"}


def _contents(c: type) -> Dict[str, Any]:
    members = _members(c)
    found = {}
    for name, value in c.__dict__.items():
        if name in _NOT_TAKEN or isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            continue
        if members is not None and (name in members or name in _OF_ENUMS):
            continue
        found[name] = value
    return found


def _class_make(key: str, kind: Any, name: str, bases: Any, slots: Any, members: Optional[Dict[str, Any]]) -> type:
    known = _by_key.get(key)
    if known is not None:
        return known
    typing = sys.modules.get("typing")
    is_generic = typing is not None and typing.Generic in bases
    if is_generic:  # its parameters are for readers: without them it is the same class
        bases = tuple(b for b in bases if b is not typing.Generic) or (object,)  # type: ignore[union-attr]
    space = kind.__prepare__(name, bases)
    if is_generic:
        space["__class_getitem__"] = classmethod(lambda c, _: c)
    if slots is not None:
        space["__slots__"] = slots
    for member, value in (members or {}).items():
        space[member] = value
    made: type = kind.__new__(kind, name, bases, space)
    kind.__init__(made, name, bases, space)
    _keys[made] = key
    _by_key[key] = made
    _empty.add(key)
    return made


_empty: Set[str] = set()  # classes that have been made and not filled: the pickle has it next


def _class_fill(c: Any, contents: Dict[str, Any]) -> None:
    key = _keys.get(c)
    if key not in _empty:
        return  # it was here before
    _empty.discard(key)
    for name, value in contents.items():
        setattr(c, name, value)
        if hasattr(type(value), "__set_name__"):
            type(value).__set_name__(value, c, name)


# ---- what pickle does not know ----

def _module_reduce(module: types.ModuleType) -> Any:
    return _module_import, (module.__name__,)


def _module_import(name: str) -> Any:
    __import__(name)
    return sys.modules[name]


def _property_reduce(p: property) -> Any:
    return property, (p.fget, p.fset, p.fdel, p.__doc__)


def _method_reduce(m: Any) -> Any:
    return type(m), (m.__func__,)


def _cache_reduce(f: Any) -> Any:
    wrapped = getattr(f, "__wrapped__", None)
    if wrapped is None or is_importable(f, f.__qualname__):
        return NotImplemented
    return _cache_make, (wrapped, f.cache_parameters())


def _cache_make(f: Callable[..., Any], parameters: Dict[str, Any]) -> Any:
    import functools
    return functools.lru_cache(**parameters)(f)


def _sentinel_reduce(value: Any) -> Any:
    """Of dataclasses: what is compared by `is`."""
    for name, found in vars(sys.modules["dataclasses"]).items():
        if found is value:
            return getattr, (sys.modules["dataclasses"], name)
    return NotImplemented


def _typevar_reduce(v: Any) -> Any:
    found = getattr(sys.modules.get(getattr(v, "__module__", None) or ""), v.__name__, None)
    if found is v and v.__module__ != "__main__":
        return NotImplemented
    return _typevar_make, (v.__name__, v.__constraints__, v.__bound__, v.__covariant__, v.__contravariant__)


def _typevar_make(name: str, constraints: Any, bound: Any, covariant: bool, contravariant: bool) -> Any:
    import typing
    return typing.TypeVar(name, *constraints, bound=bound, covariant=covariant, contravariant=contravariant)  # type: ignore[misc]


def _cached_property_reduce(p: Any) -> Any:
    return type(p), (p.func,)  # it has a lock, and its class sets its name


def _mapping_reduce(proxy: Any) -> Any:
    return types.MappingProxyType, (dict(proxy),)


REDUCERS: Dict[type, Callable[[Any], Any]] = {
    types.ModuleType: _module_reduce, types.CellType: _cell_reduce, property: _property_reduce, staticmethod: _method_reduce,
    classmethod: _method_reduce, types.MappingProxyType: _mapping_reduce}


def reducer_of(value: Any) -> Optional[Callable[[Any], Any]]:
    """How a value of this type is reduced, where pickle would not or would do it otherwise."""
    kind = type(value)
    found = REDUCERS.get(kind)
    if found is None and kind.__module__ in ("functools", "dataclasses", "typing"):
        if kind.__name__ == "TypeVar":
            return _typevar_reduce
        if kind.__name__ == "cached_property":
            return _cached_property_reduce
        if kind.__name__ == "_lru_cache_wrapper":
            return _cache_reduce
        if kind.__name__ in ("_MISSING_TYPE", "_FIELD_BASE", "_HAS_DEFAULT_FACTORY_CLASS", "_KW_ONLY_TYPE"):
            return _sentinel_reduce
    return found
