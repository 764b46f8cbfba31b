"""Patterns of operators, and tables of them: which operators become one composite.

    conv = is_op("nn.conv2d")(wildcard(), is_constant())
    biased = is_op("nn.bias_add")(conv, is_constant())

    @mblob.byoc.register_pattern_table("my")
    def table():
        return [("my.conv2d_bias_relu", is_op("nn.relu")(biased)), ("my.conv2d_bias", biased)]

The names are those of TVM (`tvm.relay.dataflow_pattern`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, Union

from mblob.errors import MblobError, did_you_mean
from mblob.packager.byoc.operators import Composite, Operator, Tensor
from mblob.packager.errors import BuildError, BuildTypeError
from mblob.packager.path_arguments import check_key

DEEPEST = 64  # operators above one another in a pattern
MOST_STEPS = 10_000  # of one pattern at one operator
MOST_ALTERNATIVES = 2_000  # `|` above one another in a pattern
Bindings = Mapping[int, Any]  # what each pattern stands for, by the pattern's id
Check = Callable[[Composite], Any]


# -- the language ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Pattern:
    """A pattern of what a value may come from. `is_op`, `wildcard` and `is_constant` make patterns.

    `a | b` is either pattern, tried from left to right. A pattern that is written in two places
    stands for the same value in both.

    Attributes:
        depth: operators above one another.
        bars: `|` above one another, without those of inputs.
    """

    depth: int = 0
    bars: int = 0

    def __or__(self, other: Pattern) -> Pattern:
        choices = (*_checked("|", (self, other)),)
        bars = 1 + max(choice.bars for choice in choices)
        if bars > MOST_ALTERNATIVES:
            raise BuildError(
                f"|: more than {MOST_ALTERNATIVES} alternatives; is_op(name, name, ...) takes several names"
            )
        return _Either(max(choice.depth for choice in choices), bars, choices)

    def __ror__(self, other: Any) -> Pattern:
        """Refuse what is no pattern on the left of `|`."""
        raise _no_pattern("|", other)

    def __call__(self, *inputs: Pattern) -> Pattern:
        """This pattern, for an operator of these inputs. That of any operator:
        `wildcard()(x, y)`. That of either operator: `(is_op("add") | is_op("multiply"))(x, y)`."""
        raise BuildError("is_constant() is no operator, so it has no inputs")

    def optional(self, follower: Callable[[Pattern], Pattern]) -> Pattern:
        """This pattern, with or without an operator behind it: `conv.optional(is_op("nn.relu"))`."""
        if not callable(follower):
            raise BuildTypeError(
                f'optional: expected an operator such as is_op("nn.relu"), found {type(follower).__name__}'
            )
        (behind,) = _checked("optional", (follower(self),))
        return behind | self

    def has_attr(self, attrs: Mapping[str, Any]) -> Pattern:
        """This pattern, if its operator has these attributes: name -> text, number, or a sequence of
        numbers. None: the operator does not have the attribute.
        """
        raise BuildError("has_attr: only is_op(...) has attributes")


@dataclass(frozen=True, eq=False)
class _Any(Pattern):
    constant: bool = False

    def __call__(self, *inputs: Pattern) -> Pattern:
        return super().__call__(*inputs) if self.constant else OpPattern(1)(*inputs)


@dataclass(frozen=True, eq=False)
class _Either(Pattern):
    choices: tuple[Pattern, ...] = ()

    def __call__(self, *inputs: Pattern) -> Pattern:
        return self._each(lambda choice: choice(*inputs))

    def has_attr(self, attrs: Mapping[str, Any]) -> Pattern:
        return self._each(lambda choice: choice.has_attr(attrs))

    def _each(self, change: Callable[[Pattern], Pattern]) -> Pattern:
        """The alternatives, each of them changed."""
        found: dict[int, Pattern] = {}
        untried: list[Pattern] = [self]
        while untried:
            pattern = untried.pop()
            if id(pattern) in found:
                continue
            found[id(pattern)] = pattern
            if isinstance(pattern, _Either):
                untried += pattern.choices[::-1]
        choices = (*(change(p) for p in found.values() if not isinstance(p, _Either)),)
        return _Either(max(choice.depth for choice in choices), self.bars, choices)


@dataclass(frozen=True, eq=False)
class OpPattern(Pattern):
    """An operator of one of the `names`, () for any, whose inputs are `inputs`; None: any inputs."""

    names: tuple[str, ...] = ()
    inputs: tuple[Pattern, ...] | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, *inputs: Pattern) -> OpPattern:
        what = f"is_op({self.names[0]!r})" if self.names else "wildcard()(...)"
        if self.inputs is not None:
            raise BuildError(f"{what}: it has inputs already")
        depth = 1 + max((p.depth for p in _checked(what, inputs)), default=0)
        if depth > DEEPEST:
            raise BuildError(
                f"{what}: more than {DEEPEST} operators above one another in a pattern"
            )
        return replace(self, inputs=inputs, depth=depth)

    def has_attr(self, attrs: Mapping[str, Any]) -> OpPattern:
        if not isinstance(attrs, Mapping):
            found = type(attrs).__name__
            raise BuildTypeError(f"has_attr: expected a dict of attributes by name, found {found}")
        for name, value in attrs.items():
            if not isinstance(name, str):
                raise BuildTypeError(f"has_attr: expected names as str, found {name!r}")
            if value is not None and not isinstance(value, (str, int, float, list, tuple)):
                found = type(value).__name__
                raise BuildTypeError(
                    f"has_attr: {name}: expected text, a number, numbers or None, found {found}"
                )
        return replace(self, attrs={**self.attrs, **attrs})


def is_op(name: str, *others: str) -> OpPattern:
    """The pattern of an operator: `is_op("nn.relu")(wildcard())`. Without inputs behind it, it is the
    operator with any inputs.

    Args:
        name, others: an operator with one of these names (`Operator.op`).
    """
    for text in (name, *others):
        if not isinstance(text, str) or not text:
            raise BuildTypeError(f"is_op: expected the name of an operator, found {text!r}")
    return OpPattern(1, names=(name, *others))


def wildcard() -> Pattern:
    """The pattern of any value from outside of the composite. With inputs, `wildcard()(x)`, that of any
    operator."""
    return _Any()


def is_constant() -> Pattern:
    """The pattern of a parameter of the graph, whose elements are known when the model is packed."""
    return _Any(constant=True)


def _checked(what: str, patterns: Sequence[Any]) -> Sequence[Pattern]:
    for pattern in patterns:
        if not isinstance(pattern, Pattern):
            raise _no_pattern(what, pattern)
    return patterns


def _no_pattern(what: str, found: Any) -> BuildTypeError:
    return BuildTypeError(
        f"{what}: expected patterns such as wildcard(), found {type(found).__name__}"
    )


def is_function(value: Any) -> bool:
    """True if a value can be a predicate or a check, which a pattern is not."""
    return callable(value) and not isinstance(value, Pattern)


# -- tables ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One row of a table."""

    name: str
    pattern: Pattern
    check: Check | None = None


