#!/usr/bin/env bash
# Whether kernels are right, on a GPU:
#
#   bash tests/gpu.sh [build | run]
#
# Builds test.gpu into build/gpu, the tests of tests/backend/cuda compiled for a GPU, and runs them: products in every
# format, and layers at 1 to 64 rows, against the reference and against the row alone; caches; tiny models whose drafted
# text has to be the plain one; then the values of the host's execution of the same kernels; then a part of all under the
# memory and race checkers of compute-sanitizer, where it is installed. `build` and `run` do one of both: a machine with a
# GPU needs no compiler then, only build/gpu/tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
what=${1:-all}
[[ $what =~ ^(all|build|run)$ ]] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2; exit 2; }

if [[ $what != run ]]; then
  source tests/support/packages.sh
  install_packages
  configure_preset cuda -B build/gpu -DFOREDRAFT_TESTS=ON -DFOREDRAFT_COMPILED=OFF
  cmake --build build/gpu --target test.gpu test.gpu_host_values
  # A machine that only runs them may have no such library.
  ldd build/gpu/tests/cuda/test.gpu | awk '/libpcre2/ {print $3}' | xargs -I{} cp {} build/gpu/tests/cuda/
fi
[[ $what != build ]] || exit 0

programs=build/gpu/tests/cuda
export LD_LIBRARY_PATH=$programs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
values=$(mktemp)
trap 'rm -f "$values"' EXIT
"$programs/test.gpu_host_values" "$values"
FOREDRAFT_HOST_VALUES=$values "$programs/test.gpu" --durations yes
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck synccheck initcheck; do
    echo "compute-sanitizer: $tool"
    compute-sanitizer --tool "$tool" --error-exitcode 3 "$programs/test.gpu" \
      "products are right*,matrices that share*,rows of more sequences*,a tensor core*"
  done
else
  echo "no compute-sanitizer here: its checks were left out" >&2
fi
