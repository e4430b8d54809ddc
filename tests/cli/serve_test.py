"""foredraft serve: requests of the OpenAI API."""

import concurrent.futures
import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import time

import support
from support import CliTest


class Server:
    """The program as a server, and a client of it."""

    def __init__(self, test, *arguments):
        # A parent that ignores SIGINT would hand that down.
        self.process = subprocess.Popen([support.PROGRAM, "serve", "--port", "0", *map(str, arguments)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.said = ""
        test.addCleanup(self.process.kill)
        for line in self.process.stderr:
            self.said += line
            found = re.search(r"serving on http://127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                return
        raise AssertionError(self.said)

    @contextlib.contextmanager
    def send(self, method, path, body=None, key=None, content_type="application/json"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        headers = {"Content-Type": content_type, **({"Authorization": f"Bearer {key}"} if key else {})}
        connection.request(method, path, body if body is None or isinstance(body, (str, bytes)) else json.dumps(body),
                           headers)
        try:
            yield connection.getresponse()
        finally:
            connection.close()

    def get(self, path, **options):
        with self.send("GET", path, **options) as answer:
            return answer.status, answer.read().decode()

    def post(self, path, body, **options):
        with self.send("POST", path, body, **options) as answer:
            return answer.status, json.loads(answer.read())

    def complete(self, prompt, **asked):
        status, answer = self.post("/v1/completions", {"prompt": prompt, **asked})
        if status != 200:
            raise AssertionError(answer)
        return answer

    def events(self, path, **asked):
        with self.send("POST", path, {"stream": True, **asked}) as answer:
            body = answer.read().decode()
        lines = [line.removeprefix("data: ") for line in body.split("\n\n") if line]
        if lines[-1] != "[DONE]" or answer.headers["Content-Type"] != "text/event-stream":
            raise AssertionError(body)
        return [json.loads(line) for line in lines[:-1]]

    def metric(self, name):
        return int(re.search(rf"^foredraft_{name} (\d+)$", self.get("/metrics")[1], re.MULTILINE).group(1))

    def wait_for(self, **metrics):
        end = time.monotonic() + 60
        while any(self.metric(name) != value for name, value in metrics.items()):
            if time.monotonic() > end:
                raise AssertionError(self.get("/metrics")[1])
            time.sleep(0.02)

    def end(self, sent=signal.SIGINT):
        """@return its status and all that it said"""
        self.process.send_signal(sent)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, self.said + err


class Serve(CliTest):
    PROMPTS = ("ab", "uvw", "abcabcab", "z", "mnopqrstuvwxyz", "a", "xyzxyz")

    @contextlib.contextmanager
    def serving(self, *arguments):
        server = Server(self, *arguments)
        try:
            yield server
        finally:
            if server.process.poll() is None:
                status, out, err = server.end()
                self.assertEqual((status, out), (0, ""), err)
            else:
                server.process.communicate()

    def alone(self, model, prompt, *arguments):
        return self.json_of("generate", "-m", model, "--raw", "-p", prompt, "--spec-type", "none", *arguments)

    def test_texts_are_those_of_generate(self):
        model, other = self.endless_alphabet(), self.alphabet("other.gguf")
        for method in ((), ("--spec-type", "none"), ("--spec-type", "lookup", "--spec-draft-n-max", 4),
                       ("-md", other), ("-md", self.twin(model), "--spec-draft-n-max", 3, "--parallel", 1)):
            with self.subTest(method=method), self.serving("-m", model, *method) as server:
                # More at once than it writes at once.
                asked = [(prompt, sampled) for prompt in self.PROMPTS for sampled in (False, True)]
                with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
                    answers = list(pool.map(lambda one: server.complete(
                        one[0], max_tokens=40, **({"temperature": 3, "seed": 7} if one[1] else {})), asked))
                for (prompt, sampled), answer in zip(asked, answers):
                    seed = ("--temp", 3, "--seed", 7) if sampled else ()
                    alone = self.alone(model, prompt, "-n", 40, *seed)
                    self.assertEqual(answer["choices"][0]["text"], alone["text"])
                    self.assertEqual(answer["choices"][0]["finish_reason"], alone["finish_reason"])
                    self.assertEqual(answer["usage"]["prompt_tokens"], alone["stats"]["prompt_tokens"])
                    self.assertEqual(answer["usage"]["completion_tokens"], len(alone["tokens"]))
                if "--spec-draft-n-max" in method:
                    self.assertGreater(server.metric("accepted_tokens_total"), 0)
                self.assertEqual(server.metric("texts_total"), len(asked))

    def test_chat(self):
        model = self.endless_alphabet()
        formatted = "<|im_start|>system\nxy<|im_end|>\n<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\n"
        alone = self.alone(model, formatted, "-n", 9)
        messages = [{"role": "developer", "content": "xy"},
                    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
        with self.serving("-m", model, "--chat-format", "chatml") as server:
            status, answer = server.post("/v1/chat/completions", {"messages": messages, "max_completion_tokens": 9,
                                                                  "user": "one", "model": "any"})
            self.assertEqual(status, 200, answer)
            self.assertEqual((answer["object"], answer["model"]), ("chat.completion", "endless"))
            choice = answer["choices"][0]
            self.assertEqual(choice["message"], {"role": "assistant", "content": alone["text"]})
            self.assertEqual((choice["finish_reason"], choice["logprobs"]), ("length", None))
            events = server.events("/v1/chat/completions", messages=messages, max_tokens=9,
                                   stream_options={"include_usage": True})
            self.assertEqual({event["object"] for event in events}, {"chat.completion.chunk"})
            self.assertEqual(len({event["id"] for event in events} | {answer["id"]}), 2)
            deltas = [event["choices"][0] for event in events[:-1]]
            self.assertEqual([delta["delta"].get("role") for delta in deltas[:2]], ["assistant", None])
            self.assertEqual("".join(delta["delta"].get("content", "") for delta in deltas), alone["text"])
            self.assertEqual([delta["finish_reason"] for delta in deltas[-2:]], [None, "length"])
            self.assertEqual(events[-2]["timings"]["predicted_n"], 9)
            self.assertEqual((events[-1]["choices"], events[-1]["usage"]["completion_tokens"]), ([], 9))
            self.assertIn("endless", server.get("/v1/models")[1])

    def test_no_chat_format(self):
        with self.serving("-m", self.alphabet("no_chat.gguf", chat=None)) as server:
            status, answer = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})
            self.assertEqual((status, answer["error"]["code"]), (400, "unsupported-model"))
            self.assertEqual(server.complete("uvw")["choices"][0]["text"], "xyz")

    def test_what_a_request_may_ask(self):
        model = self.endless_alphabet()
        with self.serving("-m", model, "-n", 5, "--top-p", 0.9, "--temp", 1) as server:
            def text(prompt="ab", **asked):
                choice = server.complete(prompt, **{"temperature": 0, **asked})["choices"][0]
                return choice["text"], choice["finish_reason"]

            self.assertEqual(text(), ("cdefg", "length"))  # -n and the model's default
            self.assertEqual(text(max_tokens=2), ("cd", "length"))
            self.assertEqual(text(n_predict=40, stop="f"), ("cde", "stop"))
            self.assertEqual(text(max_tokens=40, stop=["xx", "gh"]), ("cdef", "stop"))
            self.assertEqual(text(max_tokens=7, regex="[a-e]{3}"), ("cde", "stop"))
            self.assertEqual(text(max_tokens=9, grammar='root ::= "fgh"'), ("fgh", "stop"))
            self.assertEqual(text(json_schema={"enum": ["bc"]})[0], '"bc"')
            schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"const": 12}}}
            self.assertEqual(text(response_format=schema)[0], "12")
            self.assertEqual(text(logit_bias={str(ord("c")): False})[0][0] == "c", False)
            self.assertEqual(text([ord("a"), ord("b")]), ("cdefg", "length"))
            self.assertEqual(server.complete("ab", temperature=0, return_tokens=True)["choices"][0]["tokens"], list(b"cdefg"))
            events = server.events("/v1/completions", prompt="ab", temperature=0, return_tokens=True)
            self.assertEqual(sum((event["choices"][0].get("tokens", []) for event in events), []), list(b"cdefg"))
            self.assertEqual([choice["text"] for choice in server.complete(["ab", "uv"], temperature=0)["choices"]],
                             ["cdefg", "wxyza"])

    def test_several_texts(self):
        model = self.endless_alphabet()
        with self.serving("-m", model, "--temp", 4) as server:
            one, same = (server.complete("ab", n=3, seed=5, max_tokens=30) for _ in range(2))
            texts = [choice["text"] for choice in one["choices"]]
            self.assertEqual([choice["index"] for choice in one["choices"]], [0, 1, 2])
            self.assertEqual(len(set(texts)), 3)
            self.assertEqual(texts, [choice["text"] for choice in same["choices"]])
            self.assertEqual(texts[0], self.alone(model, "ab", "-n", 30, "--temp", 4, "--seed", 5)["text"])
            self.assertEqual(one["usage"]["prompt_tokens"], 2)
            # Without a seed each request has draws of its own.
            free = {server.complete("ab", max_tokens=30)["choices"][0]["text"] for _ in range(3)}
            self.assertEqual(len(free), 3)
            events = server.events("/v1/completions", prompt="ab", n=2, seed=5, max_tokens=30)
            for text in (0, 1):
                parts = [event["choices"][0] for event in events if event["choices"][0]["index"] == text]
                self.assertEqual("".join(part["text"] for part in parts), texts[text])
                self.assertEqual(parts[-1]["finish_reason"], one["choices"][text]["finish_reason"])

    def test_logprobs(self):
        model = self.endless_alphabet()
        alone = self.alone(model, "ab", "-n", 4, "--logprobs", 2)["logprobs"]
        with self.serving("-m", model, "--chat-format", "chatml") as server:
            found = server.complete("ab", max_tokens=4, logprobs=2)["choices"][0]["logprobs"]
            self.assertEqual((found["tokens"], found["text_offset"]), (list("cdef"), [0, 1, 2, 3]))
            self.assertEqual(found["token_logprobs"], [one["logprob"] for one in alone])
            self.assertEqual(list(found["top_logprobs"][0].values()), [value for _, value in alone[0]["top"]])
            streamed = server.events("/v1/completions", prompt="ab", max_tokens=4, logprobs=2)
            for name, values in found.items():
                parts = [event["choices"][0]["logprobs"] for event in streamed[:-1]]
                self.assertEqual(sum((part[name] for part in parts), []), values)
            chat = {"messages": [{"role": "user", "content": "ab"}], "max_tokens": 3, "logprobs": True}
            _, answer = server.post("/v1/chat/completions", {**chat, "top_logprobs": 2})
            choice = answer["choices"][0]
            content = choice["logprobs"]["content"]
            self.assertEqual("".join(one["token"] for one in content), choice["message"]["content"])
            self.assertEqual([one["bytes"] for one in content], [[ord(one["token"])] for one in content])
            for one in content:
                self.assertEqual(len(one["top_logprobs"]), 2)
                self.assertEqual(one["logprob"], one["top_logprobs"][0]["logprob"])
            _, answer = server.post("/v1/chat/completions", chat)
            self.assertEqual(answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"], [])

    def test_what_was_read_is_not_read_again(self):
        with self.serving("-m", self.endless_alphabet(), "--parallel", 2) as server:
            long = "abcdefgh" * 20
            for prompt, known in ((long, 0), (long + "xyz", 160), ("uvw", 0), (long + "abc", 160)):
                usage = server.complete(prompt, max_tokens=3)["usage"]
                # Of what was read, the last token may have to be read again.
                cached = usage["prompt_tokens_details"]["cached_tokens"]
                self.assertTrue(known - 1 <= cached <= known, (prompt, cached))
            self.assertGreaterEqual(server.metric("reused_tokens_total"), 318)

    def test_refusals(self):
        model = self.endless_alphabet()
        with self.serving("-m", model, "-c", 50, "--chat-format", "chatml") as server:
            for expected, body in (
                    ("no JSON", "{"), ("an object", []), ('without "prompt"', {}), ("prompt '3'", {"prompt": 3}),
                    ("without tokens", {"prompt": []}), ("other things", {"prompt": [1.5]}),
                    ("other things", {"prompt": ["a", None]}),
                    ("other things", {"prompt": ["a", 5]}), ("other things", {"prompt": ["a", {"x": 7}]}), ("fewer than the 50", {"prompt": "a" * 50}),
                    ("[token-out-of-range]", {"prompt": [1, 1 << 20]}), ("max_tokens '\"x\"'", {"max_tokens": "x"}),
                    ("from -1 on", {"max_tokens": 1 << 40}), ("from -1 on", {"max_tokens": -2}),
                    ("from -1 on", {"max_tokens": 1.5}), ("from -1 on", {"max_tokens": 1 << 63}),
                    ("several limits", {"max_tokens": 1, "n_predict": 2}), ("temperature", {"temperature": -1}),
                    ("a number", {"temperature": "hot"}), ("a number", {"temperature": 1e300}),
                    ("from 1 to 128", {"n": 0}), ("128 texts", {"prompt": ["a"] * 129}), ("best_of", {"best_of": 3}),
                    ("seed", {"seed": -3}), ("seed", {"seed": "x"}), ("stop", {"stop": 1}), ("stop", {"stop": [1]}), ("stop", {"stop": ["x"] * 17}),
                    ("an empty stop string", {"stop": ""}), ("logit_bias", {"logit_bias": {"x": 1}}),
                    ("logit_bias", {"logit_bias": {"1": "x"}}), ("[token-out-of-range]", {"logit_bias": {"99999": 1}}),
                    ("from 0 to 20", {"logprobs": 21}), ("stream", {"stream_options": {}}), ("echo", {"echo": True}),
                    ("suffix", {"suffix": "x"}), ("[invalid-constraint]", {"grammar": "root ::= ("}),
                    ("[invalid-constraint]", {"regex": "("}), ("response_format", {"response_format": {"type": "x"}}),
                    ("several constraints", {"regex": "a", "grammar": 'root ::= "a"'}),
                    ("too deep", '{"prompt": ' + "[" * 100000 + "]" * 100000 + "}"),
                    ("16384 members in all", {"prompt": "a", "x": {str(i): i for i in range(20000)}})):
                if isinstance(body, dict) and body and "prompt" not in body:
                    body = {"prompt": "ab", **body}
                with self.subTest(body=str(body)[:80]):
                    status, answer = server.post("/v1/completions", body)
                    self.assertEqual(status, 400, answer)
                    self.assertEqual(answer["error"]["type"], "invalid_request_error")
                    self.assertIn(expected, answer["error"]["message"])
            user = {"role": "user", "content": "a"}
            for expected, body in (
                    ("without messages", {}), ("no messages", {"messages": []}), ("an object", {"messages": [3]}),
                    ("without content", {"messages": [{"role": "user"}]}),
                    ("of role", {"messages": [{"role": "tool", "content": "a"}]}),
                    ("image_url", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
                    ("tools", {"messages": [user], "tools": [{}]}),
                    ("top_logprobs", {"messages": [user], "top_logprobs": 1})):
                with self.subTest(body=str(body)[:80]):
                    status, answer = server.post("/v1/chat/completions", body)
                    self.assertEqual(status, 400, answer)
                    self.assertIn(expected, answer["error"]["message"])
            self.assertEqual(server.post("/v1/completions", {"prompt": "a" * 50})[1]["error"]["code"],
                             "context_length_exceeded")
            self.assertEqual(json.loads(server.get("/nothing")[1])["error"]["code"], "status_404")
            self.assertEqual(server.complete("ab", max_tokens=2, max_completion_tokens=2, tools=[], suffix="",
                                             stop=None, seed=-1, repeat_last_n=7, top_k=40)["choices"][0]["text"], "cd")
            self.assertEqual(server.get("/health"), (200, '{"status":"ok"}'))

    def test_large_bodies(self):
        with self.serving("-m", self.endless_alphabet(), "-c", 1 << 15) as server:
            status, answer = server.post("/v1/completions", {"prompt": "ab", "x": "y" * (17 << 20)})
            self.assertEqual((status, answer["error"]["code"]), (413, "body"))
            # What curl says of a body where nobody tells it otherwise.
            status, answer = server.post("/v1/completions", {"prompt": "a" * 20000 + "b", "max_tokens": 2},
                                         content_type="application/x-www-form-urlencoded")
            self.assertEqual((status, answer["choices"][0]["text"]), (200, "cd"))

    def test_key(self):
        with self.serving("-m", self.endless_alphabet(), "--api-key", "open sesame") as server:
            for key in (None, "x", "open", "open sesame!", "open sesamf"):
                status, answer = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1}, key=key)
                self.assertEqual((status, answer["error"]["code"]), (401, "invalid_api_key"))
            status, _ = server.post("/v1/completions", {"prompt": "a", "max_tokens": 1}, key="open sesame")
            self.assertEqual(status, 200)
            self.assertEqual(server.get("/health")[0], 200)
            self.assertEqual(server.get("/metrics")[0], 401)
            status, page = server.get("/")
            self.assertEqual(status, 200)
            self.assertIn("<title>foredraft</title>", page)

    def test_clients_that_leave(self):
        with self.serving("-m", self.endless_alphabet(), "-c", 1 << 19, "--parallel", 1) as server:
            for stream in (True, False):
                connection = socket.create_connection(("127.0.0.1", server.port))
                body = json.dumps({"prompt": "ab", "max_tokens": -1, "stream": stream}).encode()
                connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" %
                                   (len(body), body))
                self.assertIn(b"200 OK", connection.recv(100))
                waits = socket.create_connection(("127.0.0.1", server.port))
                waits.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n{\"prompt\": \"ab\"}")
                server.wait_for(texts_waiting=1)
                waits.close()
                server.wait_for(texts_waiting=0)
                server.wait_for(texts_writing=1)
                connection.close()
                server.wait_for(texts_writing=0)
            self.assertEqual(server.complete("ab", max_tokens=2)["choices"][0]["text"], "cd")
            # Nothing was written for those who left while they waited.
            self.assertEqual(server.metric("texts_total"), 3)

    def test_end(self):
        server = Server(self, "-m", self.endless_alphabet(), "-c", 1 << 19, "--parallel", 1)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            answers = [pool.submit(server.complete, prompt, max_tokens=-1) for prompt in ("ab", "uv")]
            server.wait_for(texts_writing=1, texts_waiting=1)
            status, out, err = server.end(signal.SIGTERM)
            choices = [answer.result()["choices"][0] for answer in answers]
        self.assertEqual((status, out), (0, ""), err)
        self.assertEqual([choice["finish_reason"] for choice in choices], ["cancelled"] * 2)
        self.assertIn("", [choice["text"] for choice in choices])  # of the one that waited
        self.assertIn("texts: 1, ", err)

    def test_usage(self):
        model = self.alphabet()
        with self.serving("-m", model) as server:
            self.fails(1, "which cannot be used", "serve", "-m", model, "--port", server.port)
        self.fails(2, "--port 70000", "serve", "-m", model, "--port", 70000)
        self.fails(2, "--parallel 0", "serve", "-m", model, "--parallel", 0)
        self.fails(1, "which cannot be used", "serve", "-m", model, "--host", "192.0.2.1")
        for option in (("--raw",), ("--regex", "x"), ("--trace", "x"), ("--context-shift",), ("-p", "x")):
            self.fails(2, f"'{' '.join(option)}', which it does not take", "serve", "-m", model, *option)
        # Rules and seeds for requests with a temperature.
        with self.serving("-m", model, "--spec-acceptance", "rejection", "--seed", 3) as server:
            self.assertEqual(server.complete("uvw")["choices"][0]["text"], "xyz")


if __name__ == "__main__":
    support.main()
