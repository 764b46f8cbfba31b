"""Pattern tables: which operators become a composite, and which pattern wins."""

from __future__ import annotations

import dataclasses
import functools
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mblob
from mblob import byoc
from mblob.packager.byoc.build import as_records
from mblob.packager.byoc.patterns import (
    DEEPEST,
    MOST_ALTERNATIVES,
    is_constant,
    is_op,
    wildcard,
)
from mblob.packager.errors import BuildError
from tests.packager import graphs
from tests.packager.byoc.partitions import GENERATORS, array, check, names, regions_of
from tests.packager.graphs import Builder, takes

# Their operators are plain C functions, which mblob's executor can call.
pytestmark = pytest.mark.filterwarnings("ignore::mblob.errors.PortabilityWarning")

Table = list[Any]
ADD, TURN = is_op("add")(wildcard(), wildcard()), is_op("turn")


def composites(graph: Any, table: Any, **params: Any) -> list[tuple[str, tuple[int, ...]]]:
    """Name and nodes of each composite of a table."""
    keys = byoc.annotate(byoc.read_graph(graph), {"one": table}, as_records(params))
    assert sorted(keys) == sorted(i for match in keys.composites for i in match.nodes)
    return [(match.name, match.nodes) for match in keys.composites]


def chain(*functions: str, heads: tuple[int, ...] = ()) -> Any:
    """x, and the operators one behind the other; both inputs of `add` and `mix` are the same."""
    b = Builder()
    value = b.input("x")
    for function in functions:
        value = b.call(function, *[value] * graphs.ARITY[function][0])
    return b.json(value, *([i, 0] for i in heads))


# -- what a pattern matches ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (is_op("bump")(is_op("turn")(wildcard())), [(1, 2)]),
        (is_op("bump")(is_op("turn", "bump")), [(1, 2), (3, 4)]),
        (is_op("bump")(is_op("bump")), [(3, 4)]),
        (is_op("bump"), [(2,), (3,), (4,)]),
        (is_op("bump")(is_op("turn")(is_constant())), []),
        (is_op("turn")(wildcard()).optional(is_op("bump")), [(1, 2)]),
        (is_op("absent")(wildcard()) | is_op("bump")(is_op("bump")), [(3, 4)]),
        ((is_op("absent") | is_op("bump"))(is_op("turn")), [(1, 2)]),
        ((is_op("turn") | is_op("absent") | is_op("bump"))(is_op("bump")(wildcard())), [(3, 4)]),
        (wildcard()(is_op("turn")(wildcard())), [(1, 2)]),
        ((is_op("absent") | wildcard())(is_op("turn")), [(1, 2)]),
        (is_op("turn").optional(is_op("absent") | is_op("bump")), [(1, 2)]),
        ((is_op("turn") | is_op("bump")).has_attr({"axis": 1}), [(1,)]),
        (is_op("turn").has_attr({"axis": 1, "layout": "NCHW"}), [(1,)]),
        (is_op("turn").has_attr({"pads": [1, 2], "keep": True, "other": None}), [(1,)]),
        (is_op("turn").has_attr({"axis": 2}), []),
        (is_op("turn").has_attr({"axis": None}), []),
        (is_op("turn").has_attr({"other": 1}), []),
        (is_op("turn").has_attr({"layout": 1}), []),
        (is_op("turn").has_attr({"layout": [1]}), []),
        (is_op("turn").has_attr({"layout": True}), []),
        (is_op("turn")(wildcard(), wildcard()), []),
    ],
)
def test_what_a_pattern_matches(pattern: Any, found: list[tuple[int, ...]]) -> None:
    b = Builder()
    value = b.call("turn", b.input("x"), axis="1", layout='"NCHW"', pads="[1, 2]", keep="1")
    for _ in range(3):
        value = b.call("bump", value)
    assert [nodes for _, nodes in composites(b.json(value), [("c", pattern)])] == found


