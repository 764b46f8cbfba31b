# mblob_add_library(<name>
#   [MANIFEST model.toml] [KERNELS file...] [OBJECTS file...] [FUNCTIONS prototype...]
#   [BLOBS key=file...] [WEIGHTS file...] [GRAPH file] [PARAMS file]
#   [DIALECT classic|ffi] [OUTPUT file] [COMPILE_OPTIONS option...] [OPTIONS word...])
#
# Packs a library by `mblob-pack build` when the project is built, and again when an input changes: a file named here, a
# header that a kernel includes, mblob-pack itself.
#
# <name> is an imported MODULE library: $<TARGET_FILE:name> is the packed file, by default <name>.so in the binary folder.
# It is part of the target ALL. A program that opens it at run time depends on it: add_dependencies(program <name>).
#   COMPILE_OPTIONS  for the compiler, such as -O3 or -I${CMAKE_CURRENT_SOURCE_DIR}
#   OPTIONS          further words of `mblob-pack build`, such as --digest sha256
# Kernels are compiled by the project's C compiler. MBLOB_PACK names the program mblob-pack where it is not on PATH.
cmake_minimum_required(VERSION 3.20)

function(mblob_add_library name)
  set(one MANIFEST GRAPH PARAMS DIALECT OUTPUT)
  set(several KERNELS OBJECTS FUNCTIONS BLOBS WEIGHTS COMPILE_OPTIONS OPTIONS)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "${one}" "${several}")
  if(arg_UNPARSED_ARGUMENTS)
    list(GET arg_UNPARSED_ARGUMENTS 0 word)
    message(FATAL_ERROR "mblob_add_library(${name}): '${word}' belongs to no keyword; keywords are ${one} ${several}")
  endif()
  foreach(word IN LISTS arg_KEYWORDS_MISSING_VALUES)
    if(NOT word MATCHES "OPTIONS$")
      message(FATAL_ERROR "mblob_add_library(${name}): ${word} has no value: is the variable behind it set?")
    endif()
  endforeach()
  if(NOT (arg_MANIFEST OR arg_KERNELS OR arg_OBJECTS OR arg_BLOBS OR arg_WEIGHTS OR arg_GRAPH))
    message(FATAL_ERROR "mblob_add_library(${name}): nothing to pack: expected KERNELS, OBJECTS, BLOBS, WEIGHTS, GRAPH or MANIFEST")
  endif()
  _mblob_find_pack(pack)

  if(NOT arg_OUTPUT)
    set(arg_OUTPUT "${name}.so")
  endif()
  get_filename_component(output "${arg_OUTPUT}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
  get_filename_component(folder "${output}" DIRECTORY)
  set(words "")
  set(inputs "")
  foreach(kind MANIFEST KERNEL OBJECT WEIGHTS GRAPH PARAMS)
    string(TOLOWER "--${kind}" option)
    foreach(file IN LISTS arg_${kind} arg_${kind}S)
      _mblob_absolute(file)
      if(kind STREQUAL "MANIFEST")
        list(APPEND words "${file}")
      elseif(file MATCHES "\\$<")  # such as $<TARGET_OBJECTS:...>, which is a list
        set(next "$<SEMICOLON>${option}$<SEMICOLON>")
        list(APPEND words "$<$<BOOL:${file}>:${option}$<SEMICOLON>$<JOIN:${file},${next}>>")
      else()
        list(APPEND words ${option} "${file}")
      endif()
      list(APPEND inputs "${file}")
    endforeach()
  endforeach()
  foreach(blob IN LISTS arg_BLOBS)
    if(NOT blob MATCHES "^([^=]+)=(.+)$")
      message(FATAL_ERROR "mblob_add_library(${name}): BLOBS: expected key=file, found '${blob}'")
    endif()
    set(key "${CMAKE_MATCH_1}")
    set(file "${CMAKE_MATCH_2}")
    _mblob_absolute(file)
    list(APPEND words --blob "${key}=${file}")
    list(APPEND inputs "${file}")
  endforeach()
  foreach(function IN LISTS arg_FUNCTIONS)
    list(APPEND words --function "${function}")
  endforeach()
  if(arg_DIALECT)
    list(APPEND words --dialect "${arg_DIALECT}")
  endif()
  if(CMAKE_C_COMPILER AND NOT "--cc" IN_LIST arg_OPTIONS)
    string(REGEX REPLACE "([ \t'\"\\\\])" "\\\\\\1" compiler "${CMAKE_C_COMPILER}") # as --cc takes words apart
    if(CMAKE_C_COMPILER_TARGET)
      string(APPEND compiler " --target=${CMAKE_C_COMPILER_TARGET}")
    endif()
    list(APPEND words --cc "${compiler}")
  endif()
  list(APPEND words ${arg_OPTIONS})
  set(options ${arg_COMPILE_OPTIONS})
  if(CMAKE_SYSROOT)
    list(APPEND options "--sysroot=${CMAKE_SYSROOT}")
  endif()
  if(options)
    list(APPEND words -- ${options})
  endif()

  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${folder}"
    COMMAND ${pack} build -q -o "${output}" --depfile "${output}.d" ${words}
    DEPENDS ${inputs} ${MBLOB_PACK}
    DEPFILE "${output}.d"
    COMMAND_EXPAND_LISTS
    COMMENT "Packing ${arg_OUTPUT}"
    VERBATIM)
  # As DEPENDS, a file called ${name} would stand for the target.
  add_custom_target(${name}_pack ALL SOURCES "${output}")
  # CMake knows that the objects are files, not that they are built before: their targets say so.
  string(REGEX MATCHALL "\\$<TARGET_OBJECTS:[^>]+>" objects "${arg_OBJECTS}")
  list(TRANSFORM objects REPLACE "^.*:|>$" "")
  if(objects)
    add_dependencies(${name}_pack ${objects})
  endif()
  add_library(${name} MODULE IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${output}")
  add_dependencies(${name} ${name}_pack)
endfunction()

# The path of a file named in a CMakeLists.txt; a generator expression stays as it is.
function(_mblob_absolute variable)
  if(NOT "${${variable}}" MATCHES "\\$<")
    get_filename_component(path "${${variable}}" ABSOLUTE)
    set(${variable} "${path}" PARENT_SCOPE)
  endif()
endfunction()

# mblob-pack: that of the environment, or of the folder of `pip install --target`, whose package these files came with, or
# of the checkout, else the one on PATH.
function(_mblob_find_pack result)
  set(here "${CMAKE_CURRENT_FUNCTION_LIST_DIR}")
  set(folder "${here}/../../../../..")
  if(EXISTS "${folder}/mblob/__init__.py")
    set(folder "${folder}/bin")
  else()
    set(folder "")
  endif()
  find_program(MBLOB_PACK mblob-pack
    HINTS "${here}/../../../../../../../../bin" ${folder} "${here}/../../../../.venv/bin" "${here}/../../.venv/bin"
    DOC "the program mblob-pack, by which mblob_add_library packs")
  if(NOT MBLOB_PACK)
    message(FATAL_ERROR "mblob_add_library needs the program mblob-pack, which is not on PATH: pip install mblob, or set MBLOB_PACK")
  endif()
  set(${result} "${MBLOB_PACK}" PARENT_SCOPE)
endfunction()