Table = Sequence[Union[tuple[str, Pattern], tuple[str, Pattern, Check]]]
Predicate = Callable[[Operator], Any]
T = TypeVar("T", bound=Callable[[], Table])
_tables: dict[str, tuple[Callable[[], Table], Predicate | None]] = {}


def register_pattern_table(
    key: str, predicate: Predicate | None = None, *, override: bool = False
) -> Callable[[T], T]:
    """Register the pattern table of a code generator: a decorator, `@register_pattern_table("mykey")`.

    The function returns a list of tuples `(name, pattern)` or `(name, pattern, check)`. `name` is
    what the code generator finds in `Composite.op`. `check` gets the `Composite` and returns true if
    the code generator supports it.

    Args:
        predicate: which single operators the code generator takes. None: those of composites alone.
        override: replace a table that is registered.

    Raises:
        BuildError: an invalid key, or one that has a table.
    """
    check_key(key, "register_pattern_table")
    if predicate is not None and not is_function(predicate):
        found = type(predicate).__name__
        raise BuildTypeError(f"register_pattern_table: {key}: expected a predicate, found {found}")

    def register(table: T) -> T:
        if not is_function(table):
            raise BuildTypeError(
                f"register_pattern_table: expected a function, found {type(table).__name__}"
            )
        if not override and key in _tables and _tables[key][0] is not table:
            raise BuildError(
                f"register_pattern_table: {key!r} has a table; pass override=True to replace it"
            )
        _tables[key] = table, predicate
        return table

    return register


def table_of(key: str) -> list[Row]:
    """The registered table of a key; without one, no rows.

    Raises:
        BuildError: the table is invalid, or its function fails: the exception is the cause.
        MblobError: its function raised one; the key comes first in the text.
    """
    if key not in _tables:
        return []
    where = f"the pattern table of {key!r}"
    try:
        table = _tables[key][0]()
    except MblobError as error:
        error.prefix(where)
        raise
    except Exception as error:
        raise BuildError(f"{where} failed: {type(error).__name__}: {error}") from error
    return rows(key, table)


def target_of(key: str) -> Predicate | list[Row]:
    """The predicate that is registered for a key, else the table.

    Raises:
        BuildError: nothing is registered, or the table is invalid.
    """
    if key not in _tables:
        known = ", ".join(sorted(_tables))
        raise BuildError(
            f"no pattern table is registered for {key!r} (there are: {known}); register one with"
            f" @mblob.byoc.register_pattern_table({key!r}), or pass a predicate{did_you_mean(key, _tables)}"
        )
    return _tables[key][1] or table_of(key)


