"""The types of C that parameters of Fortran have: most are addresses, which debug information does not show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mblob.binary.debug_sections import DWARFExprParser
from mblob.binary.dwarf_types import (
    CType,
    address_of,
    array_ranges,
    extents,
    name_of,
    referred,
    unnamed,
)

# As what Fortran passes arrays of assumed shape (with a target: `_descriptor`), texts whose length the caller tells
# (with bind(C)), and what is polymorphic.
ARRAY_DESCRIPTOR = CType("descriptor", 0, "array descriptor")
CLASS_DESCRIPTOR = CType("descriptor", 0, "class descriptor")


def passed_as(entries: Sequence[Any], found: CType, pointer_size: int) -> CType:
    """The C type of a Fortran parameter. Its entry has the type alone: arrays and texts are passed
    by their address, and numbers, too, but for those with VALUE. The place of the parameter tells,
    in its entry or in those of the instances of its function."""
    die, _, _ = unnamed(referred(entries[0]))
    if found.text == "void (?)(void)":  # of any types: type(c_funptr)
        return CType("pointer", pointer_size, "void *", CType("void", 0, "void"))
    tag = "" if die is None else die.tag
    target = found
    dims: tuple[int | None, ...] = ()
    if tag == "DW_TAG_array_type":
        target = _descriptor(die, found.target, pointer_size)
        if "DW_AT_data_location" not in die.attributes and found.target:
            target, dims = found.target, tuple(extents(die))
            if target.kind == "pointer" and target.target and target.target.kind == "void":
                target = target.target  # the same
    elif tag == "DW_TAG_structure_type" and not name_of(die):  # types of the source have names
        target = ARRAY_DESCRIPTOR
    elif tag == "DW_TAG_structure_type" and name_of(die).startswith(b"__class_"):
        target = CLASS_DESCRIPTOR
    elif found.kind == "pointer" and found.target is not None and found.target.kind == "void":
        return found  # type(*) and type(c_ptr) look alike
    elif tag != "DW_TAG_string_type":
        answers = {_is_passed_by_address(entry) for entry in entries} - {None}
        if len(answers) != 1:
            is_procedure = found.kind == "pointer" and found.target and found.target.kind == "other"
            return (
                found if is_procedure else address_of(found, pointer_size)._replace(kind="either")
            )
        if answers == {False}:
            return found
    return address_of(target, pointer_size)._replace(dims=dims)


def _descriptor(array: Any, element: CType | None, pointer_size: int) -> CType:
    """The descriptor of an array of assumed shape: with its element and dimensions, if their strides lie where
    libgfortran.h (GCC 8 and later) has them: base, offset, type, and the span, by which strides are multiplied, come
    before, and each stride before its bounds."""
    at = 4 * pointer_size + 8
    span = at - pointer_size
    for r in (ranges := [*array_ranges(array)]):
        places = {operands[0] for name, operands in _steps(r, array) if name == "DW_OP_plus_uconst"}
        if places != {at, span}:
            return ARRAY_DESCRIPTOR
        at += 3 * pointer_size
    return ARRAY_DESCRIPTOR._replace(target=element, dims=(None,) * len(ranges))


def _steps(attributes: Any, die: Any) -> Iterable[tuple[str, list[int]]]:
    """The steps that compute the stride of a dimension, with their operands."""
    # 0x51, as releases of pyelftools call it
    stride = attributes.get("DW_AT_stride") or attributes.get("DW_AT_byte_stride")
    code = stride.value if stride is not None and isinstance(stride.value, list) else []
    return ((op.op_name, op.args) for op in DWARFExprParser(die.cu.structs).parse_expr(code))


def _is_passed_by_address(parameter: Any) -> bool | None:
    """True if the caller gives an address, as the place of a parameter tells where the function
    begins; None: it does not tell."""
    place = parameter.attributes.get("DW_AT_location")
    code = () if place is None else place.value
    if not isinstance(code, list):  # an optimizer moves it: a list of places, where it begins first
        lists = parameter.dwarfinfo.location_lists()
        if place is None or lists is None:
            return None
        places = lists.get_location_list_at_offset(place.value, parameter)
        code = next((found.loc_expr for found in places if hasattr(found, "loc_expr")), ())
    steps = [op.op_name for op in DWARFExprParser(parameter.cu.structs).parse_expr(code)]
    if not steps or steps[-1] == "DW_OP_stack_value":
        return None
    if steps[0] == "DW_OP_fbreg":  # a place on the stack, or what it points to
        return steps[-1] == "DW_OP_deref"
    if steps[0].startswith("DW_OP_breg"):  # where a register points to
        return True
    return False if steps[0].startswith("DW_OP_reg") else None