def test_a_pattern_in_two_places_is_one_value() -> None:
    """x * f(x), as swish is written; and the same where it is either of two."""
    for twice in (is_op("turn")(wildcard()), is_op("turn") | is_op("bump")):
        swish = is_op("add")(twice, is_op("bump")(twice))
        b = Builder()
        t, u = b.call("turn", b.input("x")), b.call("turn", b.input("y"))
        graph = b.json(b.call("add", t, b.call("bump", t)))
        assert composites(graph, [("swish", swish)]) == [("swish", (1, 4, 5))]
        b = Builder()
        t, u = b.call("turn", b.input("x")), b.call("turn", b.input("y"))
        graph = b.json(b.call("add", t, b.call("bump", u)))
        assert composites(graph, [("swish", swish)]) == []


def test_a_wildcard_is_a_value_from_outside() -> None:
    """add(t, t): the second t is made inside of what the first one makes of the composite."""
    pattern = is_op("add")(is_op("turn")(wildcard()), wildcard())
    assert composites(chain("turn", "add"), [("c", pattern)]) == []
    both = is_op("add")(is_op("turn"), is_op("turn"))
    assert composites(chain("turn", "add"), [("c", both)]) == [("c", (1, 2))]


def test_constants() -> None:
    b = Builder()
    x, w = b.input("x"), b.input("w")
    graph = b.json(b.call("add", b.call("add", x, w), x))
    pattern = is_op("add")(wildcard(), is_constant())
    assert composites(graph, [("c", pattern)], w=array(1)) == [("c", (2,))]
    assert composites(graph, [("c", pattern)]) == []


def test_an_operator_of_several_results_is_the_last_of_a_composite() -> None:
    b = Builder()
    low, high = b.call("split", b.call("turn", b.input("x")))
    graph = b.json(b.call("bump", low), high)
    table = [("in", is_op("bump")(is_op("split"))), ("end", is_op("split")(is_op("turn")))]
    assert composites(graph, table) == [("end", (1, 2))]


# -- which pattern wins ----------------------------------------------------------------------------


def test_the_first_pattern_of_the_table_wins_then_the_last_operator() -> None:
    graph = chain("turn", "turn", "turn", "bump")
    two, three = is_op("turn")(TURN), is_op("turn")(is_op("turn")(TURN))
    assert composites(graph, [("two", two), ("three", three)]) == [("two", (2, 3))]
    assert composites(graph, [("three", three), ("two", two)]) == [("three", (1, 2, 3))]
    end = is_op("bump")(TURN)
    assert composites(graph, [("end", end), ("two", two)]) == [("two", (1, 2)), ("end", (3, 4))]
    assert composites(graph, [("c", TURN.optional(is_op("bump")))]) == [
        ("c", (1,)),
        ("c", (2,)),
        ("c", (3, 4)),
    ]


def test_a_check_that_refuses_leaves_the_operators_to_the_next() -> None:
    graph = chain("turn", "turn", "turn")
    two = is_op("turn")(TURN)
    asked: list[list[str]] = []

    def behind(composite: byoc.Composite) -> bool:
        asked.append([o.name for o in composite.operators])
        assert composite.op == "two"
        return composite.operators[0].name != "turn2"

    table = [("two", two, behind), ("one", TURN)]
    assert composites(graph, table) == [("two", (1, 2)), ("one", (3,))]
    assert asked == [["turn2", "turn3"], ["turn1", "turn2"]]
    either = is_op("turn")(TURN) | TURN
    table = [("e", either, lambda c: len(c.operators) == 1)]
    assert [nodes for _, nodes in composites(graph, table)] == [(1,), (2,), (3,)]


def test_the_first_target_wins() -> None:
    graph = byoc.read_graph(chain("turn", "bump", "turn"))
    table = [("c", is_op("bump")(TURN)), ("t", TURN)]
    keys = byoc.annotate(graph, {"one": takes("bump"), "two": table})
    assert dict(keys) == {1: "two", 2: "one", 3: "two"}
    assert keys.unmatched == [("two", "c")]


