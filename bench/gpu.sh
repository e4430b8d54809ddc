#!/usr/bin/env bash
# How fast passes are on a GPU:
#
#   bash bench/gpu.sh FOLDER [build | run] [MODEL ...]
#
# Builds bench.gpu into build/gpu and runs it, for random weights in the shapes of real models: passes of 2 to 64 rows
# against one of one row (G2), and the bytes of weights that a pass of one row reads in a second against those that a copy
# on the GPU reads and writes (G1), in turns; then its operators alone, and whole rounds of decoding. FOLDER gets gpu.json,
# and gpu.log as it goes; without a MODEL chains.json, too: what kernels cost besides what they do. Where python3 has
# torch and transformers, the same models in PyTorch follow (G3, gpu-torch.json). `build` and `run` do one of both, as in tests/gpu.sh. Nothing else may use the GPU meanwhile.
set -euo pipefail
if (( $# == 0 )) || [[ $1 == -* ]]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2
  exit 2
fi
results=$(realpath -m "$1")
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."
what=all
if [[ ${1:-} == build || ${1:-} == run ]]; then what=$1; shift; fi

if [[ $what != run ]]; then
  source tests/support/packages.sh
  install_packages
  configure_preset cuda -B build/gpu -DFOREDRAFT_TESTS=ON -DFOREDRAFT_COMPILED=OFF
  cmake --build build/gpu --target bench.gpu bench.gpu_chains
  { git describe --always --dirty 2> /dev/null || echo unknown; } > build/gpu/tests/cuda/commit
  ldd build/gpu/tests/cuda/bench.gpu | awk '/libpcre2/ {print $3}' | xargs -I{} cp {} build/gpu/tests/cuda/
fi
[[ $what != build ]] || exit 0
mkdir -p "$results"
export LD_LIBRARY_PATH=build/gpu/tests/cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
FOREDRAFT_COMMIT=$(cat build/gpu/tests/cuda/commit) build/gpu/tests/cuda/bench.gpu "$@" \
  2>&1 > "$results/gpu.json.part" | tee "$results/gpu.log" >&2
mv "$results/gpu.json.part" "$results/gpu.json"
(( $# > 0 )) || build/gpu/tests/cuda/bench.gpu_chains > "$results/chains.json"
if python3 -c 'import torch, transformers' 2> /dev/null; then
  models=()
  for model in "$@"; do [[ $model != *-bf16 ]] || models+=("$model"); done
  if (( $# == 0 || ${#models[@]} > 0 )); then
    python3 bench/gpu/torch_baseline.py "$results/gpu-torch.json" "${models[@]}" --ours "$results/gpu.json"
  fi
else
  echo "python3 has no torch or no transformers: no comparison with PyTorch" >&2
fi
