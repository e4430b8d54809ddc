"""Traces and what is made of them, as a user meets them: python3 trace_test.py PROGRAM"""

import json
import os
import re
import shutil
import subprocess
import tempfile

import support
from support import CliTest


class Trace(CliTest):
    def traced(self, *arguments, name="trace.ndjson"):
        """What the program says with --json, and the lines of its trace."""
        file = self.folder / name
        found = self.json_lines_of("generate", "-m", self.endless_alphabet(), "--raw", "-p", "abcabc", "-n", 40,
                                   *arguments, "--trace", file)
        return found, [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]

    def test_says_what_happened(self):
        model = self.endless_alphabet()
        for arguments in ((), ("--spec-type", "none"), ("-md", self.twin(model)), ("-md", self.twin(model), "--spec-draft-n-max", 5),
                          ("--temp", 3, "--spec-acceptance", "rejection"), ("--temp", 3, "--spec-acceptance", "block"),
                          ("-md", self.twin(model), "--spec-type", "draft", "--temp", 3, "--spec-draft-n-max", 4,
                           "--spec-acceptance", "rejection")):
            with self.subTest(arguments=arguments):
                [found], lines = self.traced(*arguments)
                begin, *rounds, end = lines
                self.assertEqual("".join(token["text"] for token in begin["prompt"]), "abcabc")
                emitted = [token for line in rounds for token in line["emitted"]]
                self.assertEqual([token["id"] for token in emitted], found["tokens"])
                self.assertEqual([token["from_draft"] for token in emitted], found["from_draft"])
                # Of bytes that make no character each reader replaces as many as it likes at once.
                text, expected = (re.sub("\ufffd+", "", text) for text in
                                  ("".join(token["text"] for token in emitted), found["text"]))
                self.assertEqual(text, expected)
                self.assertEqual(len(rounds), found["stats"]["rounds"])
                nodes = [node for line in rounds for node in line["nodes"]]
                self.assertEqual(len(nodes), found["stats"]["drafted"])
                self.assertEqual(sum(node["accepted"] for node in nodes), found["stats"]["accepted"])
                self.assertEqual(end["finish_reason"], found["finish_reason"])
                self.assertEqual(end["speculation"].splitlines(), found["stats"]["drafters"])
                self.assertGreaterEqual(end["time"], rounds[-1]["time"])
                for line in rounds:
                    self.assertGreater(line["seconds"]["total"], 0)
        # The last of them drew its drafts.
        self.assertGreater(len(nodes), 0)
        for node in nodes:
            self.assertEqual(node["drafter"], "draft")
            self.assertTrue(0 < node["q"] <= 1)
            if node["accepted"]:
                self.assertTrue(0 < node["p"] <= 1)

    def test_does_not_change_the_text(self):
        model = self.endless_alphabet()
        base = ("-md", self.twin(model), "--temp", 2, "--seed", 4)
        [traced], _ = self.traced(*base)
        plain = self.json_of("generate", "-m", model, "--raw", "-p", "abcabc", "-n", 40, "--temp", 2, "--seed", 4,
                             "--spec-type", "none")
        self.assertEqual(traced["tokens"], plain["tokens"])

    def test_samples(self):
        found, lines = self.traced("--temp", 3, "--samples", 3, "--seed", 7)
        self.assertEqual([line["seed"] for line in lines if line["type"] == "text"], [7, 8, 9])
        self.assertEqual(sum(line["type"] == "end" for line in lines), 3)
        self.assertEqual(sum(line["type"] == "round" for line in lines),
                         sum(text["stats"]["rounds"] for text in found))

    def test_files_that_cannot_be_written(self):
        base = ("generate", "-m", self.alphabet(), "--raw", "-p", "a")
        self.fails(1, "[io]", *base, "--trace", self.folder / "no" / "such" / "folder")
        full = support.run(*base, "--trace", "/dev/full")
        self.assertEqual(full.returncode, 1)
        self.assertIn("[io]", full.stderr)
        self.fails(2, "--trace", *base, "--trace", "")


