#!/usr/bin/env python3
"""What PyTorch makes of a GPU, for bench/gpu.sh: models of the shapes that bench.gpu has, with random weights in bf16.

    python3 bench/gpu/torch_baseline.py RESULT.json [MODEL ...] [--ours GPU.json] [--device cpu] [--tiny]

Plain decoding has a static cache and a forward pass compiled with mode="reduce-overhead", which starts it as a CUDA graph.
Assisted generation is that of transformers, with the model as its own assistant: every draft is right, so that both sides
verify the same. Times are medians of turns; with what bench.gpu found on the same GPU they are compared (G3). `--device cpu --tiny` tries the script on a machine without a GPU; its times
mean nothing. Needs torch and
transformers 5 (tried with torch 2.15 and transformers 5.17).
"""

import argparse
import copy
import json
import pathlib
import statistics
import sys
import time

import torch
import transformers

CONTEXT = 256  # tokens before those that are measured, as in bench.gpu
STEPS = 32  # of a turn
TURNS = 15
DRAFTED = 7  # tokens of a round

# As kModels of bench/gpu/gpu.cu.
SHAPES = {
    "0.6b-bf16": dict(layers=28, heads=16, kv_heads=8, d_head=128, d_model=1024, d_ff=3072, n_vocab=151936),
    "1b-bf16": dict(layers=16, heads=32, kv_heads=8, d_head=64, d_model=2048, d_ff=8192, n_vocab=128256),
}
TINY = dict(layers=2, heads=4, kv_heads=2, d_head=16, d_model=64, d_ff=128, n_vocab=512)


def model_of(shape, device):
    """A model with random weights, made where it will run."""
    config = transformers.LlamaConfig(
        vocab_size=shape["n_vocab"], hidden_size=shape["d_model"], intermediate_size=shape["d_ff"],
        num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"],
        num_key_value_heads=shape["kv_heads"], head_dim=shape["d_head"], tie_word_embeddings=True,
        max_position_embeddings=4096, bos_token_id=0, eos_token_id=None, pad_token_id=0)
    config._attn_implementation = "sdpa"
    torch.manual_seed(1)
    with torch.device(device):
        return transformers.LlamaForCausalLM(config).to(torch.bfloat16).eval()


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def seconds(action, device):
    wait(device)
    begin = time.perf_counter()
    action()
    wait(device)
    return time.perf_counter() - begin


class Plain:
    """Greedy decoding token by token, behind CONTEXT tokens of a static cache."""

    def __init__(self, model, device):
        self.model, self.device = model, device
        self.cache = transformers.StaticCache(config=model.config, max_cache_len=CONTEXT + 64)
        self.prompt = torch.arange(CONTEXT, device=device).reshape(1, -1) % model.config.vocab_size
        # What a cache grows to is compiled once: places are tensors.
        self.forward = torch.compile(self.one, mode="reduce-overhead", fullgraph=True, dynamic=False)
        self.places = [torch.tensor([[CONTEXT + i]], device=device) for i in range(STEPS)]

    def begin(self):
        self.cache.reset()
        positions = torch.arange(CONTEXT, device=self.device).reshape(1, -1)
        logits = self.model(input_ids=self.prompt, position_ids=positions, past_key_values=self.cache).logits
        return logits[:, -1:].argmax(-1)

    def one(self, token, place):
        return self.model(input_ids=token, position_ids=place, past_key_values=self.cache).logits.argmax(-1)

    def step(self, token, place):
        if self.device == "cuda":
            torch.compiler.cudagraph_mark_step_begin()
        return self.forward(token, place).clone()

    def turn(self):
        """Seconds of a token, the reading of the prompt left out."""
        token = self.begin()

        def decode():
            nonlocal token
            for place in self.places:
                token = self.step(token, place)

        return seconds(decode, self.device) / STEPS


class Assisted:
    """transformers' generate(), with the model as its own assistant or without one."""

    def __init__(self, model, device):
        self.model, self.device = model, device
        self.prompt = torch.arange(CONTEXT, device=device).reshape(1, -1) % model.config.vocab_size
        drafting = model.generation_config
        drafting.num_assistant_tokens = DRAFTED
        drafting.num_assistant_tokens_schedule = "constant"
        drafting.assistant_confidence_threshold = 0.0
        self.settings = copy.deepcopy(drafting)
        self.settings.update(do_sample=False, max_new_tokens=STEPS, min_new_tokens=STEPS)

    def turn(self, assistant):
        more = {"assistant_model": self.model} if assistant else {}

        def generate():
            self.model.generate(self.prompt, attention_mask=torch.ones_like(self.prompt),
                                generation_config=self.settings, **more)

        return seconds(generate, self.device) / STEPS


def summary(values):
    """As bench/support/summary.hpp writes it."""
    ordered = sorted(values)

    def quantile(part):
        place = part * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (place - below) * (ordered[above] - ordered[below])

    return {"median": quantile(0.5), "p10": quantile(0.1), "p90": quantile(0.9), "values": values}


def measure(name, shape, device):
    model = model_of(shape, device)
    plain, assisted = Plain(model, device), Assisted(model, device)
    ways = {"compiled": plain.turn, "generate": lambda: assisted.turn(False), "assisted": lambda: assisted.turn(True)}
    found = {way: [] for way in ways}
    for turn in range(TURNS + 2):  # the first ones compile
        for way, run in ways.items():
            one = run()
            if turn >= 2:
                found[way].append(one)
    result = {"model": name, "parameters": sum(p.numel() for p in model.parameters())}
    result["seconds_a_token"] = {way: summary(values) for way, values in found.items()}
    for way, values in found.items():
        print(f"  {name}, {way}: {1e6 * statistics.median(values):.1f} us a token", file=sys.stderr)
    return result


def beside(ours, result):
    """G3: how often our plain decoding has a token while the compiled one has one."""
    for model in result["models"]:
        for mine in ours["models"]:
            if mine["model"] != model["model"]:
                continue
            theirs = model["seconds_a_token"]
            plain = theirs["compiled"]["median"] / mine["rounds"]["plain"]["seconds_a_token"]["median"]
            own_draft = mine["rounds"]["7 drafted by the model itself"]["seconds_a_token"]["median"]
            model["G3"] = {"goal": 1.3, "plain": plain, "assisted": theirs["assisted"]["median"] / own_draft}
            print(f"  {model['model']}: plain {plain:.2f} of PyTorch's (goal 1.3)", file=sys.stderr)


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("result", type=pathlib.Path)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(SHAPES)}; all without one")
    parser.add_argument("--ours", type=pathlib.Path, metavar="GPU.json", help="what bench.gpu wrote")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--tiny", action="store_true", help="a tiny model in place of each")
    options = parser.parse_args()
    for name in options.models:
        if name not in SHAPES:
            parser.error(f"no model {name}; there are {', '.join(SHAPES)}")
    result = {"torch": torch.__version__, "transformers": transformers.__version__, "context": CONTEXT,
              "drafted": DRAFTED,
              "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu"}
    result["models"] = [measure(name, TINY if options.tiny else SHAPES[name], options.device)
                        for name in options.models or SHAPES]
    if options.ours:
        beside(json.loads(options.ours.read_text()), result)
    options.result.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