def test_patterns_that_match_nothing_change_nothing() -> None:
    keys = byoc.annotate(byoc.read_graph(chain("turn")), {"one": [("a", ADD), ("b", is_op("x"))]})
    assert (dict(keys), keys.composites) == ({}, [])
    assert keys.unmatched == [("one", "a"), ("one", "b")]


# -- values from inside that are used outside ------------------------------------------------------


def test_a_value_from_inside_that_is_used_outside_stays_outside() -> None:
    """As a result, by another operator, and by what must run behind an operator."""
    pattern = is_op("bump")(TURN)
    assert composites(chain("turn", "bump"), [("c", pattern)]) == [("c", (1, 2))]
    assert composites(chain("turn", "bump", heads=(1,)), [("c", pattern)]) == []
    b = Builder()
    t = b.call("turn", b.input("x"))
    graph = b.json(b.call("bump", t), b.call("bump", t))
    assert composites(graph, [("c", pattern)]) == []
    b = Builder()
    x = b.input("x")
    t = b.call("turn", x)
    other = b.call("turn", x)
    b.nodes[other[0]]["control_deps"] = [t[0]]
    graph = b.json(b.call("bump", t), other)
    assert composites(graph, [("c", pattern)]) == []


def test_no_path_leaves_a_composite_and_comes_back() -> None:
    """add(t, bump(t)): the pattern leaves `bump` out, which would run in the middle."""
    pattern = is_op("add")(TURN, wildcard())
    b = Builder()
    t = b.call("turn", b.input("x"))
    graph = b.json(b.call("add", t, b.call("bump", t)))
    assert composites(graph, [("c", pattern)]) == []


def test_what_stays_in_the_graph_is_in_no_composite() -> None:
    b = Builder()
    x = b.input("x")
    b.call("turn", b.call("turn", x))  # nobody uses it
    state = b.call("bump", x, share=x)
    graph = b.json(b.call("turn", state))
    table = [("c", is_op("turn")(is_op("bump"))), ("t", is_op("turn")(TURN))]
    assert composites(graph, table) == []


# -- regions ---------------------------------------------------------------------------------------


def test_a_composite_is_in_one_region_as_a_whole() -> None:
    """Without it, `turn` and `mix` are one region, and `add`, which waits for `bump`, another."""
    b = Builder()
    x = b.input("x")
    t = b.call("turn", x)
    m = b.call("mix", t, x)
    graph = b.json(b.call("add", m, b.call("bump", t)))
    table = [("c", is_op("add")(is_op("mix"), wildcard())), ("t", TURN)]
    parts = regions_of(graph, {"one": table})
    assert names(parts) == [["turn"], ["mix", "add"]]
    assert names(regions_of(graph, {"one": takes("turn", "mix", "add")})) == [
        ["turn", "mix"],
        ["add"],
    ]
    (call,) = parts.regions[1].calls
    assert isinstance(call, byoc.Composite)
    assert (call.op, call.name) == ("c", "add4")
    assert [t.name for t in call.inputs] == ["turn1", "x", "bump3"]
    assert [*call.outputs] == parts.regions[1].outputs
    assert repr(call) == "<Composite c of mix2, add4>"


def test_reshapes_in_a_composite_stay_in_it() -> None:
    b = Builder()
    x = b.call("turn", b.input("x"))
    graph = b.json(b.call("__nop", x, share=x))
    assert names(regions_of(graph, {"one": [("c", is_op("__nop")(TURN))]})) == [["turn", "__nop"]]
    assert names(regions_of(graph, {"one": takes("turn", "__nop")})) == [["turn"]]


