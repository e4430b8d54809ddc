#!/usr/bin/env bash
# Install what is missing, build, and run the tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tests/support/packages.sh

usage() {
  cat <<'TEXT'
usage: bash tests/run.sh [options]

Installs missing Debian or Ubuntu packages, builds into build/release, fetches smollm2-135m (98 MB)
for the tests that run a real model, and runs all tests. Tests of models that are not there skip
themselves; ctest's summary names them.

  --fast          leave out the model and the tests labelled golden, differential and property
  --sanitize      build with AddressSanitizer and UndefinedBehaviorSanitizer, into build/dev: with the
                  kernels of portable and avx2; clang (CXX=clang++) compiles it in half the time
  --threads       build with ThreadSanitizer, into build/tsan, likewise
  --werror        treat warnings as errors
  --from-nothing  compile several tests of a folder at once: a build from nothing is quicker
  --only FOLDER   build and run the tests of tests/FOLDER alone; may be repeated
  --match REGEX   build and run the programs test.REGEX alone, such as 'model[.].*|decoder'
  --skip REGEX    leave out the tests whose names, PROGRAM:CASE, match
  --no-install    install no packages
  --no-models     fetch no model; tests that need one skip themselves
  --all-models    fetch all models that tests run or tokenize with (2.0 GB instead of 98 MB)
  -j N            parallel jobs (default: the number of processors)
  -h, --help      this text

Models lie in $FOREDRAFT_MODELS, or else in ${XDG_CACHE_HOME:-~/.cache}/foredraft/models.
Exit status: 0 if everything passed, 2 for wrong options, otherwise that of the step that failed.
TEXT
}

preset=release install=yes models=(smollm2-135m) jobs=$(nproc)
only=() configure=() select=() match= skip= fast= from_nothing=
while (( $# > 0 )); do
  case $1 in
    --fast) (( ${#models[@]} > 1 )) || models=(); fast=yes; select+=(-LE '^(golden|differential|property)$') ;;
    --sanitize) preset=dev ;;
    --threads) preset=tsan ;;
    --werror) configure+=(-DFOREDRAFT_WERROR=ON) ;;
    --from-nothing) from_nothing=yes ;;
    --only) [[ $# -ge 2 ]] || { usage >&2; exit 2; }; only+=("$2"); shift ;;
    --match) [[ $# -ge 2 ]] || { usage >&2; exit 2; }; match=$2; shift ;;
    --skip) [[ $# -ge 2 ]] || { usage >&2; exit 2; }; skip=$2; shift ;;
    --no-install) install=no ;;
    --no-models) models=() ;;
    --all-models) models=(smollm2-135m gemma-3-270m qwen2.5-coder-0.5b qwen2.5-coder-1.5b) ;;
    -j) [[ $# -ge 2 ]] || { usage >&2; exit 2; }; jobs=$2; shift ;;
    -h|--help) usage; exit 0 ;;
    *) echo "tests/run.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

if (( ${#models[@]} > 1 )) && [[ $fast == yes ]]; then
  echo "tests/run.sh: --all-models fetches models for tests that --fast leaves out" >&2
  exit 2
fi
if [[ $install == yes ]]; then
  install_packages
fi

build=build/$preset
configure+=("-DFOREDRAFT_UNITE_TESTS=${from_nothing:+${match:-.*}}")
configure_preset "$preset" "${configure[@]}"
targets=()
if (( ${#only[@]} > 0 )); then
  targets=(--target "${only[@]/#/tests.}")
  select+=(-L "^($(IFS='|'; echo "${only[*]}"))\$")
fi
if [[ -n $match ]]; then
  mapfile -t matching < <(cmake --build "$build" --target help | grep -oE '^tests?[.][a-z0-9_.]+' |
    grep -xE "test[.]($match)${from_nothing:+|tests[.]united}")
  (( ${#matching[@]} > 0 )) || { echo "tests/run.sh: no program test.$match" >&2; exit 2; }
  targets=(--target "${matching[@]}")
  select+=(-R "^($match${from_nothing:+|united[.].*}):")
fi
if [[ -n $skip ]]; then
  select+=(-E "$skip")
fi
cmake --build "$build" -j "$jobs" "${targets[@]}"

if (( ${#models[@]} > 0 )); then
  make_venv "$build/venv"
  for model in "${models[@]}"; do
    "$build/venv/bin/python" examples/fetch_model.py "$model"
  done
fi

# The summary is kept for whoever wants to show it again.
ctest --test-dir "$build" -j "$jobs" --output-on-failure --no-tests=error "${select[@]}" |
  tee "$build/ctest.log"
