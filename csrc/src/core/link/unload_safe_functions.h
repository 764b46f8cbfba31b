/* unload_safe_functions.h - functions that keep no address after they return, in the order of strcmp. Made by mblob/unload_safe_functions.py. */
#ifndef MB_UNLOAD_SAFE_FUNCTIONS_H
#define MB_UNLOAD_SAFE_FUNCTIONS_H

#define MB_UNLOAD_SAFE  \
  "\001TVMAPISetLastError" "\005rrayAlloc" "\011CopyFromBytes" "\021To" "\015ToBytes" "\011Free" \
  "\013omDLPack" "\011ToDLPack" "\004BackendAllocWorkspace" "\014nyList*" "\013FreeWorkspace" \
  "\013GetFuncFromEnv" "\013ParallelBarrier" "\023Launch" "\013RunOnce" "\005yteArrayFree" \
  "\004CFuncSetReturn" "\005bArgToReturn" "\004DLManagedTensorCallDeleter" "\005evice*" \
  "\004FFIAny*" "\007Backtrace" "\010igInt*" "\010ytes*" "\007DataType*" "\007EnvCheckSignals" \
  "\012Get*" "\012ModLookupFromImports" "\012SetStream" "\012TensorAlloc" "\010rror*" \
  "\007FunctionCall" "\017GetGlobal" "\007Get*" "\007ObjectDecRef" "\015IncRef" "\007String*" \
  "\007Tensor*" "\010raceback" "\010ypeGetOrAllocIndex" "\013KeyToIndex" "\005uncCall" "\010Free" \
  "\010GetGlobal" "\010ListGlobalNames" "\004GetLastError" "\004ModFree" "\007GetFunction" \
  "\007Import" "\007LoadFromFile" "\004Object*" "\004SetStream" "\005tream*" "\005ynchronize" \
  "\001_Exit" "\002ITM_*" "\002Jv_RegisterClasses" "\002Unwind_*" "\002ZGV*" "\003NKSs*" \
  "\006t10error_code*" "\0101logic_error*" "\0103runtime_error*" "\0104error_category*" \
  "\0106bad_array*" "\0075ctype*" "\0077__cxx11*" "\0078__detail*" "\0079basic_ios*" \
  "\010exception*" "\010type_info*" "\004Si*" "\005o*" "\005s*" "\005t11logic_error*" \
  "\010range_error*" "\0072domain_error*" "\010length_error*" "\010out_of_range*" \
  "\010system_error*" "\0073basic_filebuf*" "\017stream*" "\010random_device*" "\011untime_error*" \
  "\0074basic_ifstream*" "\016ofstream*" "\010error_category*" "\010overflow_error*" \
  "\0075__exception_ptr*" "\010basic_streambuf*" "\010underflow_error*" "\0076invalid_argument*" \
  "\0066chrono*" "\007localeC*" "\015D*" "\0067__cxx11*" "\0068__detail*" "\007bad_cast*" \
  "\007ios_base4Init*" "\017C*" "\017D*" "\0069bad_alloc*" "\011sic_ios*" "\007exception*" \
  "\007type_info*" "\003St11_Hash_bytes*" "\0065get_new_handlerv" "\0066__ostream_insert*" \
  "\011throw*" "\0067__throw*" "\007current_exceptionv" "\007rethrow_exception*" "\0068_Rb_tree*" \
  "\007uncaught_exceptionv" "\0069__throw*" "\007uncaught_exceptionsv" "\00520__throw*" \
  "\0061__throw*" "\0062__throw*" "\0064__throw*" "\0065__throw*" "\0068__throw*" "\0069_Rb_tree*" \
  "\006ws*" "\0053cin" "\0054cerr" "\007log" "\007out" "\006endl*" "\011s*" "\0055flush*" \
  "\0057getline*" "\006nothrow" "\0059terminatev" "\005ls*" "\005pl*" "\005rs*" "\003TI*" "\004S*" \
  "\004T*" "\004V*" "\003daPv*" "\004lPv*" "\003naj*" "\005m*" "\004wj*" "\005m*" \
  "\002__tls_get_addr" "\003aarch64_*" "\004dd*" "\004eabi_*" "\004shl*" "\006r*" "\005sert" \
  "\011_fail" "\012perror_fail" "\004tomic_*" "\003bswap*" "\003chk_fail" "\004lear_cache" \
  "\005z*" "\004mp*" "\004pu_indicator_init" "\007model" "\004type_b_loc" "\011get_mb_cur_max" \
  "\011tolower_loc" "\013upper_loc" "\005z*" "\004xa_allocate_exception" "\010texit" \
  "\007bad_cast" "\013typeid" "\010egin_catch" "\007call_terminate" "\014unexpected" \
  "\010urrent_exception_type" "\007deleted_virtual" "\011mangle" "\007end_catch" "\007finalize" \
  "\010ree_exception" "\007get_exception_ptr" "\010uard_abort" "\016cquire" "\015release" \
  "\007init_primary_exception" "\007pure_virtual" "\007rethrow" "\007thread_atexit" "\024_impl" \
  "\012ow" "\014_bad_array_new_length" "\007uncaught_exceptions" "\007vec_*" "\003div*" \
  "\004ynamic_cast" "\003eq*" "\004rrno_location" "\004xtend*" "\003fdelt_chk" "\004fs*" \
  "\004inite" "\005x*" "\004loat*" "\004ortify_fail" "\004pclassify" "\003gcc_personality_v0" \
  "\004e*" "\004mon_start__" "\004nu_d2h_ieee" "\007f2h_alternative" "\013ieee" \
  "\007h2f_alternative" "\013ieee" "\004t*" "\004xx_personality_v0" "\003isinf" "\005nan" \
  "\005signaling" "\003le*" "\004ibc_single_threaded" "\004ongjmp_chk" "\004shr*" "\004t*" \
  "\003mod*" "\004ul*" "\003ne*" "\003parity*" "\004opcount*" "\005wi*" "\003sched_cpucount" \
  "\004ignbit" "\006setjmp" "\004tack_chk_fail" "\021_local" "\015guard" "\005rtod_internal" \
  "\010f_internal" "\010l_internal" "\010ul_internal" "\004ub*" "\004ync_*" "\003tls_get_addr" \
  "\017_opt" "\013offset" "\004runc*" "\003ucmp*" "\004div*" "\004mod*" "\004nord*" \
  "\003xpg_strerror_r" "\002exit" "\002setjmp" "\001abort" "\003s" "\002ccess" "\003os" "\005h" \
  "\002ligned_alloc" "\002sin" "\005h" "\003printf" "\002tan" "\0052" "\005h" "\003of" "\004i" \
  "\004l" "\005l" "\001bcmp" "\003opy" "\002search" "\002zero" "\001cabs" "\003cos" "\006h" \
  "\003lloc" "\003rg" "\003sin" "\006h" "\003tan" "\006h" "\002brt" "\002cos" "\005h" "\002eil" \
  "\003xp" "\002imag" "\002learerr" "\003ock" "\006_getres" "\012time" "\004g" "\00510" "\004se" \
  "\002onj" "\003pysign" "\003s" "\004h" "\002pow" "\003roj" "\002real" "\002sin" "\005h" \
  "\003qrt" "\002tan" "\005h" "\001difftime" "\003v" "\002printf" "\002rand48" "\003em" \
  "\001erand48" "\003f" "\004c" "\002xit" "\003p" "\00410" "\0042" "\004m1" "\001fabs" "\002close" \
  "\002dim" "\003open" "\002eclearexcept" "\003disableexcept" "\003enableexcept" "\003getenv" \
  "\007xcept" "\006round" "\003holdexcept" "\003of" "\003raiseexcept" "\004ror" "\003setenv" \
  "\006round" "\003testexcept" "\003updateenv" "\002flush" "\002getc" "\005s" "\002ileno" \
  "\003nite" "\002loor" "\002ma" "\004x" "\003in" "\003od" "\002open" "\00664" "\003rk" \
  "\002printf" "\003utc" "\005s" "\002read" "\004e" "\004xp" "\002scanf" "\003eek" "\006o" \
  "\00764" "\003tat" "\00664" "\002tell" "\006o" "\00764" "\002write" "\001gamma" "\002et_nprocs" \
  "\004auxval" "\004c" "\005har" "\004delim" "\004env" "\004line" "\004pagesize" "\005id" \
  "\005pid" "\004timeofday" "\004uid" "\002mtime_r" "\001hypot" "\001ilogb" "\002salnum" "\005pha" \
  "\004scii" "\004tty" "\003blank" "\003cntrl" "\003digit" "\003graph" "\003inf" "\003lower" \
  "\003nan" "\003print" "\004unct" "\003space" "\003upper" "\003xdigit" "\001j0" "\0021" "\002n" \
  "\001kill" "\001labs" "\002dexp" "\003iv" "\002gamma" "\007_r" "\007f_r" "\007l_r" "\002labs" \
  "\003div" "\003rint" "\004ound" "\002ocaltime_r" "\003g" "\00410" "\005p" "\0042" "\004b" \
  "\003ngjmp" "\002rand48" "\003int" "\003ound" "\002seek" "\00664" "\001madvise" "\003lloc" \
  "\007_usable_size" "\002emalign" "\004ccpy" "\005hr" "\005mp" "\005py" "\004mem" "\005ove" \
  "\004pcpy" "\004rchr" "\004set" "\002ktime" "\002map" "\00564" "\002odf" "\002protect" \
  "\002rand48" "\002unmap" "\001nan" "\004osleep" "\002earbyint" "\003xtafter" "\005toward" \
  "\001open" "\00564" "\005at" "\001perror" "\002osix_memalign" "\003w" "\00410" "\002read" \
  "\00664" "\003intf" "\002thread_cond_broadcast" "\016destroy" "\016init" "\016signal" \
  "\016timedwait" "\016wait" "\011equal" "\011getspecific" "\011mutex_destroy" "\017init" \
  "\017lock" "\017timedlock" "\020rylock" "\017unlock" "\016attr_destroy" "\023init" "\023settype" \
  "\011once" "\011rwlock_destroy" "\020init" "\020rdlock" "\020tryrdlock" "\023wrlock" \
  "\020unlock" "\020wrlock" "\011self" "\013tspecific" "\012pin_destroy" "\016init" "\016lock" \
  "\016trylock" "\016unlock" "\002utc" "\005har" "\004s" "\002write" "\00764" "\001qsort" "\006_r" \
  "\001raise" "\003nd" "\005_r" "\005om" "\003wmemchr" "\002ead" "\005link" "\004lloc" "\010array" \
  "\003mainder" "\004ove" "\004quo" "\003name" "\003wind" "\002int" "\002ound" "\006even" \
  "\001scalb" "\006ln" "\006n" "\004nf" "\003hed_getaffinity" "\012cpu" "\007yield" \
  "\002ecure_getenv" "\003m_destroy" "\005getvalue" "\005init" "\005post" "\005timedwait" \
  "\006rywait" "\005wait" "\003tenv" "\004jmp" "\002iglongjmp" "\004nificand" "\003n" "\004cos" \
  "\004h" "\002leep" "\002nprintf" "\002printf" "\002qrt" "\002rand" "\00648" "\006om" "\002scanf" \
  "\002tat" "\00564" "\003derr" "\004in" "\004out" "\003pcpy" "\004ncpy" "\003rcasecmp" "\010str" \
  "\006t" "\005hr" "\007nul" "\005mp" "\005oll" "\005py" "\005spn" "\004dup" "\004error" "\011_r" \
  "\004ftime" "\004len" "\004ncasecmp" "\007t" "\006mp" "\006py" "\005dup" "\005len" "\004pbrk" \
  "\004rchr" "\004sep" "\005ignal" "\005pn" "\005tr" "\004tod" "\006f" "\006imax" "\006k_r" \
  "\006l" "\007d" "\007l" "\006ul" "\010l" "\007max" "\004xfrm" "\002ysconf" "\004tem" "\001tan" \
  "\004h" "\002gamma" "\002ime" "\005spec_get" "\002mpfile" "\002olower" "\003upper" "\002runc" \
  "\001ungetc" "\003link" "\003setenv" "\002sleep" "\001valloc" "\003sprintf" "\002dprintf" \
  "\002fprintf" "\003scanf" "\002printf" "\002scanf" "\003nprintf" "\003printf" "\003scanf" \
  "\001wait" "\005pid" "\002cscmp" "\005py" "\004len" "\004ncpy" "\002memcpy" "\005set" "\002rite" \
  "\001y0" "\0021" "\002n"
#define MB_UNLOAD_SAFE_SIZE 7177
#define MB_UNLOAD_SAFE_SPELLINGS {"__isoc99_", ""}, {"__isoc23_", ""}, {"__", "_chk"}, {"__", "_finite"}
#define MB_LANGUAGE_LIBRARIES "ld-linux\0" "ld-musl\0" "ld64.so\0" "ld.so\0" "libc.\0" "libc++\0" "libdl.\0" "libgcc_s\0" "libm.\0" "libmvec\0" "libpthread.\0" "librt.\0" "libstdc++\0"

#endif