def test_a_registered_table_makes_composites_of_what_a_predicate_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mblob.packager.byoc.patterns._tables", {})
    pair = is_op("bump")(TURN)
    graph = chain("turn", "bump", "turn", "bump", "turn")

    @byoc.register_pattern_table("one")
    def table() -> Table:
        return [("pair", pair)]

    def calls(targets: Any) -> list[list[str]]:
        return [[c.op for c in region.calls] for region in regions_of(graph, targets).regions]

    assert calls({"one": lambda o: o.name != "bump4"}) == [["pair", "turn"], ["turn"]]
    assert calls(["one"]) == calls("one") == [["pair", "pair"]]
    byoc.register_pattern_table("one", takes("turn", "bump"), override=True)(table)
    assert calls(["one"]) == [["pair", "pair", "turn"]]
    assert calls({"two": takes("turn", "bump")}) == [["turn", "bump", "turn", "bump", "turn"]]
    with pytest.raises(BuildError, match="'one' has a table; pass override=True"):
        byoc.register_pattern_table("one")(lambda: [])
    with pytest.raises(
        BuildError,
        match=r"no pattern table is registered for 'on' \(there are: one\); .*; did you mean 'one'\?$",
    ):
        calls(["on"])


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(24))
def test_random_graphs_give_the_same_numbers(
    seed: int, host: Callable[[], mblob.Module], tmp_path: Path
) -> None:
    graph, inputs = graphs.random_graph(2000 + seed, 6 + 3 * seed)
    any_ = wildcard()
    mix = is_op("mix")(any_, wildcard())
    table = [
        ("deep", is_op("add")(mix | TURN, is_op("turn", "mix", "add"))),
        ("pair", is_op("turn")(mix)),
        ("reshaped", is_op("add", "mix")(is_op("__nop"), wildcard())),
        ("alone", mix.optional(TURN) | is_op("add", "turn", "split")),
    ]

    def some(composite: byoc.Composite) -> bool:
        return zlib.crc32(f"{seed} {composite.name}".encode()) % 4 > 0

    checked = [(name, pattern, some) for name, pattern in table]
    keys = byoc.annotate(byoc.read_graph(graph), {"one": checked})
    data = {name: array(i) for i, name in enumerate(inputs)}
    params = {name: data[name] for name in inputs[1:]} if seed % 2 else {}

    def codegen(region: byoc.Region) -> mblob.Module:
        """Of the calls in their order, taken apart again."""
        flat = [o for c in region.calls for o in getattr(c, "operators", (c,))]
        assert sorted(map(id, flat)) == sorted(map(id, region.operators))
        return graphs.interpret_codegen(dataclasses.replace(region, operators=flat))

    module = mblob.partition_graph(
        graph, params, host(), {"one": checked}, codegens={"one": codegen}
    )
    check(graph, module, tmp_path / "x.so", data)
    assert len(keys.composites) > seed // 4


def test_matching_takes_linear_time(count_calls: Callable[[Callable[[], object]], int]) -> None:
    def annotate(size: int) -> Callable[[], object]:
        graph = byoc.read_graph(chain(*["turn", "bump"] * size))
        table = [("c", is_op("bump")(TURN))]
        return lambda: byoc.annotate(graph, {"one": table})

    small, large = count_calls(annotate(200)), count_calls(annotate(400))
    assert large < 2.2 * small


# -- bad tables ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([("a",)], r"the pattern table of 'one': row 0: expected \(name, pattern\) or"),
        ([ADD], "row 0: expected"),
        ([("a", ADD), ("", ADD)], "row 1: expected a name, found ''"),
        ([(b"a", ADD)], "row 0: expected a name, found b'a'"),
        ([("a", "add")], r"a: expected a pattern of operators: is_op\(...\)"),
        ([("a", wildcard())], r"a: expected a pattern of operators: is_op\(...\)"),
        ([("a", ADD, "no")], "a: expected a function as check, found str"),
        ([("a", ADD, TURN)], "a: expected a function as check, found OpPattern"),
    ],
)
def test_tables_that_are_none(table: Any, message: str) -> None:
    with pytest.raises(BuildError, match=message):
        composites(chain("turn"), table)


