#!/usr/bin/env bash
# Build for 64-bit Arm with Debian's cross compiler, and run tests under qemu.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tests/support/packages.sh

usage() {
  cat <<'TEXT'
usage: bash tests/aarch64.sh [options]

Cross-compiles into build/aarch64 and runs the tests of the CPU backend under qemu, which has the int8 dot
product. Installs what is missing; for that it adds the architecture arm64 to dpkg. On an Arm machine,
bash tests/run.sh does the same without all this.

  --all           also the tests that take minutes under qemu, those of tests/model and tests/io, and the
                  program build/aarch64/foredraft
  --werror        treat warnings as errors
  --no-install    install no packages
  -j N            parallel jobs (default: the number of processors)
  -h, --help      this text

Exit status: 0 if everything passed, 2 for wrong options, otherwise that of the step that failed.
TEXT
}

install=yes jobs=$(nproc) all=no configure=()
while (( $# > 0 )); do
  case $1 in
    --all) all=yes ;;
    --werror) configure+=(-DFOREDRAFT_WERROR=ON) ;;
    --no-install) install=no ;;
    -j) [[ $# -ge 2 ]] || { usage >&2; exit 2; }; jobs=$2; shift ;;
    -h|--help) usage; exit 0 ;;
    *) echo "tests/aarch64.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

if [[ $install == yes ]]; then
  if command -v dpkg >/dev/null && ! dpkg --print-foreign-architectures | grep -qx arm64; then
    as_root dpkg --add-architecture arm64
  fi
  install_packages g++-aarch64-linux-gnu qemu-user libpcre2-dev:arm64 libstdc++6:arm64
fi

build=build/aarch64
[[ $all == yes ]] && united= || united='backend[.]cpu[.].*'
cache_compilations
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_TOOLCHAIN_FILE="$PWD/tests/support/aarch64.cmake" \
  -DFOREDRAFT_CUDA=OFF -DFOREDRAFT_BENCH=OFF "-DFOREDRAFT_UNITE_TESTS=$united" "${configure[@]}"
if [[ $all == yes ]]; then
  targets=(tests.backend tests.model tests.io foredraft_program)
  select=(-L '^(backend|model|io)$')
else
  mapfile -t targets < <(cmake --build "$build" --target help |
    grep -oE '^(test[.]backend[.]cpu[.][a-z0-9_.]+|tests[.]united)')
  # Operators against the reference: the reference's Eigen is what takes minutes.
  select=(-R '^(united[.]backend|backend[.]cpu)[.]' -E ':(qkv|feed-forward|head)( |$)')
fi
cmake --build "$build" -j "$jobs" --target "${targets[@]}"
ctest --test-dir "$build" -j "$jobs" --output-on-failure --no-tests=error "${select[@]}"
