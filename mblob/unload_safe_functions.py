"""Functions that keep no address of code or data after they return.

A library is unmapped after its last reference only if every undefined symbol of it, and of what its
loading brings, is in this table: then nothing is left that could run its code. All other functions
may start a thread, install a handler, or store a callback, so a library that uses one stays mapped
for the life of the process. What is not in the table costs memory; what is wrongly in it is a crash.

The runtime has the table as `csrc/src/core/link/unload_safe_functions.h`, and judges when a library closes
(csrc/src/core/link/unload.c). `inspect` judges a file.
"""

from __future__ import annotations

import textwrap
from bisect import bisect_right
from collections.abc import Iterable
from itertools import takewhile

from mblob.texts import header_of

# C17's <math.h> and <complex.h>, and glibc's additions.
_MATH = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh drem erf erfc exp exp10 exp2 expm1 fabs fdim
finite floor fma fmax fmin fmod frexp gamma hypot ilogb isinf isnan j0 j1 jn ldexp lgamma lgamma_r lgammaf_r
lgammal_r llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow pow10
remainder remquo rint round roundeven scalb scalbln scalbn significand sin sincos sinh sqrt tan tanh tgamma trunc y0
y1 yn cabs cacos cacosh carg casin casinh catan catanh ccos ccosh cexp cimag clog clog10 conj cpow cproj creal csin
csinh csqrt ctan ctanh __finite __fpclassify __isinf __isnan __issignaling __signbit
"""
_ENVIRONMENT_OF_NUMBERS = """
feclearexcept fedisableexcept feenableexcept fegetenv fegetexcept fegetround feholdexcept feraiseexcept fesetenv
fesetround fetestexcept feupdateenv
"""
_MEMORY_AND_TEXT = """
aligned_alloc bcmp bcopy bzero calloc free malloc malloc_usable_size memalign memccpy memchr memcmp memcpy memmem
memmove mempcpy memrchr memset posix_memalign rawmemchr realloc reallocarray valloc stpcpy stpncpy strcasecmp
strcasestr strcat strchr strchrnul strcmp strcoll strcpy strcspn strdup strerror strerror_r strlen strncasecmp
strncat strncmp strncpy strndup strnlen strpbrk strrchr strsep strsignal strspn strstr strtok_r strxfrm
__xpg_strerror_r wcscmp wcscpy wcslen wcsncpy wmemcpy wmemset isalnum isalpha isascii isblank iscntrl isdigit
isgraph islower isprint ispunct isspace isupper isxdigit tolower toupper __ctype_b_loc __ctype_get_mb_cur_max
__ctype_tolower_loc __ctype_toupper_loc atof atoi atol atoll strtod strtof strtoimax strtol strtold strtoll strtoul
strtoull strtoumax __strtod_internal __strtof_internal __strtol_internal __strtoul_internal
"""
_FILES = """
asprintf clearerr dprintf fclose fdopen feof ferror fflush fgetc fgets fileno fopen fopen64 fprintf fputc fputs
fread fscanf fseek fseeko fseeko64 ftell ftello ftello64 fwrite getc getchar getdelim getline perror printf putc
putchar puts remove rename rewind scanf snprintf sprintf sscanf stderr stdin stdout tmpfile ungetc vasprintf
vdprintf vfprintf vfscanf vprintf vscanf vsnprintf vsprintf vsscanf access close fstat fstat64 getpagesize getpid
getppid getuid isatty lseek lseek64 madvise mmap mmap64 mprotect munmap open open64 openat pread pread64 pwrite
pwrite64 read readlink stat stat64 sysconf unlink write __errno_location
"""
_PROCESS = """
abort abs bsearch div exit _exit _Exit getauxval getenv labs ldiv llabs lldiv longjmp qsort qsort_r rand rand_r
random secure_getenv setenv unsetenv fork system wait waitpid kill raise setjmp siglongjmp srand srandom drand48
erand48 lrand48 mrand48 srand48 _setjmp __sigsetjmp __longjmp_chk clock clock_getres clock_gettime difftime
gettimeofday gmtime_r localtime_r mktime nanosleep sleep strftime time timespec_get usleep get_nprocs
sched_getaffinity sched_getcpu sched_yield __sched_cpucount __assert __assert_fail __assert_perror_fail __chk_fail
__fdelt_chk __fortify_fail __stack_chk_fail __stack_chk_fail_local __stack_chk_guard
"""
_LOCKS = """
pthread_cond_broadcast pthread_cond_destroy pthread_cond_init pthread_cond_signal pthread_cond_timedwait
pthread_cond_wait pthread_equal pthread_getspecific pthread_mutex_destroy pthread_mutex_init pthread_mutex_lock
pthread_mutex_timedlock pthread_mutex_trylock pthread_mutex_unlock pthread_mutexattr_destroy pthread_mutexattr_init
pthread_mutexattr_settype pthread_once pthread_rwlock_destroy pthread_rwlock_init pthread_rwlock_rdlock
pthread_rwlock_tryrdlock pthread_rwlock_trywrlock pthread_rwlock_unlock pthread_rwlock_wrlock pthread_self
pthread_setspecific pthread_spin_destroy pthread_spin_init pthread_spin_lock pthread_spin_trylock
pthread_spin_unlock sem_destroy sem_getvalue sem_init sem_post sem_timedwait sem_trywait sem_wait
"""
# What compilers call, and what dlclose runs or waits for itself: destructors (__cxa_atexit), the
# thread-local ones (__cxa_thread_atexit keeps the library in glibc), exceptions.
_COMPILERS = """
__cpu_indicator_init __cpu_model __tls_get_addr __tls_get_addr_opt __tls_get_offset ___tls_get_addr
__libc_single_threaded __gmon_start__ _ITM_* _Jv_RegisterClasses __aarch64_* __aeabi_* __atomic_* __sync_* __add*
__ashl* __ashr* __bswap* __clear_cache __clz* __cmp* __ctz* __div* __eq* __extend* __ffs* __fix* __float* __ge*
__gnu_d2h_ieee __gnu_f2h_alternative __gnu_f2h_ieee __gnu_h2f_alternative __gnu_h2f_ieee __gt* __le* __lshr* __lt*
__mod* __mul* __ne* __parity* __popcount* __powi* __sub* __trunc* __ucmp* __udiv* __umod* __unord* _ZGV*
__cxa_allocate_exception __cxa_atexit __cxa_bad_cast __cxa_bad_typeid __cxa_begin_catch __cxa_call_terminate
__cxa_call_unexpected __cxa_current_exception_type __cxa_deleted_virtual __cxa_demangle __cxa_end_catch
__cxa_finalize __cxa_free_exception __cxa_get_exception_ptr __cxa_guard_abort __cxa_guard_acquire
__cxa_guard_release __cxa_init_primary_exception __cxa_pure_virtual __cxa_rethrow __cxa_thread_atexit
__cxa_thread_atexit_impl __cxa_throw __cxa_throw_bad_array_new_length __cxa_uncaught_exceptions __cxa_vec_*
__dynamic_cast __gcc_personality_v0 __gxx_personality_v0 _Unwind_*
"""
# The C++ library: new and delete, type information, texts, containers, streams, mathematics. Not
# threads, locales of the whole program, and what sets a handler.
_CXX = """
_ZdaPv* _ZdlPv* _Znam* _Znwm* _Znaj* _Znwj* _ZNKSs* _ZNKSt10error_code* _ZNKSt11logic_error* _ZNKSt13runtime_error*
_ZSt17current_exceptionv _ZSt17rethrow_exception* _ZNKSt14error_category* _ZNKSt16bad_array* _ZNKSt5ctype*
_ZNKSt7__cxx11* _ZNKSt8__detail* _ZNKSt9basic_ios* _ZNKSt9exception* _ZNKSt9type_info* _ZNSi* _ZNSo* _ZNSs*
_ZNSt11logic_error* _ZNSt11range_error* _ZNSt12domain_error* _ZNSt12length_error* _ZNSt12out_of_range*
_ZNSt12system_error* _ZNSt13basic_filebuf* _ZNSt13basic_fstream* _ZNSt13random_device* _ZNSt13runtime_error*
_ZNSt14basic_ifstream* _ZNSt14basic_ofstream* _ZNSt14error_category* _ZNSt14overflow_error* _ZNSt15__exception_ptr*
_ZNSt15basic_streambuf* _ZNSt15underflow_error* _ZNSt16invalid_argument* _ZNSt6chrono* _ZNSt6localeC* _ZNSt6localeD*
_ZNSt7__cxx11* _ZNSt8__detail* _ZNSt8bad_cast* _ZNSt8ios_baseC* _ZNSt8ios_baseD* _ZNSt8ios_base4Init*
_ZNSt9bad_alloc* _ZNSt9basic_ios* _ZNSt9exception* _ZNSt9type_info* _ZSt11_Hash_bytes* _ZSt15get_new_handlerv
_ZSt16__ostream_insert* _ZSt17__throw* _ZSt18_Rb_tree* _ZSt18uncaught_exceptionv _ZSt19__throw* _ZSt20__throw*
_ZSt21__throw* _ZSt22__throw* _ZSt24__throw* _ZSt25__throw* _ZSt28__throw* _ZSt29_Rb_tree* _ZSt16__throw*
_ZSt19uncaught_exceptionsv _ZSt2ws* _ZSt3cin _ZSt4cerr _ZSt4clog _ZSt4cout _ZSt4endl* _ZSt4ends* _ZSt5flush*
_ZSt7getline* _ZSt7nothrow _ZSt9terminatev _ZStls* _ZStrs* _ZStpl* _ZTI* _ZTS* _ZTT* _ZTV*
"""
# TVM's runtime; not what registers, or makes a function of an address.
_TVM = """
TVMAPISetLastError TVMArrayAlloc TVMArrayCopyFromBytes TVMArrayCopyFromTo TVMArrayCopyToBytes TVMArrayFree
TVMArrayFromDLPack TVMArrayToDLPack TVMBackendAllocWorkspace TVMBackendAnyList* TVMBackendFreeWorkspace
TVMBackendGetFuncFromEnv TVMBackendParallelBarrier TVMBackendParallelLaunch TVMBackendRunOnce TVMByteArrayFree
TVMCFuncSetReturn TVMCbArgToReturn TVMDLManagedTensorCallDeleter TVMDevice* TVMFuncCall TVMFuncFree TVMFuncGetGlobal
TVMFuncListGlobalNames TVMGetLastError TVMModFree TVMModGetFunction TVMModImport TVMModLoadFromFile TVMObject*
TVMSetStream TVMStream* TVMSynchronize TVMFFIAny* TVMFFIBacktrace TVMFFITraceback TVMFFIBigInt* TVMFFIBytes*
TVMFFIDataType* TVMFFIEnvCheckSignals TVMFFIEnvGet* TVMFFIEnvModLookupFromImports TVMFFIEnvSetStream
TVMFFIEnvTensorAlloc TVMFFIError* TVMFFIFunctionCall TVMFFIFunctionGetGlobal TVMFFIGet* TVMFFIObjectDecRef
TVMFFIObjectIncRef TVMFFIString* TVMFFITensor* TVMFFITypeGetOrAllocIndex TVMFFITypeKeyToIndex
"""


_TEXTS = (
    _MATH, _ENVIRONMENT_OF_NUMBERS, _MEMORY_AND_TEXT, _FILES, _PROCESS, _LOCKS, _COMPILERS, _CXX, _TVM,
)  # fmt: skip


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    """Without names that a shorter beginning covers: then the last entry that is not behind a name
    in the order of `strcmp` is the only one that may fit."""
    kept: list[str] = []
    for name in sorted(set(names), key=lambda n: (n.rstrip("*"), not n.endswith("*"))):
        if not (kept and kept[-1].endswith("*") and name.startswith(kept[-1][:-1])):
            kept.append(name)
    return tuple(kept)


# Names in the order of their bytes; one with * at its end is the beginning of all names of a family.
NAMES = _sorted(name for text in _TEXTS for name in text.split())
_ORDER = [name.rstrip("*") for name in NAMES]

# Libraries of the C and C++ language: they stay for the life of a process, whoever brought them.
LANGUAGE_LIBRARIES = """
ld-linux ld-musl ld64.so ld.so libc. libc++ libdl. libgcc_s libm. libmvec libpthread. librt. libstdc++
"""


# Other spellings of a function: glibc's for C99 and C23, its forms that check sizes, those of
# -ffinite-math-only. Then, the forms for float and long double of <math.h> end in f and l.
SPELLINGS = (("__isoc99_", ""), ("__isoc23_", ""), ("__", "_chk"), ("__", "_finite"))


def _is_named(symbol: str) -> bool:
    at = bisect_right(_ORDER, symbol) - 1
    return at >= 0 and (
        symbol.startswith(_ORDER[at]) if NAMES[at].endswith("*") else symbol == NAMES[at]
    )


def keeps_no_address(symbol: str) -> bool:
    """True if an undefined symbol keeps no library in memory."""
    for first, last in (("", ""), *SPELLINGS):
        if symbol.startswith(first) and symbol.endswith(last) and len(symbol) > len(first + last):
            name = symbol[len(first) : len(symbol) - len(last)]
            if _is_named(name) or (name[-1] in "fl" and _is_named(name[:-1])):
                return True
    return False


def is_of_language(library: str) -> bool:
    """True if a name of DT_NEEDED is a library of the language."""
    return library.startswith(tuple(LANGUAGE_LIBRARIES.split()))


_SHARED = 30  # one more is the highest character that is in no name


def _folded() -> list[tuple[int, str]]:
    """Of each name how many characters it has in common with the one before, and the others."""
    found = []
    for before, name in zip(("", *NAMES), NAMES):
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(before, name))
        shared = min(len(list(alike)), _SHARED)
        found.append((shared, name[shared:]))
    return found


def header() -> str:
    """The text of `csrc/src/core/link/unload_safe_functions.h`."""
    title = "unload_safe_functions.h - functions that keep no address after they return, in the order of strcmp"
    folded = " ".join(f'"\\{shared + 1:03o}{rest}"' for shared, rest in _folded())
    texts = textwrap.wrap(folded, 96, break_on_hyphens=False)
    rows = " \\\n  ".join(texts)
    spellings = ", ".join(f'{{"{first}", "{last}"}}' for first, last in SPELLINGS)
    libraries = " ".join(f'"{name}\\0"' for name in LANGUAGE_LIBRARIES.split())
    found = {
        "MB_UNLOAD_SAFE": f" \\\n  {rows}",
        "MB_UNLOAD_SAFE_SIZE": str(sum(len(name) + 1 for name in NAMES)),
        "MB_UNLOAD_SAFE_SPELLINGS": spellings,
        "MB_LANGUAGE_LIBRARIES": libraries,
    }
    return header_of(title, "mblob/unload_safe_functions.py", found)


if __name__ == "__main__":
    print(header(), end="")
