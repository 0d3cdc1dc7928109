# shellcheck shell=sh disable=SC2154
# `./yotta doctor`: what works on this machine, what does not, and what to do about it. Builds and installs nothing.
# Read by `yotta`, whose functions have, header and installed it uses.

doctor_help() {
  cat <<'END'
Usage: ./yotta doctor [--json | --packages]

Says what works on this machine, and for what does not, why and what to do. Builds and installs nothing.
  --json       the same as JSON
  --packages   the Debian packages of everything, one name=version a line: what is installed here, else what apt-get
               would install. On a machine with a network: apt-get install --download-only $(./yotta doctor --packages)

Ends with 0 if the course can be built, with 1 if something that it needs is missing.
END
}

# report NAME STATE DETAIL [CURE]: STATE is works, off (a feature that nothing else needs) or missing.
report() {
  [ "$2" != missing ] || broken=1
  if [ "$format" = json ]; then
    printf '%s\n    {"name": "%s", "state": "%s", "detail": "%s", "cure": "%s"}' "$comma" "$1" "$2" \
      "$(escape "$3")" "$(escape "${4:-}")"
    comma=,
  else
    printf '  %-8s %-20s %s\n' "$2" "$1" "$3"
    [ -z "${4:-}" ] || printf '  %-8s %-20s %s\n' '' '' "-> $4"
  fi
}
escape() { printf '%s' "$1" | tr -d '\000-\037' | sed 's/\\/\\\\/g; s/"/\\"/g'; }

first_line() { "$@" 2>/dev/null | head -n 1; }

# at_least HAVE WANTED: compares 3.25.1 with 3.25.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

compiler_state() {
  cxx=$(compiler)
  if ! have "$cxx"; then
    report compiler missing "$cxx is not there" "apt-get install g++"
  elif printf '#include <concepts>\n#include <span>\nint main() {}\n' | "$cxx" -std=c++20 -x c++ -fsyntax-only - 2>/dev/null; then
    report compiler works "$(first_line "$cxx" --version)"
  else
    report compiler missing "$cxx does not compile C++20: $(first_line "$cxx" --version)" "g++ 12 or clang 16, or newer"
  fi
}

cmake_state() {
  version=$(cmake --version 2>/dev/null | awk 'NR == 1 { print $3 }')
  if [ -n "$version" ] && at_least "$version" 3.25; then
    report cmake works "$version"
  else
    report cmake missing "${version:-not there}; 3.25 or newer is needed" "apt-get install cmake, or pip install cmake"
  fi
}

# library NAME HEADER PACKAGE: one without which nothing can be built.
library() {
  if header "$2"; then report "$1" works "$2"; else report "$1" missing "$2 is not there" "apt-get install $3"; fi
}

# feature NAME DETAIL PACKAGES CHECK...: one that can be left out. The check prints what is missing.
feature() {
  name=$1 detail=$2 packages=$3
  shift 3
  lack=$("$@")
  if [ -z "$lack" ]; then report "$name" works "$detail"; else
    report "$name" off "$detail; not there:$lack" "apt-get install $packages"
  fi
}
commands() { for each in "$@"; do have "$each" || printf ' %s' "$each"; done; }
packages() { for each in "$@"; do installed "$each" || printf ' %s' "$each"; done; }
headers() { for each in "$@"; do header "$each" || printf ' %s' "$each"; done; }

sandbox_state() {
  about="exercises run shut off from the rest of the machine"
  if ! have bwrap; then
    report sandbox off "$about; not there: bwrap" "apt-get install bubblewrap"
  elif bwrap --ro-bind / / --unshare-all true >/dev/null 2>&1; then
    report sandbox works "$about"
  else
    report sandbox off "bwrap is there, and may make no namespaces here: exercises run behind seccomp or limits" \
      "nothing needs to be done; in a container: docs/installing.md"
  fi
}

gpu_state() {
  if ! have nvcc; then
    report cuda off "nvcc is not there: kernels run in the emulator only" "NVIDIA's CUDA toolkit 12 or 13"
  else
    report cuda works "$(nvcc --version | grep release): compiles kernels"
  fi
  if nvidia-smi -L >/dev/null 2>&1; then
    report gpu works "$(first_line nvidia-smi -L)"
  else
    report gpu off "no NVIDIA GPU that its driver knows; every lesson runs without one"
  fi
}

