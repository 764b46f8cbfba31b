"""tvm_ffi's test_container (0.1.9), with the names of `mblob.compat.tvm_ffi`."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import mblob.compat.tvm_ffi as tvm_ffi
from tests.peers.cases import Case
from tests.peers.tvm_ffi_checks import all_of, bad, echo

LISTS: list[Any] = [[1, 2, 3], [], ["a", "b"], [1, "a", None, 2.5, [True]], [[1], [[2]]]]


def arrays() -> None:
    for value in LISTS:
        assert echo(value) == value and isinstance(echo(value), tvm_ffi.Array)
        assert echo(tuple(value)) == value
    a = echo([1, 2, 3])
    assert (
        a[-1] == 3
        and a[-3:-1] == [1, 2]
        and [*a, 4] == [1, 2, 3, 4]
        and 3 in a
        and str(a) == "[1, 2, 3]"
    )
    assert pickle.loads(pickle.dumps(a)) == a


def refused_containers() -> None:
    for call in (lambda: tvm_ffi.Array(1), lambda: tvm_ffi.List(1), lambda: tvm_ffi.Map(1)):
        with pytest.raises((TypeError, AttributeError)):
            call()


MAPS_OF: list[dict[Any, Any]] = [
    {},
    {1: 2, 3: 4},
    {"hello": [1, "a"], "world": {"x": None}},
    {"a": 1, 2: "b", 3.5: b"c"},
    {i: i * i for i in range(1000)},
]


def maps() -> None:
    for value in MAPS_OF:
        found = echo(tvm_ffi.Map(value))
        assert found == value and isinstance(found, tvm_ffi.Map) and bool(found) == bool(value)
        assert list(found.items()) == list(value.items()) and list(found) == list(found.keys())
        assert list(found.values()) == list(value.values())
        assert pickle.loads(pickle.dumps(found)) == value
    row = echo([{"a": [1]}, [{"b": 2}]])
    assert row[0]["a"][0] == 1 and row[1][0]["b"] == 2 and str(row[0]) == "{'a': [1]}"


def missing_key() -> None:
    found = echo({"a": 1})
    with pytest.raises(KeyError):
        found["b"]
    assert found.get("b", 3) == 3 and found.get("a") == 1 and "b" not in found


def changed(kind: Any, value: Any, *changes: Callable[[Any], object]) -> Callable[[], None]:
    """A container is changed as Python's is, and a function gets it as it is then."""

    def check() -> None:
        made, known = kind(value), type(value)(value)
        for change in changes:
            assert change(made) == change(known)
            assert echo(made) == known == made and repr(made) == repr(known)
            assert pickle.loads(pickle.dumps(made)) == known
            assert list(echo(made)) == list(known) and bool(made) == bool(known)

    return check


def wrong_uses(*uses: Callable[[], object]) -> Callable[[], None]:
    return all_of(*(bad(use, IndexError, KeyError, ValueError, TypeError) for use in uses))


def opaque_items() -> None:
    class Own: ...

    x, y = Own(), Own()
    assert echo([x, y]) == [x, y] and echo({"a": x, "b": [y]}) == {"a": x, "b": [y]}


def missing_object() -> None:
    missing = tvm_ffi.container.MISSING
    assert isinstance(missing, tvm_ffi.Object) and missing.same_as(tvm_ffi.core.MISSING)
    m = echo(tvm_ffi.Map({"a": 1}))
    assert (m.get("a"), m.get("b"), m.get("b", 42)) == (1, None, 42)


def shared(value: Any, change: Callable[[Any], object], expected: Any) -> Callable[[], None]:
    def check() -> None:
        alias = value
        change(alias)
        assert value == expected == echo(alias)

    return check


