"""How far logits are from the golden ones of llama.cpp, per model: python3 bench/agreement.py build/release/foredraft

Writes bench/results/agreement.json: the mean absolute difference of the golden best token's log probability, and the
positions at which the best token is the same.
"""
import json
import subprocess
import sys
import tempfile

import measured

origin = measured.origin(sys.argv[1])
results = {}
for name in ("smollm2-135m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"):
    differences, same = [], 0
    for line in (measured.ROOT / "tests/golden/data" / f"{name}.logits.jsonl").read_text().splitlines():
        golden = json.loads(line)
        with tempfile.NamedTemporaryFile("w", suffix=".txt", newline="") as text:
            text.write(golden["text"])
            text.flush()
            command = [sys.argv[1], "logits", "-m", name, "-f", text.name, "--top", "20", "--json"]
            ours = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for mine, theirs in zip(ours["top"], golden["top"], strict=True):
            same += mine[0][0] == theirs[0][0]
            differences.append(abs(dict(map(tuple, mine))[theirs[0][0]] - theirs[0][1]))
    results[name] = {"positions": len(differences), "same_best": same,
                     "mean_difference": round(sum(differences) / len(differences), 5)}
measured.write(measured.RESULTS / "agreement.json", {**origin, "models": results})
print(json.dumps(results, indent=1))
