"""The words of C and C++ around types, in the one list that every part of the rewriter reads."""

from __future__ import annotations

# What may stand among the specifiers of a declaration, or behind a star, without being a type.
QUALIFIERS = frozenset((
    "static", "extern", "inline", "register", "const", "volatile", "restrict", "__restrict", "__restrict__",
    "__inline", "__inline__", "__extension__", "_Noreturn", "_Thread_local", "__thread", "thread_local", "constexpr",
    "__const", "__volatile__", "__signed__", "friend", "virtual", "explicit", "mutable", "typename",
))  # fmt: skip
# Words that together name a type of C.
BASE_WORDS = frozenset((
    "void", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "_Bool", "bool", "_Complex",
))  # fmt: skip
# Types under one word whose lanes are none that we follow.
OTHER_TYPES = frozenset((
    "_Float16", "__fp16", "__int128", "wchar_t", "size_t", "ssize_t", "ptrdiff_t", "intptr_t", "uintptr_t",
    "__builtin_va_list", "va_list",
))  # fmt: skip
DEDUCED = frozenset(("auto", "__auto_type"))
# Something in parentheses follows these, and none of it matters here.
ATTRIBUTES = frozenset((
    "__attribute__", "__attribute", "__declspec", "_Alignas", "alignas", "__asm__", "asm", "__asm",
))  # fmt: skip
RECORDS = frozenset(("struct", "union", "enum", "class"))
TYPEOF = frozenset(("typeof", "__typeof__", "__typeof", "decltype", "_Atomic"))
SIZES = frozenset(("sizeof", "_Alignof", "alignof", "__alignof__", "__alignof"))
# A name behind one of these is no name that is being declared.
BEFORE_EXPRESSIONS = frozenset((
    "return", "else", "do", "case", "goto", "new", "delete", "throw", "operator", "co_return", "co_yield", "co_await",
    *SIZES,
))  # fmt: skip
# Attributes that make another type of a type.
STRANGERS = ("vector_size", "__vector_size__", "ext_vector_type", "mode", "__mode__")