def test_tables_of_a_function_are_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a generator, which may have no end."""
    monkeypatch.setattr("mblob.packager.byoc.patterns._tables", {})

    @byoc.register_pattern_table("one")  # type: ignore[arg-type]
    def table() -> Any:
        while True:
            yield "a", ADD

    with pytest.raises(BuildError, match="the pattern table of 'one': expected a list, found gen"):
        byoc.annotate(byoc.read_graph(chain("turn")), ["one"])
    for wrong in (
        lambda: byoc.register_pattern_table("k")([]),
        lambda: byoc.register_pattern_table("k", 1),
    ):  # type: ignore[arg-type,type-var]
        with pytest.raises(BuildError, match=r"register_pattern_table: .*expected a "):
            wrong()
    with pytest.raises(BuildError, match="'library' is the format's own"):
        byoc.register_pattern_table("library")
    for targets in (1, {"one": 1}, {"one": {}}, {"one": TURN}, [1]):
        with pytest.raises(BuildError, match=r"partition_graph: .*expected"):
            byoc.annotate(byoc.read_graph(chain("turn")), targets)  # type: ignore[arg-type]


@pytest.mark.parametrize("targets", [["one"], {"one": takes("turn")}])
def test_a_table_whose_function_fails_is_named(
    targets: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mblob.packager.byoc.patterns._tables", {})
    byoc.register_pattern_table("one")(lambda: [("a", TURN)][1:][0])
    message = "^the pattern table of 'one' failed: IndexError: list index"
    with pytest.raises(BuildError, match=message) as caught:
        byoc.annotate(byoc.read_graph(chain("turn")), targets)
    assert isinstance(caught.value.__cause__, IndexError)
    byoc.register_pattern_table("one", override=True)(lambda: [("a", TURN("x"))])  # type: ignore[arg-type]
    with pytest.raises(BuildError, match=r"^the pattern table of 'one': is_op\('turn'\): expected"):
        byoc.annotate(byoc.read_graph(chain("turn")), targets)


def test_alternatives_of_many_and_of_themselves_take_inputs() -> None:
    several = functools.reduce(lambda a, b: a | b, [is_op(f"op{i}") for i in range(1200)])
    pattern = (several | is_op("bump"))(TURN)
    assert composites(chain("turn", "bump"), [("c", pattern)]) == [("c", (1, 2))]
    twice: Any = is_op("bump")
    for _ in range(60):
        twice = twice | twice
    assert composites(chain("turn", "bump"), [("c", twice(TURN))]) == [("c", (1, 2))]


def test_patterns_that_are_none() -> None:
    for make, message in (
        (lambda: is_op(""), "is_op: expected the name of an operator, found ''"),
        (lambda: is_op(ADD), "is_op: expected the name of an operator, found "),
        (
            lambda: is_op("a")("x"),
            r"is_op\('a'\): expected patterns such as wildcard\(\), found str",
        ),
        (lambda: ADD | None, r"\|: expected patterns such as wildcard\(\), found NoneType"),
        (lambda: "a" | ADD, r"\|: expected patterns such as wildcard\(\), found str"),
        (lambda: is_constant()(wildcard()), r"is_constant\(\) is no operator, so it has no inputs"),
        (lambda: ADD(wildcard()), r"is_op\('add'\): it has inputs already"),
        (lambda: (TURN | ADD)(wildcard()), r"is_op\('add'\): it has inputs already"),
        (lambda: (TURN | TURN)(1), r"is_op\('turn'\): expected patterns .*, found int"),
        (lambda: wildcard()(1), r"wildcard\(\)\(...\): expected patterns .*, found int"),
        (lambda: TURN.optional("bump"), r"optional: expected an operator .*, found str"),
        (lambda: TURN.optional(lambda _: None), "optional: expected patterns .*, found NoneType"),
        (lambda: wildcard().has_attr({"a": 1}), r"has_attr: only is_op\(...\) has attributes"),
        (lambda: is_op("a").has_attr({5: 1}), "has_attr: expected names as str, found 5"),
        (lambda: is_op("a").has_attr("b"), "has_attr: expected a dict of attributes by name"),
        (
            lambda: is_op("a").has_attr({"b": {}}),
            "has_attr: b: expected text, a number, numbers or",
        ),
    ):
        with pytest.raises(BuildError, match=message):
            make()  # type: ignore[no-untyped-call]


def test_patterns_cannot_contain_themselves() -> None:
    pattern = is_op("turn")(wildcard())
    with pytest.raises(dataclasses.FrozenInstanceError):
        pattern.inputs = (pattern,)  # type: ignore[misc]
    with pytest.raises(BuildError, match=f"'turn'.*: more than {DEEPEST} operators above one"):
        for _ in range(DEEPEST):
            pattern = is_op("turn")(pattern)


def test_a_pattern_of_too_many_alternatives_is_an_error_and_no_endless_search() -> None:
    pattern = is_op("turn")(wildcard())
    for _ in range(40):
        pattern = is_op("turn")(pattern) | is_op("turn")(pattern)  # type: ignore[assignment]
    with pytest.raises(BuildError, match="'one': c: more than 10000 alternatives; write fewer"):
        composites(chain(*["turn"] * 60), [("c", pattern, lambda _: False)])


def test_a_pattern_may_have_many_alternatives() -> None:
    several = functools.reduce(lambda a, b: a | b, [is_op(f"op{i}") for i in range(1200)]) | TURN
    assert composites(chain("turn", "bump"), [("c", several)]) == [("c", (1,))]
    assert composites(chain("turn", "bump"), [("c", is_op("bump")(several))]) == [("c", (1, 2))]
    other = functools.reduce(lambda a, b: b | a, [is_op(f"op{i}") for i in range(1200)])
    assert composites(chain("turn", "bump"), [("c", TURN | other)]) == [("c", (1,))]


def test_too_many_alternatives_are_one_error() -> None:
    with pytest.raises(
        BuildError, match=f"^\\|: more than {MOST_ALTERNATIVES} alternatives; is_op"
    ):
        functools.reduce(lambda a, b: a | b, [TURN] * (MOST_ALTERNATIVES + 2))


def test_alternatives_of_the_last_operator_are_counted() -> None:
    twice: Any = is_op("absent")
    for _ in range(60):
        twice = twice | twice
    assert twice.depth == 1
    with pytest.raises(BuildError, match="'one': c: more than 10000 alternatives; write fewer"):
        composites(chain("turn"), [("c", twice)])


def test_an_operator_may_have_many_inputs() -> None:
    b = Builder()
    x = b.input("x")
    graph = b.json(b.call("concatenate", *[x] * 1500))
    each = is_op("concatenate")(*[wildcard() for _ in range(1500)])
    assert composites(graph, [("c", each)]) == [("c", (1,))]


def test_alternatives_in_two_places_stand_for_the_same_value() -> None:
    b = Builder()
    x, y = b.input("x"), b.input("y")
    turned = b.call("turn", x), b.call("turn", y)
    either = TURN(wildcard()) | is_op("absent")
    pattern = is_op("add")(either | wildcard(), either)
    assert composites(b.json(b.call("add", turned[0], turned[0])), [("c", pattern)]) == [
        ("c", (2, 4))
    ]
    assert composites(b.json(b.call("add", *turned)), [("c", pattern)]) == [("c", (3, 5))]


def test_a_check_that_fails_is_named_with_the_node() -> None:
    def divides(composite: byoc.Composite) -> bool:
        return bool(1 // 0)

    where = r"^the check of 'c' in the pattern table of 'one', for node 'bump2' \(c\)"
    with pytest.raises(BuildError, match=where + ", failed: ZeroDivisionError") as caught:
        composites(chain("turn", "bump"), [("c", is_op("bump")(TURN), divides)])
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(BuildError, match=where + ": .*no attribute 'axis'"):
        composites(
            chain("turn", "bump"),
            [("c", is_op("bump")(TURN), lambda c: c.operators[0].integer("axis"))],
        )


def test_composites_need_a_code_generator() -> None:
    with pytest.raises(BuildError, match="no code generator is registered for 'nobodys'"):
        mblob.partition_graph(chain("turn"), None, None, {"nobodys": [("t", TURN)]})
    module = mblob.partition_graph(
        chain("turn"), None, None, {"one": [("t", TURN)]}, codegens=GENERATORS
    )
    assert [m.type_key for m in module.imported_modules[0].imported_modules] == ["c", "one"]
