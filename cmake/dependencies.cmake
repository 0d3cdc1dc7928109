# Installed packages first, then a pinned copy from the net. What is optional is never fetched.
include(FetchContent)

# yotta_dependency(NAME package-of-Debian git-repository tag [find_package arguments])
macro(yotta_dependency name package repository tag)
  find_package(${name} ${ARGN} QUIET)
  if(NOT ${name}_FOUND)
    message(STATUS "${name} is not installed (Debian, Ubuntu: apt-get install ${package}); fetching ${repository} ${tag}")
    FetchContent_Declare(${name} GIT_REPOSITORY https://github.com/${repository} GIT_TAG ${tag} GIT_SHALLOW ON SYSTEM)
    FetchContent_MakeAvailable(${name})
  endif()
endmacro()

yotta_dependency(fmt libfmt-dev fmtlib/fmt 9.1.0 9.1)

find_package(Boost 1.74 CONFIG QUIET COMPONENTS context)
if(NOT Boost_FOUND)
  message(FATAL_ERROR "Boost.Context 1.74 or newer is needed and was not found.\n"
          "  Debian, Ubuntu: apt-get install libboost-context-dev\n"
          "  macOS:          brew install boost\n"
          "  elsewhere:      cmake -DBoost_DIR=<folder of BoostConfig.cmake>")
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(nlohmann_json QUIET)

if(YOTTA_DEVELOP)
  yotta_dependency(doctest doctest-dev doctest/doctest v2.4.11)
  yotta_dependency(nlohmann_json nlohmann-json3-dev nlohmann/json v3.11.2)
  if(NOT YOTTA_TESTS_ONLY)
    yotta_dependency(CLI11 libcli11-dev CLIUtils/CLI11 v2.3.2)
  endif()
endif()
