"""The order of modules: TVM's where TVM can write the tree, topological where it cannot."""

from __future__ import annotations

import random

import pytest

from mblob.format.import_tree import find_cycle, order_of, topological_order
from mblob.module import Module


def is_dso(module: Module) -> bool:
    return module.type_key in ("c", "llvm")


def build(imports: dict[str, list[str]], kinds: dict[str, str] | None = None) -> dict[str, Module]:
    """Modules by name; a name starting with "h" is host code, others have their name as type
    key."""
    modules = {
        n: Module((kinds or {}).get(n) or ("llvm" if n.startswith("h") else n)) for n in imports
    }
    for name, children in imports.items():
        for child in children:
            modules[name].import_module(modules[child])
    return modules


def names(modules: dict[str, Module], groups: list[list[Module]]) -> list[list[str]]:
    by_id = {id(m): n for n, m in modules.items()}
    return [[by_id[id(m)] for m in g] for g in groups]


def test_a_root_with_three_imports_is_stored_last_import_first() -> None:
    """classic.md 2.3: groups root,C,B,A and children 1,2,3."""
    m = build({"A": [], "B": [], "C": [], "h": ["A", "B", "C"]})
    groups, imports = order_of(m["h"], is_dso)
    assert names(m, groups) == [["h"], ["C"], ["B"], ["A"]]
    assert imports == [(1, 2, 3), (), (), ()]


def test_the_byoc_example_of_tvm() -> None:
    m = build(
        {
            "cuda": [],
            "dnnl1": [],
            "dnnl2": [],
            "hcsrc": [],
            "hllvm": ["cuda"],
            "const_loader": ["hllvm", "dnnl1", "hcsrc", "dnnl2"],
            "factory": ["const_loader"],
        }
    )
    ordered, imports = order_of(m["factory"], is_dso)
    groups = names(m, ordered)
    assert groups[:4] == [["factory"], ["const_loader"], ["dnnl2"], ["dnnl1"]]
    assert sorted(groups[4]) == ["hcsrc", "hllvm"]
    assert groups[5] == ["cuda"]
    assert imports == [(1,), (2, 3, 4), (), (), (5,), ()]


def test_a_diamond_which_tvm_refuses_is_written_in_topological_order() -> None:
    m = build({"d": [], "b": ["d"], "c": ["d"], "a": ["b", "c"]})
    groups, imports = order_of(m["a"], is_dso)
    place = {n: i for i, (n,) in enumerate(names(m, groups))}
    assert place["a"] == 0
    for i in range(4):
        assert all(c > i for c in imports[i])
    assert [len(row) for row in imports] == [2, 1, 1, 0]


def test_host_modules_that_would_import_themselves_through_another_are_refused_by_name() -> None:
    m = build({"h2": [], "mid": ["h2"], "h1": ["mid"]})
    with pytest.raises(ValueError, match=r"circle: .*mid.*host modules count as one"):
        order_of(m["h1"], is_dso)


def test_a_true_cycle_cannot_be_built() -> None:
    m = build({"b": [], "a": ["b"]})
    with pytest.raises(ValueError, match="cycle"):
        m["b"].import_module(m["a"])
    with pytest.raises(ValueError, match="cycle"):
        m["a"].import_module(m["a"])


@pytest.mark.slow
def test_a_chain_of_100000_modules_needs_no_stack() -> None:
    top = root = Module("root")
    for _ in range(100_000):
        below = Module("x")
        top._node.imports.append(
            below
        )  # the public call checks for cycles, which is quadratic here
        top = below
    groups, imports = order_of(root, is_dso)
    assert len(groups) == 100_001
    assert imports == [*((i,) for i in range(1, 100_001)), ()]


@pytest.mark.parametrize("seed", range(60))
def test_any_dag_comes_out_with_importers_first_and_every_edge_kept(seed: int) -> None:
    rng = random.Random(seed)
    n = rng.randint(1, 12)
    modules = [Module(f"k{i}") for i in range(n)]
    edges = set()
    for i in range(n - 1):
        targets = {i + 1, *rng.sample(range(i + 1, n), rng.randint(0, n - 1 - i))}
        for c in sorted(targets, key=lambda _: rng.random()):
            modules[i].import_module(modules[c])
            edges.add((f"k{i}", f"k{c}"))
    groups, imports = order_of(modules[0], is_dso)
    keys = [g[0].type_key for g in groups]
    assert sorted(keys) == sorted(m.type_key for m in modules)
    found = {(keys[i], keys[c]) for i in range(n) for c in imports[i] if c > i}
    assert found == edges


def test_find_cycle_names_the_modules_on_it() -> None:
    assert find_cycle([[1], [2], [1]]) == [1, 2, 1]
    assert find_cycle([[1], [2], []]) == []
    assert find_cycle([[0]]) == [0, 0]


def test_a_topological_order_takes_the_lowest_that_is_ready_and_leaves_cycles_out() -> None:
    assert topological_order([[3, 1], [2], [], [2]]) == [0, 1, 3, 2]
    assert topological_order([[2], [0], []]) == [1, 0, 2]
    assert topological_order([[1], [2], [1], []]) == [0, 3]
