#!/usr/bin/env bash
# Fuzz what reads untrusted bytes, and what remembers sequences, with libFuzzer and sanitizers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/support/packages.sh

usage() {
  cat <<'TEXT'
usage: bash tests/fuzz/run.sh [options] [target...]

Builds the targets, tests/fuzz/TARGET.fuzz.cpp, into build/fuzz and runs each for a while: all of
them, or those named. Needs clang++ 14 or later with its libclang-rt.

  --seconds N   how long each target runs (default: 60)
  -j N          targets at a time (default: the number of processors)
  -h, --help    this text

Inputs that reached new code stay in build/fuzz/corpus/TARGET, and the next run begins with them.
An input that shows a bug lies in build/fuzz/found. To look at it again: build/fuzz/tests/fuzz/fuzz.TARGET
FILE. Once the bug is fixed, it belongs into tests/fuzz/corpus/TARGET, which the tests try.
Exit status: 0 if nothing was found, 1 if something was, 2 for wrong options or what is not installed.
TEXT
}

seconds=60 jobs=$(nproc) targets=()
while (( $# > 0 )); do
  case $1 in
    --seconds) [[ $# -ge 2 && $2 =~ ^[0-9]+$ ]] || { usage >&2; exit 2; }; seconds=$2; shift ;;
    -j) [[ $# -ge 2 && $2 =~ ^[1-9][0-9]*$ ]] || { usage >&2; exit 2; }; jobs=$2; shift ;;
    -h|--help) usage; exit 0 ;;
    -*) echo "tests/fuzz/run.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
    *) targets+=("$1") ;;
  esac
  shift
done
all=(tests/fuzz/*.fuzz.cpp)
all=("${all[@]#tests/fuzz/}")
all=("${all[@]%.fuzz.cpp}")
if (( ${#targets[@]} == 0 )); then
  targets=("${all[@]}")
fi
for target in "${targets[@]}"; do
  if [[ ! -f tests/fuzz/$target.fuzz.cpp ]]; then
    echo "tests/fuzz/run.sh: no target $target; there are: ${all[*]}" >&2
    exit 2
  fi
done

build=$PWD/build/fuzz
mkdir -p "$build/found" "$build/logs"

# The first compiler that can link libFuzzer: clang++ comes without its runtime libraries.
compiler="" version=""
for candidate in clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++-14 clang++; do
  command -v "$candidate" >/dev/null || continue
  version=$("$candidate" -dumpversion)
  (( ${version%%.*} >= 14 )) || continue
  if echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    "$candidate" -x c++ - -fsanitize=fuzzer,address,undefined -o "$build/probe" 2>/dev/null; then
    compiler=$candidate
    break
  fi
done
if [[ -z $compiler ]]; then
  if [[ -n $version ]]; then
    echo "clang++ has no libFuzzer; install libclang-rt-${version%%.*}-dev (elsewhere: compiler-rt)" >&2
  else
    echo "no clang++ 14 or later; install clang and libclang-rt-dev (elsewhere: clang, compiler-rt)" >&2
  fi
  exit 2
fi

cache_compilations
# Debug keeps the assertions of Eigen. The targets ask for -O1 themselves.
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_COMPILER="$compiler" \
  -DFOREDRAFT_LIBFUZZER=ON -DFOREDRAFT_TESTS=ON -DFOREDRAFT_EXAMPLES=OFF -DFOREDRAFT_BENCH=OFF \
  -DFOREDRAFT_COMPILED=OFF -DFOREDRAFT_CUDA=OFF >"$build/logs/cmake.log"
cmake --build "$build" -j "$jobs" --target "${targets[@]/#/fuzz.}"

# Where there is a file system in memory, files that targets make lie there.
scratch=$(mktemp -d -p "$([[ -w /dev/shm ]] && echo /dev/shm || echo "${TMPDIR:-/tmp}")" foredraft.fuzz.XXXXXX)
trap 'rm -rf "$scratch"' EXIT

fuzz() {  # target
  local target=$1 program=$build/tests/fuzz/fuzz.$1 corpus=$build/corpus/$1 committed=()
  mkdir -p "$corpus"
  "$program" --seeds "$corpus" >/dev/null
  if [[ -d tests/fuzz/corpus/$target ]]; then
    committed=("tests/fuzz/corpus/$target")
  fi
  # A single buffer of a gigabyte, or ten seconds for some kilobytes, is a finding, too.
  local status=0
  TMPDIR=$scratch "$program" "$corpus" "${committed[@]}" -max_total_time="$seconds" -timeout=10 \
    -entropic_scale_per_exec_time=1 -rss_limit_mb=3072 -malloc_limit_mb=1024 -artifact_prefix="$build/found/$target-" \
    -print_final_stats=1 >"$build/logs/$target.log" 2>&1 || status=$?
  echo "$status" >"$build/logs/$target.status"
}

running=0
for target in "${targets[@]}"; do
  if (( running == jobs )); then
    wait -n
    running=$((running - 1))
  fi
  fuzz "$target" &
  running=$((running + 1))
done
wait

found=0
printf '\n%-14s %10s %9s  %s\n' target inputs coverage result
for target in "${targets[@]}"; do
  log=$build/logs/$target.log
  inputs=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
  coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  result=nothing
  if [[ $(cat "$build/logs/$target.status") != 0 ]]; then
    found=1
    result=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    result="FOUND ${result:-something without an input, see $log}"
  fi
  printf '%-14s %10s %9s  %s\n' "$target" "${inputs:--}" "${coverage:--}" "$result"
done
if (( found != 0 )); then
  for target in "${targets[@]}"; do
    [[ $(cat "$build/logs/$target.status") != 0 ]] || continue
    printf '\n==== %s (%s)\n' "$target" "$build/logs/$target.log"
    grep -E 'ERROR|runtime error|what\(\)|^SUMMARY|^ +#[0-9]+ .*(include/foredraft|tests/fuzz)/.*pp:' \
      "$build/logs/$target.log" | head -n 12 || true
  done
fi
exit "$found"
