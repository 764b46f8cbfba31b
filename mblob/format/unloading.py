"""Functions that keep no address of code or data after they return.

A library is unmapped after its last reference is gone only if every undefined symbol of it, and of the
libraries that its load brought, is one of these. Every other library stays mapped: a thread, a
handler or a destructor may still run its code. The list says what is harmless, not what is
dangerous, so a function that nobody thought of keeps a library.

`csrc/src/core/harmless.h` is made from it: `python -m mblob.format.unloading > csrc/src/core/harmless.h`.

A name that ends in `*` stands for all names that begin so. Before a name is looked up, it loses what
compilers and C libraries add (`core`): `__memcpy_chk` is `memcpy`, `__isoc99_sscanf` is `sscanf`,
`__expf_finite` is `expf`. A name in `MATH` also stands for its variants with `f` and `l`.
"""

from __future__ import annotations

# What the compiler's start files and the linker refer to, in every library. dlclose() runs what
# __cxa_atexit registered.
_LINKING = """__cxa_finalize __gmon_start__ _ITM_* __cxa_atexit __stack_chk_fail __stack_chk_guard
__tls_get_addr _GLOBAL_OFFSET_TABLE_ __dso_handle __register_frame_info __deregister_frame_info"""

# Support of compilers: arithmetic that a machine lacks, atomics.
_COMPILER = """__aarch64_* __atomic_* __sync_* __udiv* __umod* __div* __mod* __fix* __float* __extend* __truncsf*
__truncdf* __trunctf* __truncxf* __addtf3 __subtf3 __multf3 __negtf2 __eqtf2 __netf2 __lttf2 __letf2 __gttf2 __getf2
__unordtf2 __mulsc3 __muldc3 __mulxc3 __multc3 __mulhc3 __multi3 __muldi3 __powi* __gnu_f2h_ieee __gnu_h2f_ieee
__popcount* __clz* __ctz* __ashlti3 __ashrti3 __lshrti3 __cmpti2 __ucmpti2 __cpu_model __cpu_indicator_init
__aeabi_*"""

MATH = """acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim
floor fma fmax fmin fmod frexp hypot ilogb j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround
modf nan nearbyint nextafter nexttoward pow remainder remquo rint round roundeven scalbln scalbn sin sincos sinh sqrt
tan tanh tgamma trunc y0 y1 yn cabs cacos carg casin catan ccos ccosh cexp cimag clog conj cpow cproj creal csin csinh
csqrt ctan ctanh"""

# libc. Functions that call back, such as qsort(), do so before they return.
_LIBC = """_ZGV* __fpclassify* __isinf* __isnan* __finite* __signbit* __errno_location ___errno_location __assert_fail
abort abs labs llabs div ldiv lldiv atoi atol atoll atof strtol strtoll strtoul strtoull strtod strtof strtold bsearch
qsort qsort_r calloc malloc realloc reallocarray free aligned_alloc posix_memalign memalign memchr memcmp memcpy
memmove mempcpy memset memrchr memmem explicit_bzero bcmp bcopy bzero strcat strchr strcmp strcoll strcpy stpcpy
stpncpy strcspn strdup strndup strerror strlen strnlen strncat strncmp strncpy strpbrk strrchr strspn strstr
strcasecmp strncasecmp rawmemchr ffs isalnum isalpha isdigit isspace isupper islower isprint ispunct isxdigit
tolower toupper __ctype_* printf fprintf sprintf snprintf vprintf vfprintf vsprintf vsnprintf asprintf vasprintf
dprintf puts fputs fputc putc putchar fopen fopen64 fdopen fclose fflush fread fwrite fgets fgetc getc ungetc fseek
fseeko fseeko64 ftell ftello ftello64 rewind feof ferror clearerr perror getline sscanf fscanf scanf vsscanf stdin
stdout stderr open open64 close read write pread pwrite pread64 pwrite64 lseek lseek64 getenv secure_getenv time clock
clock_gettime gettimeofday nanosleep usleep sleep sched_yield sysconf getpagesize getpid rand srand rand_r random
srandom drand48 setjmp _setjmp sigsetjmp longjmp siglongjmp _longjmp mbstowcs wcstombs wcslen wcscmp wcscpy wmemcpy
fesetround fegetround fetestexcept feclearexcept feraiseexcept fegetenv fesetenv feholdexcept feupdateenv exit _exit
strftime gmtime gmtime_r localtime localtime_r mktime difftime pthread_mutex_* pthread_self pthread_equal
pthread_once"""

