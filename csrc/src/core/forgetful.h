/* forgetful.h - functions that keep no address after they return, in the order of strcmp. Made by mblob/forgetful.py. */
#ifndef MB_FORGETFUL_H
#define MB_FORGETFUL_H

#define MB_FORGETFUL  \
  "TVMAPISetLastError\0" "TVMArrayAlloc\0" "TVMArrayCopyFromBytes\0" "TVMArrayCopyFromTo\0" \
  "TVMArrayCopyToBytes\0" "TVMArrayFree\0" "TVMArrayFromDLPack\0" "TVMArrayToDLPack\0" \
  "TVMBackendAllocWorkspace\0" "TVMBackendAnyList*\0" "TVMBackendFreeWorkspace\0" \
  "TVMBackendGetFuncFromEnv\0" "TVMBackendParallelBarrier\0" "TVMBackendParallelLaunch\0" \
  "TVMBackendRunOnce\0" "TVMByteArrayFree\0" "TVMCFuncSetReturn\0" "TVMCbArgToReturn\0" \
  "TVMDLManagedTensorCallDeleter\0" "TVMDevice*\0" "TVMFFIAny*\0" "TVMFFIBacktrace\0" \
  "TVMFFIBigInt*\0" "TVMFFIBytes*\0" "TVMFFIDataType*\0" "TVMFFIEnvCheckSignals\0" \
  "TVMFFIEnvGet*\0" "TVMFFIEnvModLookupFromImports\0" "TVMFFIEnvSetStream\0" \
  "TVMFFIEnvTensorAlloc\0" "TVMFFIError*\0" "TVMFFIFunctionCall\0" "TVMFFIFunctionGetGlobal\0" \
  "TVMFFIGet*\0" "TVMFFIObjectDecRef\0" "TVMFFIObjectIncRef\0" "TVMFFIString*\0" "TVMFFITensor*\0" \
  "TVMFFITraceback\0" "TVMFFITypeGetOrAllocIndex\0" "TVMFFITypeKeyToIndex\0" "TVMFuncCall\0" \
  "TVMFuncFree\0" "TVMFuncGetGlobal\0" "TVMFuncListGlobalNames\0" "TVMGetLastError\0" \
  "TVMModFree\0" "TVMModGetFunction\0" "TVMModImport\0" "TVMModLoadFromFile\0" "TVMObject*\0" \
  "TVMSetStream\0" "TVMStream*\0" "TVMSynchronize\0" "_Exit\0" "_ITM_*\0" "_Jv_RegisterClasses\0" \
  "_Unwind_*\0" "_ZGV*\0" "_ZNKSs*\0" "_ZNKSt10error_code*\0" "_ZNKSt11logic_error*\0" \
  "_ZNKSt13runtime_error*\0" "_ZNKSt14error_category*\0" "_ZNKSt16bad_array*\0" "_ZNKSt5ctype*\0" \
  "_ZNKSt7__cxx11*\0" "_ZNKSt8__detail*\0" "_ZNKSt9basic_ios*\0" "_ZNKSt9exception*\0" \
  "_ZNKSt9type_info*\0" "_ZNSi*\0" "_ZNSo*\0" "_ZNSs*\0" "_ZNSt11logic_error*\0" \
  "_ZNSt11range_error*\0" "_ZNSt12domain_error*\0" "_ZNSt12length_error*\0" \
  "_ZNSt12out_of_range*\0" "_ZNSt12system_error*\0" "_ZNSt13basic_filebuf*\0" \
  "_ZNSt13basic_fstream*\0" "_ZNSt13random_device*\0" "_ZNSt13runtime_error*\0" \
  "_ZNSt14basic_ifstream*\0" "_ZNSt14basic_ofstream*\0" "_ZNSt14error_category*\0" \
  "_ZNSt14overflow_error*\0" "_ZNSt15__exception_ptr*\0" "_ZNSt15basic_streambuf*\0" \
  "_ZNSt15underflow_error*\0" "_ZNSt16invalid_argument*\0" "_ZNSt6chrono*\0" "_ZNSt6localeC*\0" \
  "_ZNSt6localeD*\0" "_ZNSt7__cxx11*\0" "_ZNSt8__detail*\0" "_ZNSt8bad_cast*\0" \
  "_ZNSt8ios_base4Init*\0" "_ZNSt8ios_baseC*\0" "_ZNSt8ios_baseD*\0" "_ZNSt9bad_alloc*\0" \
  "_ZNSt9basic_ios*\0" "_ZNSt9exception*\0" "_ZNSt9type_info*\0" "_ZSt11_Hash_bytes*\0" \
  "_ZSt15get_new_handlerv\0" "_ZSt16__ostream_insert*\0" "_ZSt16__throw*\0" "_ZSt17__throw*\0" \
  "_ZSt17current_exceptionv\0" "_ZSt17rethrow_exception*\0" "_ZSt18_Rb_tree*\0" \
  "_ZSt18uncaught_exceptionv\0" "_ZSt19__throw*\0" "_ZSt19uncaught_exceptionsv\0" \
  "_ZSt20__throw*\0" "_ZSt21__throw*\0" "_ZSt22__throw*\0" "_ZSt24__throw*\0" "_ZSt25__throw*\0" \
  "_ZSt28__throw*\0" "_ZSt29_Rb_tree*\0" "_ZSt2ws*\0" "_ZSt3cin\0" "_ZSt4cerr\0" "_ZSt4clog\0" \
  "_ZSt4cout\0" "_ZSt4endl*\0" "_ZSt4ends*\0" "_ZSt5flush*\0" "_ZSt7getline*\0" "_ZSt7nothrow\0" \
  "_ZSt9terminatev\0" "_ZStls*\0" "_ZStpl*\0" "_ZStrs*\0" "_ZTI*\0" "_ZTS*\0" "_ZTT*\0" "_ZTV*\0" \
  "_ZdaPv*\0" "_ZdlPv*\0" "_Znaj*\0" "_Znam*\0" "_Znwj*\0" "_Znwm*\0" "___tls_get_addr\0" \
  "__aarch64_*\0" "__add*\0" "__aeabi_*\0" "__ashl*\0" "__ashr*\0" "__assert\0" "__assert_fail\0" \
  "__assert_perror_fail\0" "__atomic_*\0" "__bswap*\0" "__chk_fail\0" "__clear_cache\0" "__clz*\0" \
  "__cmp*\0" "__cpu_indicator_init\0" "__cpu_model\0" "__ctype_b_loc\0" "__ctype_get_mb_cur_max\0" \
  "__ctype_tolower_loc\0" "__ctype_toupper_loc\0" "__ctz*\0" "__cxa_allocate_exception\0" \
  "__cxa_atexit\0" "__cxa_bad_cast\0" "__cxa_bad_typeid\0" "__cxa_begin_catch\0" \
  "__cxa_call_terminate\0" "__cxa_call_unexpected\0" "__cxa_current_exception_type\0" \
  "__cxa_deleted_virtual\0" "__cxa_demangle\0" "__cxa_end_catch\0" "__cxa_finalize\0" \
  "__cxa_free_exception\0" "__cxa_get_exception_ptr\0" "__cxa_guard_abort\0" \
  "__cxa_guard_acquire\0" "__cxa_guard_release\0" "__cxa_init_primary_exception\0" \
  "__cxa_pure_virtual\0" "__cxa_rethrow\0" "__cxa_thread_atexit\0" "__cxa_thread_atexit_impl\0" \
  "__cxa_throw\0" "__cxa_throw_bad_array_new_length\0" "__cxa_uncaught_exceptions\0" \
  "__cxa_vec_*\0" "__div*\0" "__dynamic_cast\0" "__eq*\0" "__errno_location\0" "__extend*\0" \
  "__fdelt_chk\0" "__ffs*\0" "__finite\0" "__fix*\0" "__float*\0" "__fortify_fail\0" \
  "__fpclassify\0" "__gcc_personality_v0\0" "__ge*\0" "__gmon_start__\0" "__gnu_d2h_ieee\0" \
  "__gnu_f2h_alternative\0" "__gnu_f2h_ieee\0" "__gnu_h2f_alternative\0" "__gnu_h2f_ieee\0" \
  "__gt*\0" "__gxx_personality_v0\0" "__isinf\0" "__isnan\0" "__issignaling\0" "__le*\0" \
  "__libc_single_threaded\0" "__longjmp_chk\0" "__lshr*\0" "__lt*\0" "__mod*\0" "__mul*\0" \
  "__ne*\0" "__parity*\0" "__popcount*\0" "__powi*\0" "__sched_cpucount\0" "__signbit\0" \
  "__sigsetjmp\0" "__stack_chk_fail\0" "__stack_chk_fail_local\0" "__stack_chk_guard\0" \
  "__strtod_internal\0" "__strtof_internal\0" "__strtol_internal\0" "__strtoul_internal\0" \
  "__sub*\0" "__sync_*\0" "__tls_get_addr\0" "__tls_get_addr_opt\0" "__tls_get_offset\0" \
  "__trunc*\0" "__ucmp*\0" "__udiv*\0" "__umod*\0" "__unord*\0" "__xpg_strerror_r\0" "_exit\0" \
  "_setjmp\0" "abort\0" "abs\0" "access\0" "acos\0" "acosh\0" "aligned_alloc\0" "asin\0" "asinh\0" \
  "asprintf\0" "atan\0" "atan2\0" "atanh\0" "atof\0" "atoi\0" "atol\0" "atoll\0" "bcmp\0" \
  "bcopy\0" "bsearch\0" "bzero\0" "cabs\0" "cacos\0" "cacosh\0" "calloc\0" "carg\0" "casin\0" \
  "casinh\0" "catan\0" "catanh\0" "cbrt\0" "ccos\0" "ccosh\0" "ceil\0" "cexp\0" "cimag\0" \
  "clearerr\0" "clock\0" "clock_getres\0" "clock_gettime\0" "clog\0" "clog10\0" "close\0" "conj\0" \
  "copysign\0" "cos\0" "cosh\0" "cpow\0" "cproj\0" "creal\0" "csin\0" "csinh\0" "csqrt\0" "ctan\0" \
  "ctanh\0" "difftime\0" "div\0" "dprintf\0" "drand48\0" "drem\0" "erand48\0" "erf\0" "erfc\0" \
  "exit\0" "exp\0" "exp10\0" "exp2\0" "expm1\0" "fabs\0" "fclose\0" "fdim\0" "fdopen\0" \
  "feclearexcept\0" "fedisableexcept\0" "feenableexcept\0" "fegetenv\0" "fegetexcept\0" \
  "fegetround\0" "feholdexcept\0" "feof\0" "feraiseexcept\0" "ferror\0" "fesetenv\0" \
  "fesetround\0" "fetestexcept\0" "feupdateenv\0" "fflush\0" "fgetc\0" "fgets\0" "fileno\0" \
  "finite\0" "floor\0" "fma\0" "fmax\0" "fmin\0" "fmod\0" "fopen\0" "fopen64\0" "fork\0" \
  "fprintf\0" "fputc\0" "fputs\0" "fread\0" "free\0" "frexp\0" "fscanf\0" "fseek\0" "fseeko\0" \
  "fseeko64\0" "fstat\0" "fstat64\0" "ftell\0" "ftello\0" "ftello64\0" "fwrite\0" "gamma\0" \
  "get_nprocs\0" "getauxval\0" "getc\0" "getchar\0" "getdelim\0" "getenv\0" "getline\0" \
  "getpagesize\0" "getpid\0" "getppid\0" "gettimeofday\0" "getuid\0" "gmtime_r\0" "hypot\0" \
  "ilogb\0" "isalnum\0" "isalpha\0" "isascii\0" "isatty\0" "isblank\0" "iscntrl\0" "isdigit\0" \
  "isgraph\0" "isinf\0" "islower\0" "isnan\0" "isprint\0" "ispunct\0" "isspace\0" "isupper\0" \
  "isxdigit\0" "j0\0" "j1\0" "jn\0" "kill\0" "labs\0" "ldexp\0" "ldiv\0" "lgamma\0" "lgamma_r\0" \
  "lgammaf_r\0" "lgammal_r\0" "llabs\0" "lldiv\0" "llrint\0" "llround\0" "localtime_r\0" "log\0" \
  "log10\0" "log1p\0" "log2\0" "logb\0" "longjmp\0" "lrand48\0" "lrint\0" "lround\0" "lseek\0" \
  "lseek64\0" "madvise\0" "malloc\0" "malloc_usable_size\0" "memalign\0" "memccpy\0" "memchr\0" \
  "memcmp\0" "memcpy\0" "memmem\0" "memmove\0" "mempcpy\0" "memrchr\0" "memset\0" "mktime\0" \
  "mmap\0" "mmap64\0" "modf\0" "mprotect\0" "mrand48\0" "munmap\0" "nan\0" "nanosleep\0" \
  "nearbyint\0" "nextafter\0" "nexttoward\0" "open\0" "open64\0" "openat\0" "perror\0" \
  "posix_memalign\0" "pow\0" "pow10\0" "pread\0" "pread64\0" "printf\0" "pthread_cond_broadcast\0" \
  "pthread_cond_destroy\0" "pthread_cond_init\0" "pthread_cond_signal\0" \
  "pthread_cond_timedwait\0" "pthread_cond_wait\0" "pthread_equal\0" "pthread_getspecific\0" \
  "pthread_mutex_destroy\0" "pthread_mutex_init\0" "pthread_mutex_lock\0" \
  "pthread_mutex_timedlock\0" "pthread_mutex_trylock\0" "pthread_mutex_unlock\0" \
  "pthread_mutexattr_destroy\0" "pthread_mutexattr_init\0" "pthread_mutexattr_settype\0" \
  "pthread_once\0" "pthread_rwlock_destroy\0" "pthread_rwlock_init\0" "pthread_rwlock_rdlock\0" \
  "pthread_rwlock_tryrdlock\0" "pthread_rwlock_trywrlock\0" "pthread_rwlock_unlock\0" \
  "pthread_rwlock_wrlock\0" "pthread_self\0" "pthread_setspecific\0" "pthread_spin_destroy\0" \
  "pthread_spin_init\0" "pthread_spin_lock\0" "pthread_spin_trylock\0" "pthread_spin_unlock\0" \
  "putc\0" "putchar\0" "puts\0" "pwrite\0" "pwrite64\0" "qsort\0" "qsort_r\0" "raise\0" "rand\0" \
  "rand_r\0" "random\0" "rawmemchr\0" "read\0" "readlink\0" "realloc\0" "reallocarray\0" \
  "remainder\0" "remove\0" "remquo\0" "rename\0" "rewind\0" "rint\0" "round\0" "roundeven\0" \
  "scalb\0" "scalbln\0" "scalbn\0" "scanf\0" "sched_getaffinity\0" "sched_getcpu\0" \
  "sched_yield\0" "secure_getenv\0" "sem_destroy\0" "sem_getvalue\0" "sem_init\0" "sem_post\0" \
  "sem_timedwait\0" "sem_trywait\0" "sem_wait\0" "setenv\0" "setjmp\0" "siglongjmp\0" \
  "significand\0" "sin\0" "sincos\0" "sinh\0" "sleep\0" "snprintf\0" "sprintf\0" "sqrt\0" \
  "srand\0" "srand48\0" "srandom\0" "sscanf\0" "stat\0" "stat64\0" "stderr\0" "stdin\0" "stdout\0" \
  "stpcpy\0" "stpncpy\0" "strcasecmp\0" "strcasestr\0" "strcat\0" "strchr\0" "strchrnul\0" \
  "strcmp\0" "strcoll\0" "strcpy\0" "strcspn\0" "strdup\0" "strerror\0" "strerror_r\0" \
  "strftime\0" "strlen\0" "strncasecmp\0" "strncat\0" "strncmp\0" "strncpy\0" "strndup\0" \
  "strnlen\0" "strpbrk\0" "strrchr\0" "strsep\0" "strsignal\0" "strspn\0" "strstr\0" "strtod\0" \
  "strtof\0" "strtoimax\0" "strtok_r\0" "strtol\0" "strtold\0" "strtoll\0" "strtoul\0" \
  "strtoull\0" "strtoumax\0" "strxfrm\0" "sysconf\0" "system\0" "tan\0" "tanh\0" "tgamma\0" \
  "time\0" "timespec_get\0" "tmpfile\0" "tolower\0" "toupper\0" "trunc\0" "ungetc\0" "unlink\0" \
  "unsetenv\0" "usleep\0" "valloc\0" "vasprintf\0" "vdprintf\0" "vfprintf\0" "vfscanf\0" \
  "vprintf\0" "vscanf\0" "vsnprintf\0" "vsprintf\0" "vsscanf\0" "wait\0" "waitpid\0" "wcscmp\0" \
  "wcscpy\0" "wcslen\0" "wcsncpy\0" "wmemcpy\0" "wmemset\0" "write\0" "y0\0" "y1\0" "yn\0"
#define MB_FORGETFUL_SPELLINGS {"__isoc99_", ""}, {"__isoc23_", ""}, {"__", "_chk"}, {"__", "_finite"}
#define MB_LANGUAGE_LIBRARIES "ld-linux\0" "ld-musl\0" "ld64.so\0" "ld.so\0" "libc.\0" "libc++\0" "libdl.\0" "libgcc_s\0" "libm.\0" "libmvec\0" "libpthread.\0" "librt.\0" "libstdc++\0"

#endif