OF_ARRAYS = (
    "array",
    "repr",
    "serialization",
    "array_concat",
    "array_contains",
    "array_bool",
    "seq_cross_conv_python_list_to_array",
    "seq_cross_conv_python_list_to_list",
    "seq_cross_conv_list_to_array_int",
    "seq_cross_conv_array_to_list_int",
    "seq_cross_conv_list_to_array_str",
    "seq_cross_conv_array_to_list_str",
    "seq_cross_conv_empty_list_to_array",
    "seq_cross_conv_empty_array_to_list",
)
OF_MAPS = (
    "array_of_array_map",
    "int_map",
    "str_map",
    "large_map_get",
    "map_bool",
    *(
        f"map_cross_conv_{x}"
        for x in (
            "dict_to_map_str_int",
            "map_to_dict_str_int",
            "dict_to_map_str_str",
            "map_to_dict_str_str",
            "empty_dict_to_map",
            "empty_map_to_dict",
        )
    ),
)
OF_LISTS: dict[str, Callable[[], None]] = {
    "basic": changed(tvm_ffi.List, [1, 2, 3], lambda x: x[0], lambda x: x[-1], lambda x: x[1:]),
    "mutation_methods": changed(
        tvm_ffi.List,
        [1, 2],
        lambda x: x.append(3),
        lambda x: x.insert(1, 9),
        lambda x: x.extend([4, 5]),
        lambda x: x.pop(),
        lambda x: x.pop(0),
        lambda x: x.remove(9),
        lambda x: x.clear(),
    ),
    "setitem_and_delitem": changed(
        tvm_ffi.List,
        [1, 2, 3, 4],
        lambda x: x.__setitem__(-1, "last"),
        lambda x: x.__delitem__(1),
    ),
    "slice_assignment_and_delete": changed(
        tvm_ffi.List,
        [0, 1, 2, 3, 4, 5],
        lambda x: x.__setitem__(slice(1, 3), [8, 9, 10]),
        lambda x: x.__setitem__(slice(0, 6, 2), ["a", "b", "c"]),
        lambda x: x.__delitem__(slice(1, 4)),
    ),
    "slice_edge_cases": changed(
        tvm_ffi.List,
        [0, 1, 2],
        lambda x: x.__setitem__(slice(2, 0), [7]),
        lambda x: x[5:],
        lambda x: x[::-1],
        lambda x: x.__delitem__(slice(9, 20)),
    ),
    "contains_bool_repr_and_concat": changed(
        tvm_ffi.List,
        [1, 2],
        lambda x: (1 in x, 5 in x),
        lambda x: x.__add__([3]),
        lambda x: [0, *x],
    ),
    "insert_index_normalization": changed(
        tvm_ffi.List, [1, 2], lambda x: x.insert(-100, 0), lambda x: x.insert(100, 3)
    ),
    "error_cases": wrong_uses(
        lambda: tvm_ffi.List([1])[1],
        lambda: tvm_ffi.List([]).pop(),
        lambda: tvm_ffi.List([1]).remove(2),
        lambda: tvm_ffi.List([1, 2, 3]).__setitem__(slice(0, 3, 2), [1]),
    ),
    "pickle_roundtrip": changed(tvm_ffi.List, [1, "a", [2]], lambda x: x[2][0]),
    "reverse": changed(tvm_ffi.List, [1, 2, 3], lambda x: x.reverse()),
    "self_aliasing_slice_assignment": changed(
        tvm_ffi.List, [1, 2, 3], lambda x: x.__setitem__(slice(1, 2), x)
    ),
}
OF_DICTS: dict[str, Callable[[], None]] = {
    "basic": changed(tvm_ffi.Dict, {"a": 1, "b": 2}, len, lambda x: x["a"], lambda x: "c" in x),
    "setitem_delitem": changed(
        tvm_ffi.Dict, {"a": 1}, lambda x: x.__setitem__("b", 2), lambda x: x.__delitem__("a")
    ),
    "keys_values_items": changed(
        tvm_ffi.Dict, {"a": 1, 2: "b"}, lambda x: [list(x.keys()), [*x.values()], [*x.items()]]
    ),
    "get_with_default": changed(tvm_ffi.Dict, {"a": 1}, lambda x: [x.get("a"), x.get("b", 3)]),
    "pop": changed(tvm_ffi.Dict, {"a": 1, "b": 2}, lambda x: x.pop("a"), lambda x: x.pop("z", 7)),
    "clear": changed(tvm_ffi.Dict, {"a": 1}, lambda x: x.clear()),
    "update": changed(tvm_ffi.Dict, {"a": 1}, lambda x: x.update({"a": 2, "b": 3})),
    "iteration": changed(tvm_ffi.Dict, {"b": 1, "a": 2}, list),
    "iteration_many_entries": changed(tvm_ffi.Dict, {f"k{i}": i for i in range(500)}, list),
    "iteration_after_mutation": changed(
        tvm_ffi.Dict,
        {i: i for i in range(9)},
        lambda x: x.pop(4),
        lambda x: x.__setitem__(4, "again"),
        list,
    ),
    "repr": changed(tvm_ffi.Dict, {"a": [1, "x"]}, str),
    "bool": changed(tvm_ffi.Dict, {}, bool, lambda x: x.update(a=1), bool),
    "empty_init": changed(lambda _: tvm_ffi.Dict(), {}, len),
    "pickle_roundtrip": changed(tvm_ffi.Dict, {"a": 1, "b": [2]}, len),
}
CONTAINER = [
    *(Case(f"test_container.test_{x}", arrays) for x in OF_ARRAYS),
    Case("test_container.test_bad_constructor_init_state", refused_containers),
    Case("test_container.test_array_map_of_opaque_object", opaque_items),
    Case("test_container.test_missing_object", missing_object),
    *(Case(f"test_container.test_{x}", maps) for x in OF_MAPS),
    Case("test_container.test_key_not_found", missing_key),
    *(Case(f"test_container.test_list_{x}", check) for x, check in OF_LISTS.items()),
    *(Case(f"test_container.test_dict_{x}", check) for x, check in OF_DICTS.items()),
    Case(
        "test_container.test_list_is_mutable_and_shared",
        shared(tvm_ffi.List([1, 2]), lambda x: (x.append(3), x.__setitem__(0, 10)), [10, 2, 3]),
    ),
    Case(
        "test_container.test_dict_shared_mutation",
        shared(tvm_ffi.Dict({"a": 1}), lambda x: x.update(b=2), {"a": 1, "b": 2}),
    ),
]
