#!/usr/bin/env bash
# Whole answers in every way to draft, beside llama.cpp and OpenVINO GenAI, measured on this machine, from nothing:
#
#   bash bench/speculate/run.sh FOLDER [options of bench/speculate/compare.py]
#
# Installs missing Debian or Ubuntu packages, builds into build/release, fetches three models (1.7 GB), compiles
# llama.cpp's server (5 to 30 minutes, once; PEERS is its folder) and measures: about four hours, or 25 minutes with
# `--limit 2 --only auto 'auto + draft' 'llama.cpp*'`. FOLDER gets the result file and the plot; the tables are printed.
# bench/results/MACHINE publishes them. Interrupted, the same command goes on.
set -euo pipefail
if (( $# == 0 )) || [[ $1 == -* ]]; then
  echo "usage: bash bench/speculate/run.sh FOLDER [options of bench/speculate/compare.py]" >&2
  exit 2
fi
results=$(realpath -m "$1")
peers=$(realpath -m "${PEERS:-$(dirname "${BASH_SOURCE[0]}")/../../build/peers}")
shift
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/support/packages.sh
install_packages

build=build/release
configure_preset release
cmake --build "$build" --target bench.answers
make_venv "$build/venv"
for model in smollm2-135m qwen2.5-coder-0.5b qwen2.5-coder-1.5b; do
  "$build/venv/bin/python" examples/fetch_model.py "$model"
done
if [[ ! -x $peers/bin/llama-server ]] || ! "$peers/bin/python" -c "import openvino_genai, matplotlib"; then
  python3 bench/peers/install.py "$peers" answers
fi
status=0
python3 bench/speculate/compare.py "$results" --program "$build/bench/bench.answers" --peers "$peers" "$@" || status=$?
python3 bench/run_all.py --build "$build" --peers-python "$peers/bin/python" --results "$results" --steps plots
exit "$status"
