"""Whole answers, every way to draft beside plain decoding, llama.cpp and OpenVINO, in turns:

    python3 bench/speculate/compare.py FOLDER --program build/release/bench/bench.answers --peers build/peers

A turn is one prompt, answered in every way, in an order that changes from turn to turn. A round is all prompts; another one
begins with new sessions and servers, because drafters remember what was written. The time is that of the whole answer, seen
from outside: reading the prompt, a draft model's reading included, to the last token. Beside it stands the time that the
engine counts behind the prompt's reading, which a draft model's reading belongs to. Ratios are taken turn by turn.

Greedy texts of ours have to be equal, and sampled ones for the seed; the status is 1 where they are not. How far the peers'
texts agree with ours is in the result file. Every turn that is over is kept in FOLDER/NAME-MODEL.turns.jsonl: the same
command goes on there. FOLDER/NAME-MODEL.json is the result. Nothing else may run meanwhile.
"""
import argparse
import collections
import contextlib
import fnmatch
import json
import pathlib
import random
import sys
import time
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import engines
import measured
from peers.compare import not_built_for_this_machine
from run_all import model_file


class Way(NamedTuple):
    engine: str       # a process; llama.cpp and OpenVINO have one for each way
    asked: dict = {}  # what it is asked for beside prompt and length; of llama.cpp, the options it starts with
    base: str = "plain"  # the way whose text it has to have, and whose speed it is compared with


DRAFTERS = ("lookup", "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache", "suffix",
            "suffix-automaton", "recycling")
WARM = {"temperature": 0.7}
OTHER_PLAIN = "plain beside other draft"
WAYS = {
    "plain": Way("ours", {"speculation": "none"}),
    **{name: Way("ours", {"speculation": name}) for name in (*DRAFTERS, "auto")},
    # Under a controller it has no window to learn from.
    "lookahead": Way("ours", {"speculation": "lookahead", "depth": 6}),
    "always wrong": Way("ours", {"speculation": "wrong"}),
    "draft": Way("ours", {"speculation": "draft", "model": True}),
    "auto + draft": Way("ours", {"speculation": "auto", "model": True}),
    "auto + draft, chains": Way("ours", {"speculation": "auto", "model": True, "tree": False}),
    # A process is quicker or slower than its neighbour by where its memory lies: it has a plain way of its own.
    OTHER_PLAIN: Way("ours, other draft", {"speculation": "none"}, OTHER_PLAIN),
    "auto + other draft": Way("ours, other draft", {"speculation": "auto", "model": True}, OTHER_PLAIN),
    "0.7 plain": Way("ours", {"speculation": "none", **WARM}, "0.7 plain"),
    **{f"0.7 {name} match": Way("ours", {"speculation": name, **WARM}, "0.7 plain") for name in DRAFTERS},
    **{f"0.7 {name} {rule}": Way("ours", {"speculation": name.split()[0], "model": "draft" in name,
                                           "acceptance": rule, **WARM}, "0.7 plain")
       for name in ("auto", "draft", "auto + draft") for rule in ("match", "rejection")},
    "llama.cpp plain": Way("llama.cpp", {"options": []}, "llama.cpp plain"),
    "llama.cpp draft-simple": Way("llama.cpp", {"options": ["--spec-type", "draft-simple", "--spec-draft-n-max", "3",
                                                            "-md", "DRAFT"]}, "llama.cpp plain"),
    **{f"llama.cpp {mode}": Way("llama.cpp", {"options": ["--spec-type", mode]}, "llama.cpp plain")
       for mode in ("ngram-mod", "ngram-simple")},
    "openvino plain": Way("openvino", {}, "openvino plain"),
    "openvino lookup": Way("openvino", {"lookup": True}, "openvino plain"),
}
TOLD = ("rounds", "drafted", "accepted", "decode_seconds")  # by an engine, of a text
WARM_UP = "Name three colours."
PAUSE = 0.05  # seconds between two answers, until the threads of one sleep


def start(name, args):
    way = WAYS[name]
    target, draft = (str(model_file(model)) for model in (args.target, args.draft))
    if way.engine == "llama.cpp":
        options = [draft if word == "DRAFT" else word for word in way.asked["options"]]
        engine = engines.LlamaServer(args.peers / "bin/llama-server", target, options, args.threads)
        engine.info["options"] = way.asked["options"]
        missing = not_built_for_this_machine("llama.cpp", engine.info["features"])
        if missing and not args.any_build:
            engine.close()
            raise engines.EngineError(f"built without {', '.join(missing)}, which this machine has (--any-build)")
        engine.info["lacks"] = missing
        return engine
    if way.engine == "openvino":
        return engines.OpenVino(args.peers / "bin/python", target, way.asked.get("lookup"), args.threads)
    if way.engine == "ours, other draft":
        draft = str(model_file(args.other_draft))
    return engines.Foredraft(args.program, target, draft, args.threads)


