#!/usr/bin/env bash
# From nothing to an answer: install what is missing, build, fetch a small model, and ask it the same question
# twice, speculatively and plainly. The two texts must be equal.
#
#   bash examples/quickstart.sh [QUESTION]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source tests/support/packages.sh

model=smollm2-135m
# A refrain repeats words that are in the text already: drafting by lookup finds something to copy.
question=${1:-"Write a short poem about the sea, with a refrain."}

echo "== packages"
install_packages

echo "== build"
build=build/release
configure_preset release
cmake --build "$build" --target foredraft_program -j "$(nproc)"

echo "== model"
make_venv "$build/venv"
"$build/venv/bin/python" examples/fetch_model.py "$model"

answers=$build/quickstart
mkdir -p "$answers"
ask() {  # name, drafting
  echo "== $1 (--spec-type $2)"
  "$build/foredraft" generate -m "$model" --spec-type "$2" -p "$question" -n 128 --json \
    >"$answers/$1.json"
}
ask speculative auto
ask plain none

python3 - "$answers" <<'PYTHON'
import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
speculative, plain = (json.loads((folder / f"{name}.json").read_text())
                      for name in ("speculative", "plain"))
print("\n" + speculative["text"].strip() + "\n")
for name, answer in (("speculative", speculative), ("plain", plain)):
    stats = answer["stats"]
    print(f"{name:12} {stats['tokens_per_second']:8.1f} tokens/s, {len(answer['tokens'])} tokens "
          f"in {stats['rounds']} rounds, {stats['accepted']} of {stats['drafted']} drafted accepted")
if speculative["tokens"] != plain["tokens"] or speculative["text"] != plain["text"]:
    sys.exit("the texts differ:\n" + plain["text"])
print("the texts are equal, token for token")
PYTHON