machine_state() {
  system=$(. /etc/os-release 2>/dev/null && printf '%s' "${PRETTY_NAME:-}")
  if [ "$(uname -s)" = Linux ]; then
    report system works "${system:-Linux}, $(uname -m), $(nproc) cores, $(awk '/MemTotal/ { printf "%.0f GB", $2 / 1e6 }' /proc/meminfo)"
  else
    report system missing "$(uname -s): programs whose ranks are processes use Linux" "a container: docs/installing.md"
  fi
  free=$(df -Pk "$root" | awk 'NR == 2 { printf "%.0f", $4 / 1e6 }')
  if [ "$free" -ge 6 ]; then report disk works "$free GB free"; else
    report disk missing "$free GB free; building everything takes 6" "./yotta clean, or a larger disk"
  fi
  if can_install; then report packages works "missing ones are installed with apt-get when a verb needs them"; else
    report packages off "this user cannot install packages" "as root: ./yotta doctor --packages lists them; docs/installing.md"
  fi
}

all_packages() {
  echo "g++ cmake ninja-build libboost-context-dev libfmt-dev libcli11-dev nlohmann-json3-dev doctest-dev
    openmpi-bin libopenmpi-dev mpich libmpich-dev libopenblas-dev clang-19 clang-tools-19 libclang-rt-19-dev clang-format-14
    libpcre2-dev libutf8proc-dev bubblewrap doxygen unzip ccache mkdocs mkdocs-material katex nodejs universal-ctags lld-19 wasi-libc libc++-19-dev-wasm32
    libc++abi-19-dev-wasm32 libclang-rt-19-dev-wasm32 chromium chromium-driver python3-selenium"
}

print_packages() {
  for package in $(all_packages); do
    version=$(dpkg-query -W -f '${Version}' "$package" 2>/dev/null || true)
    [ -n "$version" ] || version=$(apt-cache policy "$package" 2>/dev/null | awk '/Candidate:/ && $2 != "(none)" { print $2 }')
    if [ -n "$version" ]; then echo "$package=$version"; else say "yotta: this system has no package $package"; fi
  done
}

every_state() {
  machine_state
  compiler_state
  cmake_state
  if have ninja; then report ninja works "$(ninja --version)"; else
    report ninja missing "not there" "apt-get install ninja-build"
  fi
  library Boost.Context boost/context/fiber.hpp libboost-context-dev
  library fmt fmt/core.h libfmt-dev
  library CLI11 CLI/CLI.hpp libcli11-dev
  library nlohmann-json nlohmann/json.hpp nlohmann-json3-dev
  library doctest doctest/doctest.h doctest-dev
  feature mpi "ranks under MPI: --comm mpi" "openmpi-bin libopenmpi-dev" commands mpirun mpicxx
  feature notebooks "cells of the C++ notebooks: ./yotta notebook" "clang-19 clang-tools-19" commands clang++-19 clang-repl-19
  feature tokenizers "tokens of models from elsewhere: train --load" "libpcre2-dev libutf8proc-dev" headers pcre2.h utf8proc.h
  feature openblas "what the matmul's benchmark measures against" libopenblas-dev packages libopenblas-dev
  sandbox_state
  feature docs "the API reference: ./yotta docs" doxygen commands doxygen
  feature book "the course in a browser: ./yotta book" "mkdocs mkdocs-material katex nodejs universal-ctags" packages mkdocs mkdocs-material katex nodejs universal-ctags
  feature figures "figures of the book that move" "clang-19 lld-19 wasi-libc libc++-19-dev-wasm32 libc++abi-19-dev-wasm32 libclang-rt-19-dev-wasm32" \
    packages clang-19 lld-19 wasi-libc libc++-19-dev-wasm32 libc++abi-19-dev-wasm32 libclang-rt-19-dev-wasm32
  feature ccache "builds again in seconds" ccache commands ccache
  gpu_state
}

doctor() {
  format=text broken=0 comma=
  case "$#/${1:-}" in
    0/) every_state ;;
    1/--json)
      format=json
      printf '{"checks": ['
      every_state
      printf '\n  ],\n  "works": %s\n}\n' "$([ "$broken" = 0 ] && echo true || echo false)"
      ;;
    1/--packages) print_packages ;;
    1/--help | 1/-h) doctor_help ;;
    *)
      say "yotta: doctor takes --json or --packages, not '$*'"
      exit 2
      ;;
  esac
  exit "$broken"
}
