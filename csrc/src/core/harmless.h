/* harmless.h - functions that keep no address. Made by mblob/format/unloading.py. */
#ifndef MB_HARMLESS_H
#define MB_HARMLESS_H
/* clang-format off */

/* Names. */
#define MB_HARMLESS \
  "TVMAPISetLastError TVMBackendAllocWorkspace TVMBackendFreeWorkspace " \
  "TVMBackendGetFuncFromEnv TVMBackendParallelBarrier TVMBackendParallelLaunch " \
  "TVMFFIAnyViewToOwnedAny TVMFFIBytesFromByteArray TVMFFIEnvModLookupFromImports " \
  "TVMFFIErrorCreate TVMFFIErrorMoveFromRaised TVMFFIFunctionCall TVMFFIHandleInitOnce " \
  "TVMFFIObjectDecRef TVMFFIObjectIncRef TVMFFIStringFromByteArray TVMFuncCall " \
  "TVMGetLastError _GLOBAL_OFFSET_TABLE_ _ZSt7nothrow _ZSt9terminatev _ZTIPKc _ZTIi " \
  "___errno_location __addtf3 __ashlti3 __ashrti3 __assert_fail __cmpti2 __cpu_indicator_init " \
  "__cpu_model __cxa_allocate_exception __cxa_atexit __cxa_bad_cast __cxa_bad_typeid " \
  "__cxa_begin_catch __cxa_call_terminate __cxa_call_unexpected __cxa_deleted_virtual " \
  "__cxa_demangle __cxa_end_catch __cxa_finalize __cxa_free_exception __cxa_get_exception_ptr " \
  "__cxa_init_primary_exception __cxa_pure_virtual __cxa_rethrow __cxa_throw " \
  "__cxa_throw_bad_array_new_length __deregister_frame_info __dso_handle __dynamic_cast " \
  "__eqtf2 __errno_location __gcc_personality_v0 __getf2 __gmon_start__ __gnu_f2h_ieee " \
  "__gnu_h2f_ieee __gttf2 __gxx_personality_v0 __letf2 __lshrti3 __lttf2 __muldc3 __muldi3 " \
  "__mulhc3 __mulsc3 __multc3 __multf3 __multi3 __mulxc3 __negtf2 __netf2 " \
  "__register_frame_info __stack_chk_fail __stack_chk_guard __subtf3 __tls_get_addr __ucmpti2 " \
  "__unordtf2 _exit _longjmp _setjmp abort abs aligned_alloc asprintf atof atoi atol atoll " \
  "bcmp bcopy bsearch bzero calloc clearerr clock clock_gettime close difftime div dprintf " \
  "drand48 exit explicit_bzero fclose fdopen feclearexcept fegetenv fegetround feholdexcept " \
  "feof feraiseexcept ferror fesetenv fesetround fetestexcept feupdateenv fflush ffs fgetc " \
  "fgets fopen fopen64 fprintf fputc fputs fread free fscanf fseek fseeko fseeko64 ftell " \
  "ftello ftello64 fwrite getc getenv getline getpagesize getpid gettimeofday gmtime gmtime_r " \
  "isalnum isalpha isdigit islower isprint ispunct isspace isupper isxdigit labs ldiv llabs " \
  "lldiv localtime localtime_r longjmp lseek lseek64 malloc mbstowcs memalign memchr memcmp " \
  "memcpy memmem memmove mempcpy memrchr memset mktime nanosleep open open64 perror " \
  "posix_memalign pread pread64 printf pthread_equal pthread_once pthread_self putc putchar " \
  "puts pwrite pwrite64 qsort qsort_r rand rand_r random rawmemchr read realloc reallocarray " \
  "rewind scanf sched_yield secure_getenv setjmp siglongjmp sigsetjmp sleep snprintf sprintf " \
  "srand srandom sscanf stderr stdin stdout stpcpy stpncpy strcasecmp strcat strchr strcmp " \
  "strcoll strcpy strcspn strdup strerror strftime strlen strncasecmp strncat strncmp strncpy " \
  "strndup strnlen strpbrk strrchr strspn strstr strtod strtof strtol strtold strtoll strtoul " \
  "strtoull sysconf time tolower toupper ungetc usleep vasprintf vfprintf vprintf vsnprintf " \
  "vsprintf vsscanf wcscmp wcscpy wcslen wcstombs wmemcpy write "

/* Also with f or l at the end. */
#define MB_HARMLESS_MATH \
  "acos acosh asin asinh atan atan2 atanh cabs cacos carg casin catan cbrt ccos ccosh ceil " \
  "cexp cimag clog conj copysign cos cosh cpow cproj creal csin csinh csqrt ctan ctanh erf " \
  "erfc exp exp10 exp2 expm1 fabs fdim floor fma fmax fmin fmod frexp hypot ilogb j0 j1 jn " \
  "ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint " \
  "nextafter nexttoward pow remainder remquo rint round roundeven scalbln scalbn sin sincos " \
  "sinh sqrt tan tanh tgamma trunc y0 y1 yn "

/* What a name may begin with. */
#define MB_HARMLESS_STARTS \
  "TVMBackendAnyList TVMFFIErrorSetRaised _ITM_ _Unwind_ _ZGV _ZNKSs _ZNKSt11logic_error " \
  "_ZNKSt13runtime_error _ZNKSt7__cxx1112basic_string _ZNKSt8__detail20_Prime_rehash_policy " \
  "_ZNKSt9bad_alloc _ZNKSt9exception _ZNSs _ZNSt11logic_error _ZNSt12length_error " \
  "_ZNSt12out_of_range _ZNSt13runtime_error _ZNSt16invalid_argument " \
  "_ZNSt7__cxx1112basic_string _ZNSt8__detail15_List_node_base _ZNSt9bad_alloc " \
  "_ZNSt9exception _ZSt11_Hash_bytes _ZSt16__throw _ZSt17__throw _ZSt18_Rb_tree_ " \
  "_ZSt19__throw _ZSt20__throw _ZSt21__throw _ZSt24__throw _ZSt25__throw _ZSt28_Rb_tree_ " \
  "_ZSt28__throw _ZSt29_Rb_tree_ _ZTIN10__cxxabiv1 _ZTISt _ZTSSt _ZTVN10__cxxabiv1 _ZTVSt " \
  "_Zda _Zdl _Zna _Znw __aarch64_ __aeabi_ __atomic_ __clz __ctype_ __ctz __cxa_guard_ __div " \
  "__extend __finite __fix __float __fpclassify __isinf __isnan __mod __popcount __powi " \
  "__signbit __sync_ __truncdf __truncsf __trunctf __truncxf __udiv __umod pthread_mutex_ "

/* Files of the system, up to the first '.' or '-'. */
#define MB_SYSTEM_LIBRARIES \
  "libc libm libgcc_s libstdc++ libc++ libc++abi libpthread libdl librt ld "

#endif