class Report(CliTest):
    def trace(self, *arguments):
        file = self.folder / "trace.ndjson"
        self.succeeds("generate", "-m", self.endless_alphabet(), "--raw", "-p", "abc</script><b>", "-n", 40,
                      *arguments, "--trace", file)
        return file

    def test_page(self):
        file = self.trace("--temp", 3, "--samples", 2)
        self.assertIn("trace.html", self.succeeds("report", file).stdout)
        page = file.with_suffix(".html").read_text(encoding="utf-8")
        self.assertNotIn("@FOREDRAFT_TRACE@", page)
        # Nothing comes from elsewhere, and nothing in the text ends the element that it stands in.
        self.assertIsNone(re.search(r"https?://(?!www\.w3\.org/2000/svg)", page))
        self.assertEqual(page.count("</script>"), 2)
        [data] = re.findall(r'<script id="trace" type="application/json">(.*?)</script>', page, re.DOTALL)
        texts = json.loads(data)
        self.assertEqual(len(texts), 2)
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        self.assertEqual([line for text in texts for line in text["rounds"]],
                         [line for line in lines if line["type"] == "round"])

    def test_page_in_a_browser(self):
        browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if browser is None:
            self.skipTest("no browser: apt-get install chromium")
        file = self.trace("--temp", 3)
        self.succeeds("report", file)
        with tempfile.TemporaryDirectory() as profile:
            done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
                                   f"--user-data-dir={profile}", file.with_suffix(".html").as_uri()],
                                  capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        dom = done.stdout
        self.assertRegex(dom, r"<b>40</b><span>tokens</span>")
        self.assertGreaterEqual(dom.count("data-story="), 40)
        self.assertIn("Where the time went", dom)
        self.assertIn("<rect", dom)

    def chrome(self, file):
        """Events of a trace. Every one of them has what its phase asks for."""
        output = self.folder / "chrome.json"
        self.succeeds("report", file, "--chrome", output)

        def refuse(constant):
            self.fail(constant + " is no JSON")

        whole = json.loads(output.read_text(encoding="utf-8"), parse_constant=refuse)
        for event in whole["traceEvents"]:
            self.assertIn(event["ph"], ("X", "C", "M"))
            self.assertTrue(event["name"])
            self.assertGreaterEqual(event["pid"], 0)
            if event["ph"] != "M":
                self.assertIsInstance(event["ts"], (int, float))
            if event["ph"] == "X":
                self.assertGreaterEqual(event["dur"], 0)
            if event["ph"] == "C":
                self.assertEqual(list(event["args"]), [event["name"]])
        return whole["traceEvents"]

    def test_chrome(self):
        file = self.trace("--samples", 2, "--temp", 3)
        events = self.chrome(file)
        self.assertFalse((self.folder / "trace.html").exists())
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        rounds = [line for line in lines if line["type"] == "round"]

        def named(name):
            return [event for event in events if event["name"] == name]

        self.assertEqual([event["args"]["name"] for event in named("process_name")], ["text 1", "text 2"])
        rows = {event["args"]["name"]: event["tid"] for event in named("thread_name")}
        self.assertEqual(sorted(rows), ["accept", "commit", "draft", "round", "verify"])
        self.assertEqual(len(set(rows.values())), len(rows))
        self.assertEqual(len(named("round")), len(rounds))
        for event, line in zip(named("round"), rounds):
            self.assertEqual(event["args"]["text"], "".join(token["text"] for token in line["emitted"]))
            self.assertAlmostEqual(event["ts"] + event["dur"], 1e6 * line["time"], places=3)
            self.assertAlmostEqual(event["dur"], 1e6 * line["seconds"]["total"], places=3)
        for part in ("draft", "verify", "accept", "commit"):
            found = named(part)
            self.assertEqual({event["tid"] for event in found}, {rows[part]})
            self.assertAlmostEqual(sum(event["dur"] for event in found),
                                   1e6 * sum(line["seconds"][part] for line in rounds), places=2)
        # Slices of a row do not overlap, but for rounding.
        for text in (0, 1):
            for row in rows.values():
                end = 0
                for event in events:
                    if (event["ph"], event["pid"], event.get("tid")) == ("X", text, row):
                        self.assertGreaterEqual(event["ts"], end - 1)
                        end = event["ts"] + event["dur"]

    def test_chrome_counts(self):
        text, first = self.trace().read_text(encoding="utf-8").splitlines()[:2]
        line = json.loads(first)

        def node(parent, accepted):
            return {"id": 1, "text": "a", "parent": parent, "drafter": "x", "accepted": accepted}

        line["nodes"] = [node(0, False), node(0, True), node(1, False), node(3, False), node(2, True)]
        line["emitted"] = [{"id": 1, "text": "a", "from_draft": from_draft} for from_draft in (True, True, False)]
        file = self.write("tree.ndjson", (text + "\n" + json.dumps(line) + "\n").encode())
        counts = {event["name"]: event["args"][event["name"]] for event in self.chrome(file) if event["ph"] == "C"}
        self.assertEqual(counts, {"depth": 3, "accepted": 2})

    def test_chrome_of_nothing(self):
        text = self.trace().read_text(encoding="utf-8").splitlines()[0]
        events = self.chrome(self.write("empty.ndjson", (text + "\n").encode()))
        self.assertEqual({event["ph"] for event in events}, {"M"})

    def test_chrome_of_hostile_text(self):
        text, first = self.trace().read_text(encoding="utf-8").splitlines()[:2]
        hostile = "\"}]}\\\n\r\t\0\x1b[31m</script>\u2028\ufffd\U0001f600"
        line = json.loads(first)
        line["emitted"] = [{"id": 1, "text": hostile, "from_draft": False}] * 2
        for ascii_only in (True, False):
            content = text + "\n" + json.dumps(line, ensure_ascii=ascii_only) + "\n"
            [found] = [event for event in self.chrome(self.write("hostile.ndjson", content.encode()))
                       if event["name"] == "round"]
            self.assertEqual(found["args"]["text"], 2 * hostile)
        damaged = first.encode().replace(b'"text":"', b'"text":"\xff', 1)
        file = self.write("bytes.ndjson", text.encode() + b"\n" + damaged + b"\n")
        self.fails(1, "bytes.ndjson, line 2", "report", file, "--chrome", self.folder / "bytes.json")

    def test_what_a_killed_program_leaves(self):
        file = self.trace()
        whole = file.read_bytes()
        file.write_bytes(whole[:len(whole) // 2])
        self.succeeds("report", file)

    def test_what_is_no_trace(self):
        good = self.trace().read_text().splitlines()
        text, first = good[0], good[1]
        node = next(line for line in good if '"nodes":[{' in line)
        end = good[-1]
        for lines, where in [
            ([], "line 1"),
            (["no JSON"], "line 1"),
            (["[]"], "line 1"),
            (["{}"], "line 1"),
            ([first], "line 1"),
            ([end], "line 1"),
            ([text, first.replace('"nodes"', '"node"')], "line 2"),
            ([text, node.replace('"parent":0', '"parent":7')], "line 2"),
            ([text, node.replace('"parent":0', '"parent":-1')], "line 2"),
            ([text, node.replace('"parent":0', '"parent":"0"')], "line 2"),
            ([text, node.replace('"drafter":"', '"drafter":1,"x":"')], "line 2"),
            ([text, node.replace('"from_draft":', '"from":')], "line 2"),
            ([text, first.replace('"total":', '"totals":')], "line 2"),
            ([text, first.replace('"emitted":[', '"emitted":[[],')], "line 2"),
            ([text, end, first], "line 3"),
            ([text, "[" * 100000], "line 2"),
        ]:
            with self.subTest(lines=[line[:60] for line in lines]):
                file = self.write("bad.ndjson", "".join(line + "\n" for line in lines).encode())
                self.fails(1, "bad.ndjson, " + where, "report", file)
        # Lines of a later version are passed over.
        later = self.write("later.ndjson", "\n".join([text, '{"type":"later"}', first, end, ""]).encode())
        self.succeeds("report", later)

    def refuses_to_overwrite(self, file):
        """Neither the trace nor the page, however they are spelled."""
        before = file.read_bytes()
        link, name = self.folder / "link", self.folder / "name"
        link.symlink_to(file)
        os.link(file, name)
        for output in (file, f"{self.folder}/./trace.ndjson", "trace.ndjson", "./trace.ndjson", link, name):
            for option in ("-o", "--chrome"):
                self.fails(2, "the trace would be lost", "report", file, option, output, cwd=self.folder)
                self.fails(2, "the trace would be lost", "report", file.name, option, output, cwd=self.folder)
        self.assertEqual(file.read_bytes(), before)
        new = self.folder / "new"
        for page, chrome in ((new, new), ("new", "./new"), (new, "new"), (new, self.folder / "link/../new")):
            self.fails(2, "a file for each", "report", file, "-o", page, "--chrome", chrome, cwd=self.folder)
        self.assertFalse(new.exists())
        self.succeeds("report", file, "-o", "new", "--chrome", "newer", cwd=self.folder)

    def test_usage(self):
        file = self.trace()
        self.fails(2, "TRACE", "report")
        self.fails(1, "[io]", "report", self.folder / "none.ndjson")
        self.fails(1, "[io]", "report", file, "-o", self.folder / "no" / "such" / "folder.html")
        self.refuses_to_overwrite(file)
        self.fails(2, "-o", "report", file, "-o", "")


if __name__ == "__main__":
    support.main()
