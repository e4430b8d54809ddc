"""Answers of a model under the schemas of schemas.jsonl, with each drafter at each depth and without drafts:

    python3 tests/constraint/answers.py MODEL --program build/release/bench/bench.answers --draft OTHER_MODEL

Greedily, and sampled with one seed, all texts of a schema must be equal, and those that end by themselves valid (PyPI
`jsonschema`). A drafter keeps its session from schema to schema, and so all that it has learned.
"""

import argparse
import json
import pathlib
import sys

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/speculate"))
import engines

# Those of the program foredraft; "auto" is all that it takes by itself.
DRAFTERS = ["auto", "lookup", "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache", "suffix",
            "suffix-automaton", "recycling", "lookahead", "self"]
LAWS = {"greedy": 0.0, "temperature .7": 0.7}


def answer(engine, entry, **asked):
    return engine.ask(prompt=f"{entry['prompt']} Answer in JSON.", n=160, schema=json.dumps(entry["schema"]), **asked)


def problem_of(plain, schema):
    """What is wrong with an answer that ended by itself, or None."""
    try:
        checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
        jsonschema.Draft202012Validator(schema, format_checker=checker).validate(json.loads(plain["text"]))
    except (ValueError, jsonschema.ValidationError) as error:
        return str(error).splitlines()[0]
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--program", default=ROOT / "build/release/bench/bench.answers", type=pathlib.Path)
    parser.add_argument("--draft", help="a model that drafts, too")
    parser.add_argument("--depths", type=int, default=16, help="every depth to this one")
    parser.add_argument("--every", type=int, default=1, help="N: at each depth every Nth schema, at the next one others")
    parser.add_argument("--only", nargs="+", help="drafters")
    parser.add_argument("--laws", nargs="+", choices=LAWS, default=list(LAWS))
    parser.add_argument("-t", "--threads", type=int, default=0, help="0: as many as the machine grants")
    args = parser.parse_args()
    lines = (pathlib.Path(__file__).parent / "schemas.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    engine = engines.Foredraft(args.program, args.model, args.draft, args.threads)
    drafters = args.only or [*DRAFTERS, *(["draft"] if args.draft else [])]
    # A new number begins with new sessions.
    sessions = compared = drafted = accepted = wrong = 0
    for law in args.laws:
        temperature = LAWS[law]
        sessions += 1
        plain = [answer(engine, entry, speculation="none", temperature=temperature, round=sessions) for entry in entries]
        ended = [i for i, text in enumerate(plain) if text["finish_reason"] == "stop"]
        for i in ended:
            if problem := problem_of(plain[i], entries[i]["schema"]):
                wrong += 1
                print(f"{law}, {entries[i]['name']}: {problem}", flush=True)
        print(f"{law}: {len(entries)} texts, {len(ended)} of them ended by themselves", flush=True)
        for drafter in drafters:
            for depth in range(1, args.depths + 1):
                sessions += 1
                for i in range(depth % args.every, len(entries), args.every):
                    got = answer(engine, entries[i], speculation=drafter, model=drafter == "draft", depth=depth,
                                 temperature=temperature, round=sessions)
                    compared, drafted = compared + 1, drafted + got["drafted"]
                    accepted += got["accepted"]
                    if any(got[key] != plain[i][key] for key in ("tokens", "text", "finish_reason")):
                        wrong += 1
                        print(f"{law}, {entries[i]['name']}: another text with {drafter}, depth {depth}", flush=True)
            print(f"{law}: {drafter} to depth {args.depths}", flush=True)
    print(f"{compared} texts with drafts, {drafted} tokens drafted, {accepted} of them accepted, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
