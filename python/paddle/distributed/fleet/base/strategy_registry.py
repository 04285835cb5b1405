"""The registry of fleet's strategies: the fields of DistributedStrategy, its file format, the strategies' classes.

A strategy is one file of `fleet/meta_optimizers`: its class declares its flag, its configuration, the strategies that
it may wrap and those that it excludes. :func:`register` adds the properties to DistributedStrategy and the fields to
its file format. See docs/dev/add-a-strategy.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from paddle._basics.message import Field, Message, Schema, assign

__all__ = ["Configs", "Flag", "add_field", "add_flag", "register", "registered", "schema"]


@dataclass(frozen=True)
class Flag:
    """A field of one value of DistributedStrategy.

    `number` is that of 2.0.2's distributed_strategy.proto: files are ordered by it. A value of another type is ignored
    with a warning, or raises `error`. Setting the flag also sets the fields `resets` of its configuration.
    """

    name: str
    number: int
    doc: str
    default: Any = False
    error: type[Exception] | None = None
    resets: Mapping[str, Any] | None = None


class Configs:
    """The configuration below a flag, the field ``NAME_configs``.

    Args:
        message (str): the name of the message in the file format.
        number (int): the field's number.
        doc (str): a sentence for the property.
        fields: name to default, in the order of their numbers; a type alone (``str``, ``int``, ``float``) is a list.
    """

    def __init__(self, message: str, number: int, doc: str, **fields: Any) -> None:
        self.schema, self.number, self.doc = message_schema(message, **fields), number, doc


def message_schema(name: str, **fields: Any) -> Schema:
    """A message: name to default; a type alone is a list of it."""
    return Schema(
        name,
        *(Field(n, d, repeated=True) if isinstance(d, type) else Field(n, type(d), d) for n, d in fields.items()),
    )


#: the fields of a DistributedStrategy, ordered by number
schema = Schema("DistributedStrategy")
_strategies: list[type] = []


class StrategyFields:
    """The properties of DistributedStrategy: one for each registered flag, one for each configuration."""

    strategy: Message

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # the properties are added by `add_flag` and `register`


def add_field(field: Field) -> None:
    """Adds a field to the schema. ValueError for a name or a number that it has."""
    for known in schema.values():
        if known.name == field.name or known.number == field.number:
            raise ValueError(
                f"DistributedStrategy: field {field.number} ({field.name}) is taken by {known.number} ({known.name})"
            )
    schema[field.name] = field
    ordered = sorted(schema.values(), key=lambda f: f.number)
    schema.clear()
    schema.update((f.name, f) for f in ordered)


def add_flag(flag: Flag, attribute: str | None = None) -> None:
    """Adds a field of one value, and its property, under another name where `attribute` is given."""
    field = Field(flag.name, type(flag.default), flag.default, number=flag.number)
    add_field(field)
    setattr(StrategyFields, attribute or flag.name, _flag_property(flag, field, attribute or flag.name))


def _flag_property(flag: Flag, field: Field, name: str) -> property:
    def set_(self: StrategyFields, value: Any) -> None:
        if not isinstance(value, field.kind) or field.kind is int and isinstance(value, bool):
            text = f"DistributedStrategy.{name} takes a {field.kind.__name__}, got {value!r}"
            if flag.error is not None:
                raise flag.error(text)
            warnings.warn(f"{text}: it stays {self.strategy.get(field.name)!r}", stacklevel=2)
            return
        self.strategy.set(field.name, value)
        if flag.resets is not None:
            setattr(self, f"{flag.name}_configs", flag.resets)

    return property(lambda self: self.strategy.get(field.name), set_, doc=flag.doc)


def _configs_property(name: str, configs: Configs) -> property:
    """The configuration as a dict. Setting a dict changes the fields that it names."""
    settings = "\n".join(
        f"        {f.name} ({f'list[{f.kind.__name__}]' if f.repeated else f.kind.__name__})"
        + ("" if f.repeated else f": {f.default!r} by default.")
        for f in configs.schema.values()
    )

    def set_(self: StrategyFields, values: Mapping[str, Any]) -> None:
        assign(self.strategy.get(name), values, name)

    return property(
        lambda self: self.strategy.get(name).as_dict(),
        set_,
        doc=f"{configs.doc}\n\n    A dict of\n{settings}\n\n    Raises:\n        AssertionError: for an unknown name. "
        "TypeError: for a value of another type.",
    )


def register(strategy: type) -> type:
    """Class decorator: adds a strategy, its flag and its configuration.

    The class is a MetaOptimizerBase with the attributes that are described there.

    Raises:
        ValueError: for a name or number that is taken; for `auto_configs` with a name that `configs` lacks.
    """
    declared: Any = strategy
    flag, configs = declared.flag, declared.configs
    known = {} if configs is None else configs.schema
    unknown = set(declared.auto_configs or ()) - set(known)
    if unknown:
        raise ValueError(f"{strategy.__name__}.auto_configs: {', '.join(sorted(unknown))} not in its configs")
    if flag is not None:
        add_flag(flag)
        if configs is not None:
            name = f"{flag.name}_configs"
            add_field(Field(name, configs.schema, number=configs.number))
            setattr(StrategyFields, name, _configs_property(name, configs))
    _strategies.append(strategy)
    return strategy


def registered() -> list[Callable[[Any], Any]]:
    """The classes of all strategies by name: their order decides between chains of the same length."""
    return sorted(_strategies, key=lambda c: c.__name__)
