"""Answers of a model under the schemas of schemas.jsonl: python3 answers.py PROGRAM MODEL [NAME ...]

Each is written without drafts, and with them at several depths, greedily and sampled with one seed: the texts must be
equal, and those that end by themselves valid (PyPI `jsonschema`). NAMEs choose some of the schemas.
"""

import json
import pathlib
import subprocess
import sys

import jsonschema

DRAFTS = [("--spec-type", "none"), (), ("--spec-draft-n-max", "1"), ("--spec-draft-n-max", "4"), ("--spec-draft-n-max", "16")]
LAWS = [(), ("--temp", "0.7", "--seed", "3")]


def answer(program, model, entry, how):
    command = [program, "generate", "-m", model, "-p", f"{entry['prompt']} Answer in JSON.", "-n", "160", "--json", "-j",
               json.dumps(entry["schema"]), *how]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{entry['name']}: {done.stderr}")
    return json.loads(done.stdout)


def main(program, model, names):
    wrong = ended = texts = 0
    for line in (pathlib.Path(__file__).parent / "schemas.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if names and entry["name"] not in names:
            continue
        for law in LAWS:
            answers = [answer(program, model, entry, (*law, *drafts)) for drafts in DRAFTS]
            problems = []
            if any((a["text"], a["finish_reason"]) != (answers[0]["text"], answers[0]["finish_reason"]) for a in answers):
                problems.append("another text with drafts")
            if answers[0]["finish_reason"] == "stop":
                ended += 1
                try:
                    jsonschema.Draft202012Validator(
                        entry["schema"], format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER).validate(
                            json.loads(answers[0]["text"]))
                except (ValueError, jsonschema.ValidationError) as error:
                    problems.append(str(error).splitlines()[0])
            texts += 1
            wrong += bool(problems)
            rounds = [a["stats"]["rounds"] for a in answers]
            print(f"{entry['name']} {' '.join(law) or 'greedy'}: {answers[0]['finish_reason']}, rounds {rounds}",
                  *problems, flush=True)
    print(f"{texts} texts, {ended} of them ended by themselves, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
