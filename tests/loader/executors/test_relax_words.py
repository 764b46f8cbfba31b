"""The texts of errors of arguments of Relax programs."""

from __future__ import annotations

import numpy as np
import pytest

import mblob
from tests.loader.executors.relax_programs import VOID, Function, Program, c, call, i, r, ret

pytestmark = pytest.mark.own_process


def test_a_failed_check_of_an_argument_is_told_in_plain_words() -> None:
    """With what TVM says behind it."""
    rule = 'ErrorContext(fn=main, loc=param[1], param=w, annotation=R.Tensor((n, 3), dtype="float32")) '
    match = [r(1), VOID, i(2), i(2), i(0), i(0), i(3), c(0)]
    functions = [
        Function("vm.builtin.check_tensor_info"),
        Function("vm.builtin.match_shape"),
        Function("vm.builtin.check_tuple_info"),
        Function("vm.builtin.check_shape_info"),
        Function("vm.builtin.check_prim_value_info"),
        Function("main", [call(0, [r(1), i(2), c(1), c(0)]), call(1, match), ret(0)], ["x", "w"]),
        Function("tuple", [call(2, [r(0), i(2), c(2)]), ret(0)], ["t"]),
        Function("shape", [call(3, [r(0), i(2), c(3)]), ret(0)], ["s"]),
        Function("number", [call(4, [r(0), c(1), c(4)]), ret(0)], ["i"]),
    ]
    others = [
        f"ErrorContext(fn={name}, loc=param[0], param={p}, annotation={annotation}) "
        for name, p, annotation in (
            ("tuple", "t", "T.Tuple(R.Any, R.Any)"),
            ("shape", "s", "R.Shape([m, n])"),
            ("number", "i", "T.float32"),
        )
    ]
    program = Program(functions, [rule, np.dtype("float32"), *others])
    code = mblob.get_global_func("mblob.RelaxExecutable")(program.payload())
    vm = mblob.relax.VirtualMachine(code, mblob.cpu(0))
    x, of_w = np.ones((2, 3), "float32"), "argument 1 of main, 'w' (float32[n, 3]): "
    said = [
        ("main", (x, (x, x)), f"TypeError: {of_w}expected a tensor, found a tuple or list; TVM says: main, inst"),
        ("main", (x, x[0]), f"ValueError: {of_w}expected 2 dimensions, found 1; TVM says: "),
        ("main", (x, x.astype("int8")), f"ValueError: {of_w}expected a tensor of float32, found int8; TVM"),
        ("main", (x, x[:, :2].copy()), f"RuntimeError: {of_w}expected 3 in dimension 1, found 2; TVM says: "),
        ("tuple", (x,), "TypeError: argument 0 of tuple, 't' (Tuple(Any, Any)): expected a tuple, found a tensor; "),
        ("tuple", ((1,),), "ValueError: argument 0 of tuple, 't' (Tuple(Any, Any)): expected a tuple of 2, found 1;"),
        ("shape", ("s",), "TypeError: argument 0 of shape, 's' (Shape([m, n])): expected a Shape, found a str; TVM"),
        ("number", (x,), "TypeError: argument 0 of number, 'i' (float32): expected a number (float32), found a te"),
    ]  # fmt: skip
    for name, args, text in said:
        with pytest.raises(mblob.KernelError) as error:
            vm[name](*args)
        assert str(error.value).startswith(text)
        assert "ErrorContext(fn=" in str(error.value)  # what programs for TVM may look for