# libstdc++ and libc++abi: memory, exceptions, texts. What starts threads or keeps callbacks is absent.
_CXX = """_Znw* _Zna* _Zdl* _Zda* __cxa_allocate_exception __cxa_free_exception __cxa_throw __cxa_rethrow
__cxa_begin_catch __cxa_end_catch __cxa_get_exception_ptr __cxa_guard_* __cxa_pure_virtual __cxa_deleted_virtual
__cxa_bad_cast __cxa_bad_typeid __cxa_throw_bad_array_new_length __cxa_init_primary_exception __cxa_demangle
__cxa_call_unexpected __cxa_call_terminate __dynamic_cast __gxx_personality_v0 __gcc_personality_v0 _Unwind_*
_ZSt9terminatev _ZTVN10__cxxabiv1* _ZTISt* _ZTVSt* _ZTSSt* _ZTIPKc _ZTIi _ZTIN10__cxxabiv1* _ZNSt7__cxx1112basic_string*
_ZNKSt7__cxx1112basic_string* _ZNSs* _ZNKSs* _ZSt17__throw* _ZSt19__throw* _ZSt20__throw* _ZSt21__throw*
_ZSt24__throw* _ZSt25__throw* _ZSt28__throw* _ZSt16__throw* _ZNSt9exception* _ZNKSt9exception* _ZNSt11logic_error*
_ZNKSt11logic_error* _ZNSt13runtime_error* _ZNKSt13runtime_error* _ZNSt16invalid_argument* _ZNSt12out_of_range*
_ZNSt12length_error* _ZNSt9bad_alloc* _ZNKSt9bad_alloc* _ZSt7nothrow _ZSt18_Rb_tree_* _ZSt28_Rb_tree_* _ZSt29_Rb_tree_*
_ZNSt8__detail15_List_node_base* _ZNKSt8__detail20_Prime_rehash_policy* _ZSt11_Hash_bytes*"""

# TVM's runtime: calls, errors, workspaces. What registers functions is absent.
_TVM = """TVMFuncCall TVMAPISetLastError TVMGetLastError TVMBackendGetFuncFromEnv TVMBackendAllocWorkspace
TVMBackendFreeWorkspace TVMBackendParallelLaunch TVMBackendParallelBarrier TVMBackendAnyList* TVMFFIFunctionCall
TVMFFIErrorSetRaised* TVMFFIErrorMoveFromRaised TVMFFIErrorCreate TVMFFIEnvModLookupFromImports TVMFFIHandleInitOnce
TVMFFIObjectIncRef TVMFFIObjectDecRef TVMFFIStringFromByteArray TVMFFIBytesFromByteArray TVMFFIAnyViewToOwnedAny"""

# Libraries of the system that no kernel brings: each of their functions is judged by the list.
SYSTEM_LIBRARIES = ("libc", "libm", "libgcc_s", "libstdc++", "libc++", "libc++abi", "libpthread", "libdl", "librt",
                    "ld")  # fmt: skip

NAMES = frozenset(" ".join((_LINKING, _COMPILER, _LIBC, _CXX, _TVM)).split())
MATH_NAMES = frozenset(MATH.split())
_EXACT = frozenset(n for n in NAMES if not n.endswith("*"))
_STARTS = tuple(sorted(n[:-1] for n in NAMES if n.endswith("*")))
_PREFIXES = ("__isoc99_", "__isoc23_", "__")
_SUFFIXES = ("_chk", "_finite")


def core(name: str) -> str:
    """A name without what compilers and C libraries put around it."""
    for suffix in _SUFFIXES:
        if name.startswith("__") and name.endswith(suffix):
            return name[2 : -len(suffix)]
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name[len(prefix) :]
    return name


def is_harmless(name: str) -> bool:
    """Whether a function of that name keeps no address after it returned."""
    if name.startswith(_STARTS):
        return True
    return any(
        n in _EXACT or n in MATH_NAMES or (n[-1:] in ("f", "l") and n[:-1] in MATH_NAMES)
        for n in (name, core(name))
    )


def _lines(names: list[str]) -> list[str]:
    lines: list[str] = []
    line = ""
    for name in names:
        if len(line) + len(name) > 90:
            lines.append(f'  "{line}" \\')
            line = ""
        line += f"{name} "
    return [*lines, f'  "{line}"']


def header() -> str:
    """The text of `csrc/src/core/harmless.h`."""
    lists = (
        ("Names.", "HARMLESS", sorted(_EXACT)),
        ("Also with f or l at the end.", "HARMLESS_MATH", sorted(MATH_NAMES)),
        ("What a name may begin with.", "HARMLESS_STARTS", list(_STARTS)),
        ("Files of the system, up to the first '.' or '-'.", "SYSTEM_LIBRARIES", list(SYSTEM_LIBRARIES)),
    )  # fmt: skip
    lines = [
        "/* harmless.h - functions that keep no address. Made by mblob/format/unloading.py. */",
        "#ifndef MB_HARMLESS_H",
        "#define MB_HARMLESS_H",
        "/* clang-format off */",
        "",
    ]
    for comment, name, names in lists:
        lines += [f"/* {comment} */", f"#define MB_{name} \\", *_lines(names), ""]
    return "\n".join([*lines, "#endif", ""])


if __name__ == "__main__":
    print(header(), end="")
