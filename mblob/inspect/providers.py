"""The symbols that a library leaves undefined, and who provides each: told by the file where it says
so, else by the name."""

from __future__ import annotations

import re
from collections.abc import Collection

from mblob.binary.elf import ElfFile
from mblob.binary.elf_facts import versions
from mblob.binary.elf_records import (
    ET_DYN,
    STB_WEAK,
    STT_FUNC,
    STT_GNU_IFUNC,
    STT_NOTYPE,
    STT_OBJECT,
    STT_TLS,
)
from mblob.binary.image import Image
from mblob.inspect.runtime_names import bound_here
from mblob.named_tuple import NamedTuple

# C99's functions of <math.h>, and a few of glibc's; each has a form with f, and one with l.
_MATH = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim floor fma
fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint
nextafter nexttoward pow remainder remquo rint round roundeven scalbln scalbn sin sincos sinh sqrt tan tanh tgamma trunc
"""
_LIBC = """
abort abs aligned_alloc atexit atof atoi atol bcmp bsearch calloc clock clock_gettime close environ exit fclose fflush
fopen fprintf fputc fputs fread free fseek ftell fwrite getenv getpid gettid gettimeofday labs llabs longjmp malloc
mempcpy mmap munmap nanosleep open perror posix_memalign printf putchar puts qsort rand read realloc sched_yield setjmp
snprintf sprintf srand stderr stdin stdout syscall sysconf time usleep vfprintf vprintf vsnprintf write
"""
_NAMES = {
    **{form: "libm" for name in _MATH.split() for form in (name, f"{name}f", f"{name}l")},
    **dict.fromkeys(_LIBC.split(), "libc"),
}
# The first that fits; each a library, or a family of them, as users look for it. Most files need
# few: each is compiled when it is first asked.
_PATTERNS = (
    (r"TVMFFI", "tvm_ffi"),
    (r"TVM", "TVM runtime"),
    (r"mblob_", "libmblob"),
    (r"_ZN3tvm3ffi|_ZNK3tvm3ffi|_ZT[IVS]N3tvm3ffi", "tvm_ffi"),
    (r"_ZN3tvm|_ZNK3tvm|_ZT[IVS]N3tvm", "TVM runtime"),
    (r"_GLOBAL_OFFSET_TABLE_$|_DYNAMIC$|__dso_handle$|__ehdr_start$|__bss_start$|_e(nd|text|data)$"
     r"|\.TOC\.$|_gp(_disp)?$|__gnu_local_gp$|_SDA2?_BASE_$", "linker"),
    (r"_fltused$|__chkstk$|__security_|_tls_index$|__imp_|__GSHandlerCheck", "MSVC runtime"),
    (r"_ITM_|__gmon_start__$|__cxa_finalize$|__TMC_END__$", "compiler"),
    (r"mem(cpy|move|set|cmp|chr|mem|rchr|ccpy|align)$"
     r"|str(len|n?cmp|n?cpy|n?cat|r?chr|str|n?dup|tok|tok_r|to[lfd]|toll|toull?|told|error|error_r|n?casecmp|nlen)$"
     r"|str(c?spn|pbrk|coll|sep)$|wcs(len|n?cmp|n?cpy|r?chr)$|to(lower|upper)$"
     r"|is(alpha|digit|space|alnum|upper|lower|xdigit|print|punct|cntrl)$"
     r"|__stack_chk|__errno_location$|__assert_fail$|__[a-z]+_chk$|__libc_|__tls_get_addr$|__isoc99_"
     r"|pthread_|sem_|thrd_|mtx_|dl(open|sym|close|error|addr)$", "libc"),
    (r"__(add|sub|mul|div|neg)[sdtx]f3$|__(mul|div)[sdtx]c3$|__powi[sdtx]f2$"
     r"|__(u?(div|mod)(mod)?|mul|ash[lr]|lshr|neg|u?cmp|clz|ctz|ffs|popcount|parity|bswap)[sdt](i|f)[0-9]?$"
     r"|__(fix|float|extend|trunc)[a-z]{4,}[0-9]?$|__gnu_(h2f|f2h|d2h)_(ieee|alternative)$"
     r"|__aeabi_|_Unwind_|__emutls_|__sync_.*_[0-9]+$|__cpu_(model|indicator_init)$", "libgcc or compiler-rt"),
    (r"__atomic_", "libatomic"),
    (r"_Z|__cxa_|__gxx_personality|__cxxabi|__dynamic_cast$", "libstdc++ or libc++"),
    (r"GOMP_|omp_|__kmpc_", "OpenMP runtime"),
    (r"cublas|cudnn|cufft|curand|cusparse|cusolver|nccl|nvrtc|nvJitLink|nvtx", "CUDA libraries"),
    (r"cuda[A-Z]|__cuda", "libcudart"),
    (r"cu[A-Z]", "libcuda (the driver)"),
    (r"hip[A-Z]|__hip|roc[a-z]+_", "HIP runtime"),
    (r"cl[A-Z]", "libOpenCL"),
    (r"vk[A-Z]", "libvulkan"),
    (r"dyld_|__stack_chk_|_tlv_", "libSystem"),
    (r"objc_|_?OBJC_|NS[A-Z]|MTL[A-Z]|CF[A-Z]", "Apple frameworks"),
    (r"dnnl_", "oneDNN"),
    (r"cblas_|[sdcz](gemm|gemv|axpy|dot)_$", "BLAS"),
    (r"Py[A-Z_]|_Py", "Python"),
    (r"_ZGV", "libmvec"),
)  # fmt: skip
# Some of whose functions mblob's runtime has too (`mblob.inspect.runtime_names`).
MAY_BE_OURS = ("TVM runtime", "tvm_ffi", "libgcc or compiler-rt")
# Compiled when it is first asked, as the others.
_FILES = r"(?i:lib)?(?P<name>[A-Za-z0-9+_.-]+?)(?:-[0-9.]+)?\.(?i:so|dll|dylib)"


class Undefined(NamedTuple):
    """A symbol that something else must, or (a weak one) may, provide.

    Attributes:
        weak: it may stay without.
        version: of the symbol, as "GLIBC_2.27"; None without.
        library: file that the library says has it; None if it does not say.
        provider: library or family of libraries that has it, "another part" of what it is linked to
            when the file says no more, None if nobody is known to.
    """

    name: str
    weak: bool
    version: str | None
    library: str | None
    provider: str | None


def provider_of(name: str, library: str | None = None) -> str | None:
    """The provider of `name`, None if it is unknown. The file that a library names for it goes
    before what the name alone tells."""
    if library is not None and library.startswith(
        ("ld-linux", "ld-musl", "ld.so", "ld64.so", "ld-elf")
    ):
        return "dynamic linker"
    if library is not None:
        found = re.match(_FILES, library.rpartition("/")[2])
        return f"lib{found['name']}" if found and ".so" in library else library
    if name in _NAMES:
        return _NAMES[name]
    return next((provider for pattern, provider in _PATTERNS if re.match(pattern, name)), None)


_UNDEFINED_TYPES = (STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_TLS, STT_GNU_IFUNC)


def undefined_symbols(image: Image) -> list[Undefined]:
    """The symbols that something else must, or may, provide, by name.

    Raises:
        FormatError: "elf_dynamic", "elf_truncated": the versions cannot be read.
    """
    known = versions(image) if isinstance(image, ElfFile) else {}
    provided_by: dict[str, str] = getattr(image, "provided_by", {})
    ours: Collection[str] | None = None
    found: dict[str, Undefined] = {}
    for s in image.imports:
        weak = s.binding == STB_WEAK
        if s.type not in _UNDEFINED_TYPES or not s.name or (weak and s.name in found):
            continue
        version, file = known.get(s.offset, (None, provided_by.get(s.name)))
        provider = provider_of(s.name, file)
        if file is None and provider in MAY_BE_OURS:
            ours = _bound_by_mblob(image) if ours is None else ours
            provider = f"{provider} or libmblob" if s.name in ours else provider
        found[s.name] = Undefined(s.name, weak, version, file, provider)
    return [found[name] for name in sorted(found)]


def _bound_by_mblob(image: Image) -> Collection[str]:
    """Names that mblob's runtime gives to a library that it opens."""
    return bound_here(image) if isinstance(image, ElfFile) and image.e_type == ET_DYN else ()
