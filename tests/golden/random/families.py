#!/usr/bin/env python3
"""Small models of random weights, one for each family, with the logits that transformers computes.

    python3 families.py [FAMILY ...]

Needs torch, transformers 5.17 and gguf. Writes FAMILY.gguf beside itself, with the names and the
order of rows that llama.cpp's converter gives tensors, and in the same file, under
`golden.tokens` and `golden.logits`, a text and the logits behind each of its tokens. All that a
family has is there and matters: norms are far from 1, caps bite, windows are shorter than the text.
Matrices are rounded to binary16 before transformers reads them, so that nothing is lost on the way.
"""

import pathlib
import sys

import gguf
import numpy as np
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import golden_file

FOLDER = pathlib.Path(__file__).parent
SIZES = dict(vocab_size=272, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512)
D_HEAD = 16
# Of families whose heads are d_model / n_heads.
ONE_SIZE = dict(head_dim=None, num_attention_heads=2, num_key_value_heads=1)
WINDOW = 8


def randomise(model, seed):
    """Matrices of products about as large as their inputs, vectors from 0.5 to 1.5."""
    random = np.random.default_rng(seed)
    for name, parameter in model.named_parameters():
        shape = tuple(parameter.shape)
        if len(shape) == 1:
            values = random.uniform(0.5, 1.5, shape)
            if "norm" not in name:
                values -= 1  # biases
            elif type(model).__name__ in ("Gemma2ForCausalLM", "Gemma3ForCausalLM"):
                values -= 1  # the family adds 1
        else:
            scale = 1.0 if "embed" in name else 2.0 / np.sqrt(shape[-1])
            values = random.normal(0, scale, shape).astype(np.float16)
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(values.astype(np.float32)))


def interleaved(matrix, n_heads):
    """Rows of heads from two halves to pairs side by side."""
    rows = matrix.reshape(n_heads, 2, -1, matrix.shape[-1])
    return np.ascontiguousarray(rows.swapaxes(1, 2)).reshape(matrix.shape)


class File:
    def __init__(self, architecture, model, config, name=None, base=None):
        self.arch = architecture
        self.name = name or architecture
        self.weights = {name: value.detach().numpy() for name, value in model.named_parameters()}
        self.config = config
        self.writer = gguf.GGUFWriter(FOLDER / f"{self.name}.gguf", architecture)
        self.number("block_count", config.num_hidden_layers)
        self.number("context_length", config.max_position_embeddings)
        self.number("embedding_length", config.hidden_size)
        self.number("feed_forward_length", config.intermediate_size)
        self.number("attention.head_count", config.num_attention_heads)
        self.number("attention.head_count_kv", config.num_key_value_heads)
        self.number("rope.dimension_count", getattr(config, "head_dim", D_HEAD) or D_HEAD)
        self.real("attention.layer_norm_rms_epsilon", config.rms_norm_eps)
        self.real("rope.freq_base", base or config.rope_parameters["rope_theta"])
        self.vocabulary(config.vocab_size)

    def number(self, key, value):
        self.writer.add_uint32(f"{self.arch}.{key}", value)

    def real(self, key, value):
        self.writer.add_float32(f"{self.arch}.{key}", value)

    def instead(self, key, values):
        """An array in place of a number that all layers share."""
        self.writer.kv_data[0].pop(f"{self.arch}.{key}", None)
        self.writer.add_array(f"{self.arch}.{key}", values)

    def head_size(self, size):
        self.number("attention.key_length", size)
        self.number("attention.value_length", size)

    def vocabulary(self, size):
        letters = transformers.convert_slow_tokenizer.bytes_to_unicode()
        tokens = [letters[byte] for byte in range(256)]
        tokens += [f"<|{number}|>" for number in range(256, size)]
        self.writer.add_tokenizer_model("gpt2")
        self.writer.add_tokenizer_pre("gpt-2")
        self.writer.add_token_list(tokens)
        self.writer.add_token_types([1] * 256 + [3] * (size - 256))
        self.writer.add_token_merges([])
        self.writer.add_eos_token_id(256)

    def matrix(self, name, values):
        self.writer.add_tensor(name, np.ascontiguousarray(values.astype(np.float16)))

    def vector(self, name, values):
        self.writer.add_tensor(name, np.ascontiguousarray(values.astype(np.float32)))

    def layers(self, matrices, vectors, change=None, plus=0.0):
        """Tensors of all layers, and those around them; what a layer lacks is left out.
        @param change  of matrices by their name"""
        self.matrix("token_embd.weight", self.weights["model.embed_tokens.weight"])
        self.vector("output_norm.weight", self.weights["model.norm.weight"] + plus)
        if "lm_head.weight" in self.weights:
            self.matrix("output.weight", self.weights["lm_head.weight"])
        for n in range(self.config.num_hidden_layers):
            for to, name in matrices.items():
                values = self.weights.get(f"model.layers.{n}.{name}.weight")
                if values is None:
                    continue
                self.matrix(f"blk.{n}.{to}.weight", change(to, values) if change else values)
            for to, name in vectors.items():
                values = self.weights.get(f"model.layers.{n}.{name}.weight")
                if values is not None:
                    self.vector(f"blk.{n}.{to}.weight", values + plus)

    def turned(self, to, values):
        """Queries and keys of families whose heads turn in adjacent pairs."""
        heads = {"attn_q": self.config.num_attention_heads,
                 "attn_k": self.config.num_key_value_heads}
        return interleaved(values, heads[to]) if to in heads else values

    def write(self, model):
        golden_file.finish(self.writer, model, self.name)


