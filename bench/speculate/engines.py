"""The engines that compare.py lets take turns. Each is a process of its own that has loaded its models before it is timed.

answer(prompt, ids, n, asked) gets the text of a prompt, its tokens with the chat template, the most tokens to write, and
what a way asks for. It returns the `tokens` and, where the engine tells, `rounds`, `drafted`, `accepted` and
`decode_seconds`, the time behind the prompt's reading. An engine
that cannot be started or cannot answer raises EngineError.
"""
import contextlib
import http.client
import json
import pathlib
import re
import socket
import subprocess
import tempfile
import time

CONTEXT = 4096  # of every engine, ours included


class EngineError(Exception):
    pass


class LineProcess:
    """A process that answers lines of JSON with lines of JSON."""

    def __init__(self, command):
        self.log = tempfile.NamedTemporaryFile("w+", prefix="engine.", suffix=".log")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)

    def ask(self, **asked):
        with contextlib.suppress(BrokenPipeError):  # it ended; its last line says why
            print(json.dumps(asked), file=self.process.stdin, flush=True)
        reply = json.loads(self.process.stdout.readline() or "null")
        if not reply:
            raise EngineError("ended: " + last_line(self.log))
        if "error" in reply:
            raise EngineError(reply["error"])
        return reply

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(timeout=60)


class Foredraft(LineProcess):
    def __init__(self, program, target, draft, threads):
        super().__init__([program, "-m", target, "-t", str(threads), *(["-d", draft] if draft else [])])
        self.round = -1
        self.info = self.ask(info=True)

    def encode(self, prompt):
        return self.ask(encode=prompt)["tokens"]

    def begin_round(self, number):
        self.round = number

    def forget(self, asked):
        self.ask(forget=True, round=self.round, **asked)

    def answer(self, prompt, ids, n, asked):
        reply = self.ask(prompt=prompt, n=n, round=self.round, **asked)
        if reply["reused_tokens"]:
            raise EngineError(f"{reply['reused_tokens']} tokens of the prompt were there already")
        return {**reply, "decode_seconds": reply["parts"]["decode"]}


class OpenVino(LineProcess):
    """openvino_worker.py. Its cache of prompts is off, so that it remembers nothing."""

    def __init__(self, python, target, lookup, threads):
        worker = pathlib.Path(__file__).with_name("openvino_worker.py")
        super().__init__([python, worker, target, str(threads), *(["--lookup"] if lookup else [])])
        self.info = self.ask(info=True)

    def begin_round(self, number):
        pass

    def forget(self, asked):
        pass

    def answer(self, prompt, ids, n, asked):
        return self.ask(ids=ids, n=n)


class LlamaServer:
    """llama.cpp's server in one of its modes. ngram-mod remembers what was written: each round has a new process."""

    def __init__(self, program, target, options, threads):
        self.log = tempfile.NamedTemporaryFile("w+", prefix="llama-server.", suffix=".log")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.command = [program, "-m", target, "-c", str(CONTEXT), "-np", "1", "-t", str(threads), "-tb", str(threads),
                        "--host", "127.0.0.1", "--port", str(self.port), "--cache-ram", "0", *options]
        self.start()
        self.info = {"version": version(program), "features": features(program), "options": options}

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        for _ in range(1200):
            time.sleep(0.25)
            if self.process.poll() is not None:
                raise EngineError("ended: " + last_line(self.log))
            try:
                self.request("GET", "/health")
                return
            except (OSError, http.client.HTTPException, EngineError):
                pass
        self.close()
        raise EngineError("llama-server does not become ready")

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            reply = json.loads(response.read())
        finally:
            connection.close()
        if response.status != 200:
            raise EngineError(f"{response.status}: {reply}")
        return reply

    def begin_round(self, number):
        self.close()
        self.start()

    def forget(self, asked):
        pass  # cache_prompt is off

    def answer(self, prompt, ids, n, asked):
        try:
            reply = self.request("POST", "/completion", {
                "prompt": ids, "n_predict": n, "temperature": 0, "top_k": 1, "cache_prompt": False,
                "return_tokens": True})
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise EngineError(str(error)) from error
        if reply["tokens_evaluated"] != len(ids):
            raise EngineError(f"{reply['tokens_evaluated']} tokens of the prompt, not {len(ids)}")
        drafted, accepted = (reply["timings"].get(key, 0) for key in ("draft_n", "draft_n_accepted"))
        tokens = reply["tokens"]
        return {"tokens": tokens, "rounds": len(tokens) - accepted, "drafted": drafted, "accepted": accepted,
                "decode_seconds": reply["timings"]["predicted_ms"] / 1000}

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=60)


class ForedraftServer:
    """`foredraft serve`, without a store of what was read."""

    def __init__(self, program, target, options, threads):
        command = [program, "serve", "-m", target, "-t", str(threads), "-c", str(CONTEXT), "--port", "0", "--cache-ram", "0"]
        self.process = subprocess.Popen([*command, *options], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"serving on http://[\d.]+:(\d+)", line)
            if found:
                self.port = int(found[1])
                return
        raise EngineError("foredraft serve does not become ready")

    def answer(self, prompt, ids, n, asked):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            connection.request("POST", "/v1/completions", json.dumps(
                {"prompt": ids, "max_tokens": n, "temperature": 0, "return_tokens": True}))
            reply = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if "error" in reply:
            raise EngineError(reply["error"]["message"])
        return {"tokens": reply["choices"][0]["tokens"]}

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=60)
        self.process.stderr.close()


def last_line(log):
    lines = pathlib.Path(log.name).read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "said nothing"


def version(program):
    done = subprocess.run([program, "--version"], capture_output=True, text=True)
    return next((line for line in (done.stdout + done.stderr).splitlines() if line.startswith("version")), "")


def features(program):
    """The instruction sets that llama-server was built with; it tells them before it misses its model."""
    done = subprocess.run([program, "-lv", "4", "-m", "/dev/null"], capture_output=True, text=True, timeout=60)
    line = next((line for line in (done.stdout + done.stderr).splitlines() if "system_info" in line), "")
    return line[line.find("system_info"):]
