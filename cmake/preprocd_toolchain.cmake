# Compiler, linker and sanitizer settings that every target shares.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

# g++ 12 links faster with mold; clang 14 too. Sanitizer builds keep the default linker.
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM AND NOT PREPROCD_SANITIZE AND NOT PREPROCD_FUZZERS)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options(-fno-omit-frame-pointer -fPIC)
add_compile_definitions(_GNU_SOURCE)

if(PREPROCD_SANITIZE)
  add_compile_options(-fsanitize=${PREPROCD_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${PREPROCD_SANITIZE})
endif()
if(PREPROCD_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined)
  add_link_options(-fsanitize=address,undefined)
endif()

# Warnings for our own code; generated code and foreign headers are exempt.
add_library(preprocd_warnings INTERFACE)
target_compile_options(preprocd_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Werror)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(preprocd_warnings INTERFACE
    -Wthread-safety -Werror=thread-safety)
endif()

# g++ 12 at -O3 sees overlapping copies in std::string's operator+ that are not
# there (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(preprocd_warnings INTERFACE -Wno-restrict)
endif()

# For the rooms that compute sizes from foreign numbers.
add_library(preprocd_strict_warnings INTERFACE)
target_compile_options(preprocd_strict_warnings INTERFACE -Wconversion -Wsign-conversion)