def rows(key: str, table: Any) -> list[Row]:
    """A table that was checked.

    Raises:
        BuildError: it is no list of (name, pattern) or (name, pattern, check).
    """
    where = f"the pattern table of {key!r}"
    if not isinstance(table, (list, tuple)):
        raise BuildTypeError(f"{where}: expected a list, found {type(table).__name__}")
    found = []
    for i, row in enumerate(table):
        if not isinstance(row, (list, tuple)) or len(row) not in (2, 3):
            raise BuildTypeError(
                f"{where}: row {i}: expected (name, pattern) or (name, pattern, check)"
            )
        made = Row(*row)
        if not isinstance(made.name, str) or not made.name:
            raise BuildTypeError(f"{where}: row {i}: expected a name, found {made.name!r}")
        if not isinstance(made.pattern, Pattern) or not made.pattern.depth:
            raise BuildTypeError(
                f"{where}: {made.name}: expected a pattern of operators: is_op(...)"
            )
        if made.check is not None and not is_function(made.check):
            raise BuildTypeError(
                f"{where}: {made.name}: expected a function as check, found {type(made.check).__name__}"
            )
        found.append(made)
    return found


# -- matching --------------------------------------------------------------------------------------


class Matcher:
    """Finds the ways in which a pattern can end with an operator.

    Args:
        pattern: of the last operator.
        where: what an error begins with.
    """

    def __init__(self, pattern: Pattern, where: str) -> None:
        self._pattern = pattern
        self._where = where

    def ways(self, last: Operator) -> Iterator[list[Operator]]:
        """The operators of each way, in the order of the alternatives.

        Raises:
            BuildError: the alternatives of the pattern are too many to try.
        """
        for bound in self._bindings(last):
            inside = {id(v): v for v in bound.values() if isinstance(v, Operator)}
            outside = (v.producer for v in bound.values() if isinstance(v, Tensor))
            if not any(id(producer) in inside for producer in outside):
                yield list(inside.values())

    def _bindings(self, last: Operator) -> Iterator[Bindings]:
        """The values that the patterns stand for, in each way. A goal is a pattern, the value that
        it shall stand for, and the goals behind it. The last of `untried` is the next to try."""
        untried: list[tuple[_Goal | None, Bindings]] = [((self._pattern, last, None), {})]
        steps = 0
        while untried:
            goal, bound = untried.pop()
            if goal is None:
                yield bound
                continue
            steps += 1
            if steps > MOST_STEPS:
                raise BuildError(
                    f"{self._where}: more than {MOST_STEPS} alternatives;"
                    " write fewer `|` and optional() above one another"
                )
            pattern, value, rest = goal
            if isinstance(pattern, _Either):
                if value is not last:  # a tuple: the value is not at the edge
                    if bound.get(id(pattern), (value,))[0] is not value:
                        continue
                    bound = {**bound, id(pattern): (value,)}
                untried += (((choice, value, rest), bound) for choice in pattern.choices[::-1])
            elif isinstance(pattern, OpPattern):
                operator = value if isinstance(value, Operator) else _only_result_of(value)
                if operator is None or bound.get(id(pattern), operator) is not operator:
                    continue
                if (pattern.names and operator.op not in pattern.names) or not all(
                    _has(operator, name, expected) for name, expected in pattern.attrs.items()
                ):
                    continue
                bound = {**bound, id(pattern): operator}
                if pattern.inputs is None:
                    untried.append((rest, {**bound, **{id(t): t for t in operator.inputs}}))
                elif len(pattern.inputs) == len(operator.inputs):
                    for inner in zip(pattern.inputs[::-1], operator.inputs[::-1]):
                        rest = (*inner, rest)
                    untried.append((rest, bound))
            elif isinstance(pattern, _Any) and isinstance(value, Tensor):
                fits = value.is_constant or not pattern.constant
                if fits and bound.get(id(pattern), value) is value:
                    untried.append((rest, {**bound, id(pattern): value}))


_Goal = tuple[Pattern, Union[Operator, Tensor], Any]


def _only_result_of(tensor: Tensor) -> Operator | None:
    """The operator of which a tensor is the only result."""
    producer = tensor.producer
    return producer if producer is not None and len(producer.outputs) == 1 else None


def _has(operator: Operator, name: str, value: Any) -> bool:
    """True if an operator has an attribute of that value. None: it has no such attribute."""
    if value is None or name not in operator.attrs:
        return value is None and name not in operator.attrs
    try:
        if isinstance(value, bool):
            return operator.flag(name) == value
        if isinstance(value, (int, float)):
            return operator.number(name) == value
        if isinstance(value, str):
            return operator.text(name) == value
        return operator.ints(name) == tuple(value)
    except BuildError:  # its text is of another type
        return False
