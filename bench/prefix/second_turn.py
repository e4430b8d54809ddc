"""The time to the first token of a second turn, beside that of a prompt that is read anew:

    python3 bench/prefix/second_turn.py FOLDER --program build/release/bench/bench.answers

The first turn has 2000 tokens of bench/data/text.txt; the second one has a question more, of 32 tokens at most with the marks
around it. It is asked behind the first turn, and where nothing was read before, in turns. FOLDER/second-turn-MODEL.json is the
result. Nothing else may run meanwhile.
"""
import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "speculate"))
import engines
import measured
from run_all import model_file

PLAIN = {"speculation": "none"}
QUESTION = " Which of these sentences is the longest one, and who said it?"
N_PREFIX = 2000
MOST_NEW = 32


def prefix(engine):
    """As much of the text as has so many tokens, with the marks of a turn."""
    text = (measured.ROOT / "bench/data/text.txt").read_text()
    low, high = 0, len(text)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if len(engine.encode(text[:middle])) < N_PREFIX else (low, middle)
    return text[:low]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="of the result file")
    parser.add_argument("--program", default=measured.ROOT / "build/release/bench/bench.answers", type=pathlib.Path)
    parser.add_argument("--target", default="qwen2.5-coder-1.5b")
    parser.add_argument("-r", "--repetitions", type=int, default=5)
    parser.add_argument("-t", "--threads", type=int, default=2)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    head = measured.origin(args.program)
    engine = engines.Foredraft(args.program, str(model_file(args.target)), None, args.threads)
    engine.begin_round(0)
    first = prefix(engine)

    def ask(prompt):
        return engine.ask(prompt=prompt, n=1, round=0, **PLAIN)

    cold, warm = [], []
    for repetition in range(args.repetitions + 1):
        engine.forget(PLAIN)
        anew = ask(first + QUESTION)
        engine.forget(PLAIN)
        ask(first)
        behind = ask(first + QUESTION)
        new = behind["prompt_tokens"] - behind["reused_tokens"]
        if anew["reused_tokens"] > 0 or new > MOST_NEW or anew["tokens"] != behind["tokens"]:
            sys.exit(f"{new} new tokens, or another answer")
        if repetition > 0:  # the first one warms up
            cold.append(anew["seconds"])
            warm.append(behind["seconds"])
    measured.write(args.folder / f"second-turn-{args.target}.json",
                   {**head, "target": args.target, **engine.info, "prompt_tokens": anew["prompt_tokens"], "new_tokens": new,
                    "cold_seconds": cold, "second_turn_seconds": warm})


if __name__ == "__main__":
    main()