ATTENTION = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
             "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj"}
FEED_FORWARD = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
HEAD_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}


def make(name, seed, text=False, **options):
    """@param text  the family's configuration of text has a name of its own"""
    options = {**SIZES, "head_dim": D_HEAD, "attn_implementation": "eager",
               "eos_token_id": 256, "bos_token_id": None, "pad_token_id": None,
               "tie_word_embeddings": False, **options}
    options = {key: value for key, value in options.items() if key != "head_dim" or value}
    config = getattr(transformers, name + ("TextConfig" if text else "Config"))(**options)
    model = getattr(transformers, name + "ForCausalLM")(config).eval()
    randomise(model, seed)
    return model, config


def llama():
    """Llama 3.1: frequencies divided by factors."""
    scaling = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0,
                   high_freq_factor=4.0, original_max_position_embeddings=64)
    model, config = make("Llama", 1, rope_parameters=scaling)
    file = File("llama", model, config)
    file.head_size(D_HEAD)
    lengths = 2 * np.pi * 10000.0 ** (np.arange(0, D_HEAD, 2) / D_HEAD)
    smooth = np.clip((64 / lengths - 1.0) / (4.0 - 1.0), 0, 1)
    file.vector("rope_freqs.weight", 1 / ((1 - smooth) / 8.0 + smooth))
    file.layers({**ATTENTION, **FEED_FORWARD}, NORMS, file.turned)
    file.write(model)


def mistral3():
    model, config = make("Mistral", 2, sliding_window=None,
                         rope_parameters=dict(rope_type="default", rope_theta=1e6))
    file = File("mistral3", model, config)
    file.head_size(D_HEAD)
    file.layers({**ATTENTION, **FEED_FORWARD}, NORMS, file.turned)
    file.write(model)


def qwen3():
    model, config = make("Qwen3", 3, tie_word_embeddings=True)
    file = File("qwen3", model, config)
    file.head_size(D_HEAD)
    file.layers({**ATTENTION, **FEED_FORWARD}, {**NORMS, **HEAD_NORMS})
    file.write(model)