class Engines:
    """The engine of every way that works; `left_out` says why one does not."""

    def __init__(self, args, names):
        self.by_key, self.of, self.left_out = {}, {}, {}
        for name in names:
            way = WAYS[name]
            key = way.engine if way.engine.startswith("ours") else name
            try:
                if key not in self.by_key:
                    self.by_key[key] = start(name, args)
                self.of[name] = self.by_key[key]
                self.ids = self.by_key["ours"].encode
                self.answer(name, WARM_UP, 8)
            except (OSError, engines.EngineError) as error:
                if name == "plain":
                    raise
                self.left_out[name] = str(error).replace(f"{model_file(args.target).parent}/", "")
                print(f"left out: {name}: {self.left_out[name]}", file=sys.stderr)
                self.of.pop(name, None)
        for name in [name for name in self.of if WAYS[name].base not in self.of]:
            self.left_out[name] = f"{WAYS[name].base} is left out"
            self.of.pop(name)
        for key in set(self.by_key) - {key for key in self.by_key if self.by_key[key] in self.of.values()}:
            self.by_key.pop(key).close()

    def answer(self, name, prompt, n):
        ids = self.ids(prompt)
        self.of[name].forget(WAYS[name].asked)
        time.sleep(PAUSE)
        begin = time.perf_counter()
        answer = self.of[name].answer(prompt, ids, n, WAYS[name].asked)
        return {**answer, "seconds": time.perf_counter() - begin, "prompt_tokens": len(ids)}

    def begin_round(self, number):
        for engine in self.by_key.values():
            engine.begin_round(number)
        for name in self.of:  # memory is taken, as it is by a server that runs
            self.answer(name, WARM_UP, 8)

    def close(self):
        for engine in self.by_key.values():
            engine.close()


def chosen_prompts(args):
    seen = collections.Counter()
    for line in args.prompts.read_text().splitlines():
        prompt = json.loads(line)
        if not args.groups or prompt["group"] in args.groups:
            seen[prompt["group"]] += 1
            if not args.limit or seen[prompt["group"]] <= args.limit:
                yield prompt


def chosen_ways(args):
    patterns = args.only or ["*"]
    names = {name for name in WAYS if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)}
    names |= {WAYS[name].base for name in names} | {"plain"}
    return [name for name in WAYS if name in names]


class Turns:
    """The finished turns of a file, which an interrupted run goes on with."""

    def __init__(self, path, settings):
        self.path, self.turns = path, {}
        lines = path.read_text().splitlines() if path.exists() else []
        if lines and json.loads(lines[0]) != settings:
            sys.exit(f"{path} is of another run: move it away, or give the arguments of that run")
        for line in lines[1:]:
            try:
                turn = json.loads(line)
            except ValueError:
                break  # cut off
            self.turns[turn["round"], turn["id"]] = turn["ways"]
        path.write_text("".join([json.dumps(settings) + "\n", *(self.line(*key) for key in self.turns)]))

    def line(self, number, prompt):
        return json.dumps({"round": number, "id": prompt, "ways": self.turns[number, prompt]}) + "\n"

    def add(self, number, prompt, ways):
        self.turns[number, prompt] = ways
        with self.path.open("a") as file:
            file.write(self.line(number, prompt))

    def require(self, ways):
        for key, turn in self.turns.items():
            if set(turn) != set(ways):
                sys.exit(f"{self.path} has other ways: {', '.join(set(turn) ^ set(ways))}; move it away")


