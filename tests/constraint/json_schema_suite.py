"""The cases of the public JSON-Schema-Test-Suite (draft 2020-12): python3 json_schema_suite.py FOLDER [--all]

FOLDER is `tests/draft2020-12` of the suite; the source archive of PyPI's `jsonschema` holds it below `json/`.

A value that is not valid must not be written: that is checked for every case. A valid one need not be, since a
constraint leads a model; each that cannot be is listed with the reason. Exit status 1 where an invalid value can
be written, or a valid one cannot be for no known reason.
"""

import collections
import json
import pathlib
import re
import sys

from asking import Foredraft

TYPE_OF_KEYWORD = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
}


def in_order(value, schema):
    """The same value with members in the order in which the schema names them."""
    if isinstance(value, list):
        return [in_order(item, schema) for item in value]
    if not isinstance(value, dict):
        return value
    names = re.findall(r'"((?:[^"\\]|\\.)*)": ', json.dumps(schema))
    place = {name: i for i, name in reversed(list(enumerate(json.loads(f'"{n}"') for n in names)))}
    return {name: in_order(value[name], schema) for name in sorted(value, key=lambda n: place.get(n, 1 << 20))}


def type_name(value):
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def parts_of(schema):
    if isinstance(schema, dict):
        yield schema
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from parts_of(part)


def values_of(value):
    yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from values_of(part)


def reason(schema, value, asserts_formats):
    """Why a valid value cannot be written."""
    parts = list(parts_of(schema))
    values = list(values_of(value))
    formats = {part["format"] for part in parts if isinstance(part.get("format"), str)}
    if formats and isinstance(value, str):
        return f"texts of a format that its pattern leaves out: {', '.join(formats)}" if asserts_formats else (
            "formats are held to, not only noted")
    for part in parts:
        implied = {t for t, keywords in TYPE_OF_KEYWORD.items() if any(k in part for k in keywords)}
        if implied and "type" not in part and any(type_name(v) not in implied for v in values):
            return "keywords of one type, without `type`: values of that type alone"
    for part in parts:
        if "properties" in part and "additionalProperties" not in part and isinstance(value, dict):
            return "members that are not named, without `additionalProperties`"
        if "prefixItems" in part and "items" not in part:
            return "items behind `prefixItems`, without `items`"
        if "required" in part and isinstance(value, dict):
            return "members in another order than `properties` and `required`"
    if isinstance(value, dict) and "const" in schema:
        return "members of a constant in another order"
    if any(isinstance(v, float) for v in values) or isinstance(schema.get("const"), float):
        return "numbers in another spelling: 1.0 for an integer, or more digits"
    return None


def main(folder, every):
    foredraft = Foredraft()
    counts = collections.Counter()
    reasons, refused, wrong = collections.Counter(), collections.Counter(), []
    folder = pathlib.Path(folder)
    for file in sorted([*folder.glob("*.json"), *folder.glob("optional/format/*.json")]):
        for group in json.loads(file.read_text()):
            schema = group["schema"]
            error = foredraft.grammar("schema", json.dumps(schema))
            if error:
                counts["refused schemas"] += 1
                found = re.search(r"a JSON Schema with (.*?) at ", error)
                refused[re.sub(r"(the keyword|the format|the type|two of|parts that differ in) .*?(`.*`).*", r"\1 \2",
                               found[1]) if found else error[:100]] += 1
                if every:
                    print(f"{file.stem}: {group['description']}: {error}")
                continue
            counts["schemas"] += 1
            for case in group["tests"]:
                value, name = case["data"], f"{file.stem}: {group['description']}: {case['description']}"
                spelled = {json.dumps(v, ensure_ascii=ascii) for v in (value, in_order(value, schema))
                           for ascii in (True, False)}
                accepted = any(foredraft.text(text) == "accepted" for text in spelled)
                counts["valid" if case["valid"] else "invalid", accepted] += 1
                if accepted and not case["valid"]:
                    wrong.append(f"WRITTEN, though invalid: {name}: {json.dumps(schema)} {json.dumps(value)}")
                if case["valid"] and not accepted:
                    why = reason(schema, value, file.parent.name == "format")
                    reasons[why] += 1
                    if why is None:
                        wrong.append(f"NOT WRITTEN, though valid: {name}: {json.dumps(schema)} {json.dumps(value)}")
                    elif every:
                        print(f"{name}: {why}: {json.dumps(schema)} {json.dumps(value)}")
    print(*wrong, sep="\n")
    print(f"schemas read: {counts['schemas']}, refused by name: {counts['refused schemas']}")
    print(f"invalid values: {counts['invalid', False]} cannot be written, {counts['invalid', True]} can")
    print(f"valid values: {counts['valid', True]} can be written, {counts['valid', False]} cannot:")
    for why, n in reasons.most_common():
        print(f"  {n:4} {why or 'no known reason'}")
    print("refused:")
    for what, n in refused.most_common():
        print(f"  {n:4} {what}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--all" in sys.argv))