def qwen3_yarn():
    """A context of 64 positions, stretched: some frequencies stay, some are divided."""
    scaling = dict(rope_type="yarn", rope_theta=10000.0, factor=8.0,
                   original_max_position_embeddings=64)
    model, config = make("Qwen3", 9, tie_word_embeddings=True, rope_parameters=scaling)
    file = File("qwen3", model, config, "qwen3-yarn")
    file.head_size(D_HEAD)
    file.writer.add_string("qwen3.rope.scaling.type", "yarn")
    file.real("rope.scaling.factor", 8.0)
    file.number("rope.scaling.original_context_length", 64)
    file.layers({**ATTENTION, **FEED_FORWARD}, {**NORMS, **HEAD_NORMS})
    file.write(model)


def gemma2():
    """Caps about as large as what they cap."""
    model, config = make("Gemma2", 4, num_hidden_layers=3,
                         tie_word_embeddings=True, sliding_window=WINDOW,
                         query_pre_attn_scalar=D_HEAD, attn_logit_softcapping=2.0,
                         final_logit_softcapping=5.0)
    file = File("gemma2", model, config)
    file.head_size(D_HEAD)
    file.number("attention.sliding_window", WINDOW)
    file.real("attn_logit_softcapping", 2.0)
    file.real("final_logit_softcapping", 5.0)
    norms = {"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm",
             "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}
    file.layers({**ATTENTION, **FEED_FORWARD}, norms, plus=1.0)
    file.write(model)


def gemma4():
    """Two sizes of heads, values made from keys, two layers with the keys of earlier ones, an
    embedding for each layer, and a factor on what each leaves."""
    kinds = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
             "full_attention"]
    full_head, d_input = 32, 8
    model, config = make(
        "Gemma4", 10, text=True, num_hidden_layers=len(kinds), layer_types=kinds,
        global_head_dim=full_head, num_global_key_value_heads=1, attention_k_eq_v=True,
        num_kv_shared_layers=2, use_double_wide_mlp=True, hidden_size_per_layer_input=d_input,
        vocab_size_per_layer_input=SIZES["vocab_size"], sliding_window=WINDOW,
        final_logit_softcapping=5.0, tie_word_embeddings=True)
    scales = [0.7, 1.3, 0.9, 1.1, 0.8]
    for layer, scale in zip(model.model.layers, scales):
        layer.layer_scalar.fill_(scale)
    config.allow_global_per_layer_attribute_access = True  # what layers have otherwise is below
    file = File("gemma4", model, config, base=1e6)
    near = [kind == "sliding_attention" for kind in kinds]
    del file.writer.kv_data[0]["gemma4.rope.dimension_count"]
    for kind, size in (("", full_head), ("_swa", D_HEAD)):
        file.number(f"attention.key_length{kind}", size)
        file.number(f"attention.value_length{kind}", size)
        file.number(f"rope.dimension_count{kind}", size)
    file.real("rope.freq_base_swa", 10000.0)
    file.number("attention.sliding_window", WINDOW)
    file.instead("attention.sliding_window_pattern", near)
    file.instead("attention.head_count_kv", [2 if x else 1 for x in near])
    file.instead("feed_forward_length", [48, 48, 48, 96, 96])
    file.number("attention.shared_kv_layers", 2)
    file.number("embedding_length_per_layer_input", d_input)
    file.real("final_logit_softcapping", 5.0)
    turned = int(full_head * 0.25 / 2)
    file.vector("rope_freqs.weight", np.array([1.0] * turned + [1e30] * (full_head // 2 - turned)))
    file.matrix("per_layer_token_embd.weight", file.weights["model.embed_tokens_per_layer.weight"])
    file.matrix("per_layer_model_proj.weight",
                file.weights["model.per_layer_model_projection.weight"])
    file.vector("per_layer_proj_norm.weight",
                file.weights["model.per_layer_projection_norm.weight"])
    norms = {"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm",
             "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm",
             "post_norm": "post_per_layer_input_norm"}
    file.layers({**ATTENTION, **FEED_FORWARD, "inp_gate": "per_layer_input_gate",
                 "proj": "per_layer_projection"}, {**norms, **HEAD_NORMS})
    for n, scale in enumerate(scales):
        file.vector(f"blk.{n}.layer_output_scale.weight", np.array([scale]))
    file.write(model)


def granite():
    model, config = make("Granite", 5, **ONE_SIZE, tie_word_embeddings=True, embedding_multiplier=3.0,
                         attention_multiplier=0.1, residual_multiplier=0.3, logits_scaling=4.0)
    file = File("granite", model, config)
    file.real("embedding_scale", 3.0)
    file.real("attention.scale", 0.1)
    file.real("residual_scale", 0.3)
    file.real("logit_scale", 4.0)
    file.layers({**ATTENTION, **FEED_FORWARD}, NORMS, file.turned)
    file.write(model)


def olmo2():
    model, config = make("Olmo2", 6, **ONE_SIZE)
    file = File("olmo2", model, config)
    norms = {"post_attention_norm": "post_attention_layernorm",
             "post_ffw_norm": "post_feedforward_layernorm"}
    file.layers({**ATTENTION, **FEED_FORWARD}, {**norms, **HEAD_NORMS})
    file.write(model)


def phi3():
    """Phi 3.5: fused tensors, part of each head turns, two sets of factors, and a window."""
    n_rot = 12
    random = np.random.default_rng(70)
    short = [float(x) for x in random.uniform(1, 2, n_rot // 2)]
    long = [float(x) for x in random.uniform(4, 8, n_rot // 2)]
    scaling = dict(rope_type="longrope", rope_theta=10000.0, short_factor=short, long_factor=long,
                   partial_rotary_factor=n_rot / D_HEAD, original_max_position_embeddings=128)
    model, config = make("Phi3", 7, **ONE_SIZE, sliding_window=WINDOW, rope_parameters=scaling,
                         original_max_position_embeddings=128)
    file = File("phi3", model, config)
    del file.writer.kv_data[0]["phi3.rope.dimension_count"]
    file.number("rope.dimension_count", n_rot)
    file.number("attention.sliding_window", WINDOW)
    file.number("rope.scaling.original_context_length", 128)
    stretch = 512 / 128
    file.real("rope.scaling.attn_factor", float(np.sqrt(1 + np.log(stretch) / np.log(128))))
    file.vector("rope_factors_long.weight", np.array(long))
    file.vector("rope_factors_short.weight", np.array(short))
    matrices = {"attn_qkv": "self_attn.qkv_proj", "attn_output": "self_attn.o_proj",
                "ffn_up": "mlp.gate_up_proj", "ffn_down": "mlp.down_proj"}
    file.layers(matrices, NORMS)
    file.write(model)


def qwen3moe():
    """Few experts, of which rows take more than one."""
    n_experts, n_used, d_ff = 5, 3, 16
    model, config = make("Qwen3Moe", 8, tie_word_embeddings=True, num_experts=n_experts,
                         num_experts_per_tok=n_used, moe_intermediate_size=d_ff,
                         norm_topk_prob=True)
    file = File("qwen3moe", model, config)
    file.head_size(D_HEAD)
    file.number("expert_count", n_experts)
    file.number("expert_used_count", n_used)
    file.number("expert_feed_forward_length", d_ff)
    file.layers(ATTENTION, {**NORMS, **HEAD_NORMS})
    for n in range(config.num_hidden_layers):
        experts = file.weights[f"model.layers.{n}.mlp.experts.gate_up_proj"]
        file.vector(f"blk.{n}.ffn_gate_inp.weight",
                    file.weights[f"model.layers.{n}.mlp.gate.weight"])
        file.matrix(f"blk.{n}.ffn_gate_exps.weight", experts[:, :d_ff])
        file.matrix(f"blk.{n}.ffn_up_exps.weight", experts[:, d_ff:])
        file.matrix(f"blk.{n}.ffn_down_exps.weight",
                    file.weights[f"model.layers.{n}.mlp.experts.down_proj"])
    file.write(model)


FAMILIES = {f.__name__: f for f in (llama, mistral3, qwen3, qwen3_yarn, gemma2, gemma4, granite, olmo2,
                                 phi3, qwen3moe)}

if __name__ == "__main__":
    for family in sys.argv[1:] or FAMILIES:
        FAMILIES[family]()
