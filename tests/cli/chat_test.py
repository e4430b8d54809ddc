"""`foredraft chat` as a user meets it: python3 chat_test.py PROGRAM"""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import support
import tiny_gguf
from support import CliTest, wait_for_handler

ALPHABET = "abcdefghijklmnopqrstuvwxyz"


class Terminal:
    """The program with a terminal as all three streams."""

    def __init__(self, *arguments):
        self.controller, terminal = pty.openpty()
        self.process = subprocess.Popen(
            [support.PROGRAM, *map(str, arguments)], stdin=terminal, stdout=terminal, stderr=terminal,
            start_new_session=True, preexec_fn=self.take_control,
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"})
        os.close(terminal)
        self.seen = ""

    def write(self, text):
        os.write(self.controller, text.encode())

    @staticmethod
    def take_control():
        """So that Ctrl-C is a signal."""
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def interrupt(self):
        self.write("\x03")

    def wait_for(self, text, seconds=60):
        """What came up to and with the text."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            left = end - time.monotonic()
            if left < 0 or not select.select([self.controller], [], [], left)[0]:
                raise AssertionError(f"no {text!r} in {self.seen!r}")
            try:
                block = os.read(self.controller, 65536)
            except OSError:  # the far end is closed
                block = b""
            if not block:
                raise AssertionError(f"the end, and no {text!r} in {self.seen!r}")
            self.seen += block.decode(errors="replace")
        found, self.seen = self.seen.split(text, 1)
        return found + text

    def end(self):
        """The exit status, and all that was written until then."""
        while select.select([self.controller], [], [], 60)[0]:
            try:
                block = os.read(self.controller, 65536)
            except OSError:
                break
            if not block:
                break
            self.seen += block.decode(errors="replace")
        os.close(self.controller)
        return self.process.wait(60), self.seen


class Chat(CliTest):
    def chat(self, *arguments, lines, model=None, status=0):
        done = support.run("chat", "-m", model or self.alphabet(), *arguments, stdin="".join(f"{l}\n" for l in lines))
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def reused(self, done):
        """(tokens of the prompt, read, reused) of each /stats"""
        return [tuple(map(int, numbers)) for numbers in
                re.findall(r"last prompt: (\d+) tokens, (\d+) read, (\d+) reused", done.stderr)]

    def test_turns(self):
        done = self.chat(lines=["Hi", "", "And now?", "/quit", "never read"])
        self.assertEqual(done.stdout, f"{ALPHABET}\n{ALPHABET}\n")
        self.assertEqual(done.stderr, "")

    def test_only_what_is_new_is_read(self):
        done = self.chat(lines=["Hi", "/stats", "And now?", "/stats"])
        (first, _, _), (second, read, reused) = self.reused(done)
        new = len("\n" + "?user\n" + "And now?" + "?\n" + "?assistant\n")  # ? a special token
        self.assertEqual(second, first + len(ALPHABET) + 1 + new)
        self.assertEqual(read, new + 1)  # and the answer's last token, the anchor
        self.assertEqual(reused, second - read)

    def test_drafted_text_is_the_plain_one(self):
        lines = ["abcabcabc", "efgefg", "xyz"]
        plain = self.chat("--spec-type", "none", lines=lines).stdout
        for more in ((), ("--spec-type", "lookup", "--spec-draft-n-max", 5), ("-md", self.endless_alphabet())):
            self.assertEqual(self.chat(*more, lines=lines).stdout, plain, more)
        sampled = ("--temp", 1.5, "--seed", 4, "-n", 40)
        self.assertEqual(self.chat(*sampled, lines=lines).stdout,
                         self.chat(*sampled, "--spec-type", "none", lines=lines).stdout)

    def test_trace_has_a_text_for_each_answer(self):
        file = self.folder / "chat.ndjson"
        done = self.chat("--trace", file, "-md", self.endless_alphabet(), "--spec-draft-n-max", 5,
                         lines=["abc", "/stats", "xyz", "/undo", "again"])
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        texts = [line for line in lines if line["type"] == "text"]
        self.assertEqual([len(text["prompt"]) for text in texts[:1]], [self.reused(done)[0][0]])
        for text, message in zip(texts, ("abc", "xyz", "again"), strict=True):
            self.assertIn(message, "".join(token["text"] for token in text["prompt"]))
        self.assertNotIn("xyz", "".join(token["text"] for token in texts[2]["prompt"]).replace(ALPHABET, ""))
        self.assertEqual([line["finish_reason"] for line in lines if line["type"] == "end"], ["stop"] * 3)
        emitted = [token for line in lines if line["type"] == "round" for token in line["emitted"]]
        self.assertEqual("".join(token["text"] for token in emitted), ALPHABET * 3)
        self.assertTrue(any(token["from_draft"] for token in emitted))
        page = self.folder / "chat.html"
        self.succeeds("report", file, "-o", page)
        self.assertEqual(page.read_text(encoding="utf-8").count('"type":"text"'), 3)
        self.fails(2, "--trace with --context-shift", "chat", "-m", self.alphabet(), "--trace", file, "--context-shift")

    def test_system_prompt(self):
        without = self.chat(lines=["Hi", "/stats"])
        told = self.chat("-sys", "Be brief.", lines=["Hi", "/stats"])
        self.assertEqual(self.reused(told)[0][0],
                         self.reused(without)[0][0] + len("?system\n" + "Be brief." + "?\n"))
        # It was read before the message came.
        self.assertGreater(self.reused(told)[0][2], len("Be brief."))

    def test_reset_and_undo(self):
        done = self.chat(lines=["Hi", "/stats", "More", "/undo", "Else", "/stats", "/reset", "Hi", "/stats", "/undo", "/undo"],
                         status=1)
        first, _, third = self.reused(done)
        self.assertEqual(third[0], first[0])
        self.assertGreater(third[2], 0)
        self.assertIn("a message to take back", done.stderr)
        self.assertEqual(done.stdout, f"{ALPHABET}\n" * 4)

    def test_long_messages_and_slashes(self):
        done = self.chat(lines=["one \\", "two", "/stats", "/reset", "//two", "/stats"])
        (first, _, _), (second, _, _) = self.reused(done)
        self.assertEqual(first - second, len("one \ntwo") - len("/two"))

    def test_a_last_line_that_does_not_go_on(self):
        for text, as_long in (("Hi\\", "Hi!"), ("Hi\\\n", "Hi!"), ("Hi\\\nyou\\\n", "Hi you!"), ("\\", "!")):
            done = support.run("chat", "-m", self.alphabet(), stdin=text)
            self.assertEqual((done.returncode, done.stdout), (0, ALPHABET + "\n"), done.stderr)
            refused, other = (support.run("chat", "-m", self.alphabet(), "-c", 20, stdin=t) for t in (text, as_long))
            self.assertIn("shorten the prompt by", refused.stderr)
            self.assertEqual(refused.stderr, other.stderr)

    def test_commands_that_make_no_sense(self):
        for line, expected in (("/what", "'/what', which is no command"), ("/save", "/save without a file"),
                               ("/reset now", "/reset alone"), ("/undo", "to take back"),
                               ("/save x", "a conversation to save"), ("/load /no/such", "[io]")):
            done = self.chat(lines=[line, "Hi"], status=1)
            self.assertIn(expected, done.stderr)
            self.assertEqual(done.stdout, ALPHABET + "\n")
        self.assertIn("/load FILE", self.chat(lines=["/help"]).stderr)
        self.assertIn("no answer yet", self.chat(lines=["/stats"]).stderr)

    def test_usage(self):
        self.fails(2, "--keep", "chat", "-m", self.alphabet(), "--keep", 4)
        self.fails(2, "-p", "chat", "-m", self.alphabet(), "-p", "x")
        self.fails(1, "--chat-format", "chat", "-m", self.write("turns.gguf", tiny_gguf.alphabet_model(chat="what?")))

    def test_options_of_sampling(self):
        """Those of `generate`."""
        model, lines = self.endless_alphabet(), ["abc", "xyz"]
        for options in (("--dry-multiplier", 60), ("--bad-word", "h"), ("-l", f"{ord('k')}-inf"), ("--min-tokens", 20),
                        ("--temp", 1, "--xtc-probability", 0.5, "--xtc-threshold", 0.001),
                        ("--temp", 1, "--mirostat", 2), ("--temp", 3, "--top-k", 9, "--samplers", "top_k;temperature")):
            plain = self.chat("-n", 40, *options, "--spec-type", "none", lines=lines, model=model).stdout
            drafted = self.chat("-n", 40, *options, "--spec-draft-n-max", 5, lines=lines, model=model).stdout
            self.assertEqual(drafted, plain, options)
        self.assertNotIn("h", self.chat("-n", 40, "--bad-word", "h", lines=lines, model=model).stdout)
        self.assertNotIn("k", self.chat("-n", 40, "-l", f"{ord('k')}-inf", lines=lines, model=model).stdout)
        self.assertGreater(len(self.chat("--min-tokens", 40, lines=["Hi"]).stdout), len(ALPHABET) + 1)
        budget = ("--reasoning-budget-message", "ok.", "--reasoning-format", "deepseek")
        self.assertEqual(self.chat(*budget, "--reasoning-budget", 3, lines=["Hi"]).stdout, ALPHABET + "\n")
        self.fails(2, "without --reasoning-budget", "chat", "-m", model, *budget)
        self.fails(2, "min_tokens 20", "chat", "-m", model, "-n", 10, "--min-tokens", 20)
        self.fails(2, "--samplers", "chat", "-m", model, "--samplers", "foo")

    def test_context(self):
        done = self.chat("-c", 80, lines=["Hi", "Hi", "Hi"], status=1)
        self.assertIn("context of 80 tokens is full", done.stderr)
        self.assertIn("[context-overflow]", done.stderr)
        self.assertRegex(done.stderr, r"shorten the prompt by \d+ tokens")
        lines = ["Hi", "you there", "abcabc", "Hi"]
        shifted = [self.chat("-c", 80, "--context-shift", *more, lines=lines, model=self.endless_alphabet())
                   for more in (("-n", 100), ("-n", 100, "--spec-type", "none"), ("-n", 100, "--spec-draft-n-max", 7))]
        self.assertEqual(shifted[0].stdout, (ALPHABET * 4)[:100] + "\n" + ((ALPHABET * 4)[:100] + "\n") * 3)
        self.assertEqual({done.stdout for done in shifted}, {shifted[0].stdout})
        self.assertEqual(shifted[0].stderr, "")


class Interrupts(CliTest):
    """SIGINT while messages come from a pipe ends the program, whatever it does."""

    def open(self, *arguments):
        # A parent that ignores SIGINT would hand that down.
        process = subprocess.Popen([support.PROGRAM, "chat", "-m", self.endless_alphabet(), *map(str, arguments)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(process.kill)
        wait_for_handler(process.pid)
        return process

    def send(self, process, text):
        process.stdin.write(text)
        process.stdin.flush()

    def wait_until_read(self, process):
        while struct.unpack("i", fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4)))[0] > 0:
            time.sleep(0.001)

    def ends(self, process, written):
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 130)  # while there might be more to read
        self.assertEqual(process.communicate()[0], written)

    def test_in_a_message_that_goes_on(self):
        process = self.open("-n", 5)
        self.send(process, b"Hi\n")
        self.assertEqual(process.stdout.read(6), b"abcde\n")
        self.send(process, b"one \\\n")
        self.wait_until_read(process)
        self.ends(process, b"")

    def test_before_the_first_message(self):
        process = self.open("-n", 5)
        self.ends(process, b"")

    def test_while_the_system_prompt_is_read(self):
        process = self.open("-n", 5, "-c", 1 << 17, "--system-prompt", "a" * 100000)
        self.send(process, b"Hi\n")
        self.ends(process, b"")


class Files(CliTest):
    def setUp(self):
        self.model = self.alphabet()

    def chat(self, *arguments, lines, status=0):
        done = support.run("chat", "-m", self.model, *arguments, stdin="".join(f"{l}\n" for l in lines))
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def saved(self, name, *arguments):
        file = self.folder / name
        self.chat(*arguments, lines=["Hi", "You", f"/save {file}"])
        return file

    def test_goes_on(self):
        file = self.saved("talk")
        whole = self.chat(lines=["Hi", "You", "And now?", "/stats"])
        rest = self.chat(lines=[f"/load {file}", "And now?", "/stats"])
        self.assertEqual(rest.stdout, ALPHABET + "\n")
        numbers = r"last prompt: .*"
        self.assertEqual(re.search(numbers, rest.stderr)[0], re.search(numbers, whole.stderr)[0])
        # What was said before can be taken back.
        undone = self.chat(lines=[f"/load {file}", "/undo", "/undo", "Hi", "/stats"])
        self.assertRegex(undone.stderr, r"last prompt: \d+ tokens, \d+ read, [1-9]\d* reused")

    def test_a_draft_model_comes_along(self):
        draft = ("-md", self.endless_alphabet())
        file = self.saved("drafted", *draft)
        self.assertNotIn("drafters are others", self.chat(*draft, lines=[f"/load {file}"]).stderr)
        for other in ((), ("--spec-type", "none"), ("--spec-type", "lookup")):
            done = self.chat(*other, lines=[f"/load {file}", "Hi"])
            self.assertIn("drafters are others", done.stderr)
            self.assertEqual(done.stdout, ALPHABET + "\n")

    def test_bad_files(self):
        good = self.saved("good").read_bytes()
        middle = len(good) // 2
        for name, data, expected in [
            ("cut", good[:-3], "[corrupt-file]"),
            ("empty", b"", "[corrupt-file]"),
            ("longer", good + b"x", "[corrupt-file]"),
            ("bit", good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1:], "[corrupt-file]"),
            ("header", good[:40] + bytes([good[40] ^ 1]) + good[41:], "[corrupt-file]"),
            ("version", good[:8] + b"\x01" + good[9:], "version 1"),
            ("text", b"what was said\n" * 20, "[corrupt-file]"),
        ]:
            file = self.write(name, data)
            done = self.chat(lines=["Hi", f"/load {file}", "Hi"], status=1)
            self.assertIn(expected, done.stderr)
            self.assertIn(str(file), done.stderr)
            self.assertEqual(done.stdout, f"{ALPHABET}\n" * 2)  # the conversation goes on
            self.assertEqual(file.read_bytes(), data)

    def test_foreign_files(self):
        file = self.saved("mine")
        for other in (self.endless_alphabet(), self.write("wide.gguf", tiny_gguf.alphabet_model(head_size=64))):
            done = support.run("chat", "-m", other, stdin=f"/load {file}\nHi\n")
            self.assertIn("[unsupported-model]", done.stderr)
            self.assertIn('what "alphabet (', done.stderr)
            self.assertTrue(done.stdout.startswith(ALPHABET))
        wide = self.folder / "wide.gguf"
        self.assertEqual(support.run("chat", "-m", wide, stdin=f"Hi\n/save {self.folder}/wide\n").returncode, 0)
        done = support.run("chat", "-m", wide, "-ctk", "q8_0", "-ctv", "q8_0", stdin=f"/load {self.folder}/wide\n")
        self.assertIn("cache q8_0", done.stderr)
        letters = tiny_gguf.byte_alphabet()
        letters[0], letters[1] = letters[1], letters[0]
        other = self.write("letters.gguf", tiny_gguf.alphabet_model(letters=letters))
        self.assertIn("[vocabulary-mismatch]", support.run("chat", "-m", other, stdin=f"/load {file}\n").stderr)

    def test_other_instruction_sets_compute_other_bits(self):
        file = self.saved("portable", "--isa", "portable")
        self.assertEqual(self.chat("--isa", "portable", lines=[f"/load {file}", "Hi"]).stdout, ALPHABET + "\n")
        if ", portable)" not in self.chat(lines=["Hi", "/stats"]).stderr:  # there are wider ones
            self.assertIn("[unsupported-model]", self.chat(lines=[f"/load {file}"], status=1).stderr)

    def test_prompt_cache(self):
        file = self.folder / "prompt"
        base = ("generate", "-m", self.model, "--raw", "-n", 5)
        begin = "a document that is long enough to be worth it. "
        plain = self.json_of(*base, "-p", begin + "And?")
        first = self.json_of(*base, "-p", begin + "What?", "--prompt-cache", file)
        self.assertEqual(first["stats"]["reused_tokens"], 0)
        second = self.json_of(*base, "-p", begin + "And?", "--prompt-cache", file)
        self.assertEqual(second["tokens"], plain["tokens"])
        self.assertEqual(second["stats"]["prompt_tokens"], plain["stats"]["prompt_tokens"])
        self.assertGreaterEqual(second["stats"]["reused_tokens"], len(begin))
        again = self.json_of(*base, "-p", begin + "And?", "--prompt-cache", file)
        self.assertEqual(again["stats"]["reused_tokens"], again["stats"]["prompt_tokens"] - 1)
        self.assertEqual(again["tokens"], plain["tokens"])
        bad = self.write("bad", file.read_bytes()[:-1])
        self.fails(1, "[corrupt-file]", *base, "-p", begin, "--prompt-cache", bad)


class AtATerminal(CliTest):
    def open(self, *arguments):
        terminal = Terminal("chat", *arguments)
        self.addCleanup(terminal.process.kill)
        terminal.wait_for("> ")
        return terminal

    def test_a_conversation(self):
        terminal = self.open("-m", self.alphabet())
        terminal.write("Hi\n")
        terminal.wait_for(ALPHABET)
        terminal.wait_for("> ")
        terminal.write("you\n")
        terminal.wait_for(ALPHABET)
        terminal.wait_for("> ")
        terminal.write("\x04")
        self.assertEqual(terminal.end()[0], 0)

    def test_an_end_that_is_typed_ahead(self):
        terminal = self.open("-m", self.endless_alphabet(), "-n", 3000)
        terminal.write("Hi\n")
        terminal.wait_for(ALPHABET)
        terminal.write("\x04")
        self.assertEqual(terminal.end()[0], 0)

    def test_an_interrupt_ends_the_answer_and_not_the_program(self):
        terminal = self.open("-m", self.endless_alphabet(), "-c", 100000)
        for _ in range(2):
            terminal.write("Hi\n")
            terminal.wait_for(ALPHABET * 3)
            terminal.interrupt()
            terminal.wait_for("cancelled")
            terminal.wait_for("> ")
        terminal.interrupt()
        terminal.wait_for("Ctrl-D or /quit ends")
        terminal.wait_for("> ")
        terminal.write("half a message")
        terminal.wait_for("half a message")
        terminal.interrupt()
        terminal.wait_for("> ")
        terminal.write("Hi\n")  # and nothing of the half
        terminal.wait_for(ALPHABET)
        terminal.interrupt()
        terminal.wait_for("> ")
        terminal.write("/stats\n")
        new = len("?\n" + "?user\n" + "Hi" + "?\n" + "?assistant\n")
        self.assertIn(f"{new + 1} read", terminal.wait_for("reused"))
        terminal.wait_for("> ")
        terminal.write("/quit\n")
        self.assertEqual(terminal.end()[0], 0)

    def test_lines_are_edited(self):
        terminal = self.open("-m", self.alphabet())
        terminal.write("/whxt\x7f\x7fat\n")
        terminal.wait_for("'/what', which is no command")
        terminal.wait_for("> ")
        terminal.write("/quit\n")
        self.assertEqual(terminal.end()[0], 0)


if __name__ == "__main__":
    support.main()