def agreement(a, b):
    """Tokens that two texts begin with in common."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def records(prompts, ways, turns):
    """One record a prompt, with what each way did in each round, and whether its texts are those of its base."""
    out = []
    for prompt in prompts:
        of_prompt = [turns[key] for key in sorted(turns) if key[1] == prompt["id"]]
        if not of_prompt:
            continue
        record = {"id": prompt["id"], "group": prompt["group"], "prompt_tokens": of_prompt[0]["plain"]["prompt_tokens"],
                  "ways": {}}
        for way in ways:
            answers = [turn[way] for turn in of_prompt]
            one = {"seconds": [answer["seconds"] for answer in answers],
                   "tokens": [len(answer["tokens"]) for answer in answers],
                   "same_as_base": all(turn[way]["tokens"] == turn[WAYS[way].base]["tokens"] for turn in of_prompt),
                   "agrees_with_plain": min(agreement(turn[way]["tokens"], turn["plain"]["tokens"])
                                            for turn in of_prompt)}
            one.update({key: [answer[key] for answer in answers] for key in TOLD if all(key in a for a in answers)})
            record["ways"][way] = one
        out.append(record)
    return out


def measure(rounds, prompts, ways, running, turns, n):
    for number in range(rounds):
        left = [prompt for prompt in prompts if (number, prompt["id"]) not in turns.turns]
        if left:
            running.begin_round(number)
        for prompt in left:
            # Who comes behind whom changes with the turn, the same way in a run that goes on.
            order = random.Random(f"{number} {prompt['id']}").sample(ways, len(ways))
            turn = {}
            for way in order:
                turn[way] = running.answer(way, prompt["prompt"], n)
            turns.add(number, prompt["id"], turn)
            speed = {way: len(answer["tokens"]) / answer["seconds"] for way, answer in turn.items()}
            print(f"{number} {prompt['group']} {prompt['id']}: {speed['plain']:.1f} tokens/s,",
                  ", ".join(f"{way} {speed[way] / speed['plain']:.2f}" for way in ways[1:]), file=sys.stderr, flush=True)


def must_be_same(name):
    return WAYS[name].engine.startswith("ours") and WAYS[name].asked.get("acceptance") != "rejection"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="of the result file")
    parser.add_argument("--program", default=measured.ROOT / "build/release/bench/bench.answers", type=pathlib.Path)
    parser.add_argument("--peers", default=measured.ROOT / "build/peers", type=pathlib.Path,
                        help="folder that peers/install.py made")
    parser.add_argument("--prompts", default=measured.ROOT / "bench/prompts/dev.jsonl", type=pathlib.Path,
                        help="lines of JSON with id, group and prompt")
    parser.add_argument("--target", default="qwen2.5-coder-1.5b")
    parser.add_argument("--draft", default="qwen2.5-coder-0.5b")
    parser.add_argument("--other-draft", default="smollm2-135m", help="of another vocabulary")
    parser.add_argument("--only", nargs="*", metavar="WAY", help="names or patterns: " + ", ".join(WAYS))
    parser.add_argument("--groups", nargs="*")
    parser.add_argument("--limit", type=int, default=0, help="prompts of each group [all]")
    parser.add_argument("-n", "--max-tokens", type=int, default=128)
    parser.add_argument("-r", "--rounds", type=int, default=3)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--name", default="answers", help="begins that of the result file [answers]; `turns`: a run of few ways "
                                                          "with several rounds, from which tables take K9")
    parser.add_argument("--any-build", action="store_true", help="accept a llama.cpp of another instruction set")
    args = parser.parse_args()
    prompts, names = list(chosen_prompts(args)), chosen_ways(args)
    args.folder.mkdir(parents=True, exist_ok=True)
    head = measured.origin(args.program)
    settings = {key: getattr(args, key) for key in ("target", "draft", "other_draft", "max_tokens", "threads")}
    path = args.folder / f"{args.name}-{model_file(args.target).stem}.json"
    turns = Turns(path.with_suffix(".turns.jsonl"), {"commit": head["commit"], **settings, "only": names})
    with contextlib.closing(Engines(args, names)) as running:
        ways = list(running.of)
        turns.require(ways)
        head["machine"]["busy_beside_idle_engines"] = measured.busy()
        head.update({**settings, **running.by_key["ours"].info, "rounds": args.rounds,
                     "engines": {key: engine.info for key, engine in running.by_key.items()},
                     "left_out": running.left_out, "ways": {way: WAYS[way].base for way in ways}})
        measure(args.rounds, prompts, ways, running, turns, args.max_tokens)
    result = {**head, "prompts": records(prompts, ways, turns.turns)}
    measured.write(path, result)
    differ = [f"{record['id']} {way}" for record in result["prompts"] for way, one in record["ways"].items()
              if must_be_same(way) and not one["same_as_base"]]
    if differ:
        sys.exit("texts differ from plain decoding: " + ", ".join(differ))


if __name__ == "__main__":
    main()
