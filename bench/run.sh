#!/usr/bin/env bash
# Everything that docs/design/measurements.md and the pages of its machines show, but whole answers (speculate/run.sh),
# measured on this machine, from nothing:
#
#   bash bench/run.sh FOLDER [options of bench/run_all.py]
#
# Installs missing Debian or Ubuntu packages, builds into build/release, fetches three models (1.7 GB), compiles
# llama.cpp and ik_llama.cpp (15 to 60 minutes, once) and runs bench/run_all.py (about 30 minutes). FOLDER gets the
# result files and plots; bench/results/MACHINE publishes them.
set -euo pipefail
if (( $# == 0 )) || [[ $1 == -* ]]; then
  echo "usage: bash bench/run.sh FOLDER [options of bench/run_all.py]" >&2
  exit 2
fi
results=$(realpath -m "$1")
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tests/support/packages.sh
install_packages libbenchmark-dev python3-dev

build=build/release
configure_preset release
cmake --build "$build" -j "$(nproc)"
make_venv "$build/venv"
for model in smollm2-135m qwen2.5-coder-0.5b qwen2.5-coder-1.5b; do
  "$build/venv/bin/python" examples/fetch_model.py "$model"
done
peers=build/peers
if [[ ! -x $peers/bin/python ]] || ! "$peers/bin/python" -c "import llama_cpp, ik_llama_cpp, matplotlib" 2>/dev/null; then
  python3 bench/peers/install.py "$peers" libraries
fi
python3 bench/run_all.py --build "$build" --peers-python "$peers/bin/python" --results "$results" "$@"
