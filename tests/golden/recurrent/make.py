#!/usr/bin/env python3
"""Small models of random weights with recurrent layers, and the logits that transformers computes.

    python3 make.py [FAMILY ...]

Needs torch, transformers 5.17 and gguf. Writes FAMILY.gguf beside itself, with the names that
llama.cpp's converter gives tensors, and in the same file, under `golden.tokens` and `golden.logits`,
a text and the logits behind each of its tokens. Matrices are rounded to binary16 before transformers
reads them, so that nothing is lost on the way; transformers computes in binary32.
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
N_VOCAB = 272
D_MODEL = 32
N_CTX = 512


def randomise(model, seed):
    """Matrices of products about as large as their inputs; vectors around 1, biases around 0."""
    random = np.random.default_rng(seed)
    for name, parameter in model.named_parameters():
        shape = tuple(parameter.shape)
        if "conv" in name and len(shape) == 3:
            values = random.normal(0, 1 / np.sqrt(shape[-1]), shape)
        elif len(shape) == 1:
            values = random.uniform(0.5, 1.5, shape) - (1.0 if "bias" in name else 0.0)
        else:
            scale = 1.0 if "embed" in name else 1.5 / np.sqrt(shape[-1])
            values = random.normal(0, scale, shape).astype(np.float16)
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(values.astype(np.float32)))


class File:
    def __init__(self, architecture, model):
        self.arch = architecture
        self.weights = {name: value.detach().numpy() for name, value in model.named_parameters()}
        self.unread = set(self.weights)
        self.writer = gguf.GGUFWriter(FOLDER / f"{architecture}.gguf", architecture)
        letters = transformers.convert_slow_tokenizer.bytes_to_unicode()
        self.writer.add_tokenizer_model("gpt2")
        self.writer.add_tokenizer_pre("gpt-2")
        self.writer.add_token_list([letters[byte] for byte in range(256)] +
                                   [f"<|{number}|>" for number in range(256, N_VOCAB)])
        self.writer.add_token_types([1] * 256 + [3] * (N_VOCAB - 256))
        self.writer.add_token_merges([])
        self.writer.add_eos_token_id(256)

    def numbers(self, **values):
        for key, value in values.items():
            name = f"{self.arch}.{key.replace('__', '.')}"
            if isinstance(value, list):
                self.writer.add_array(name, value)
            elif isinstance(value, float):
                self.writer.add_float32(name, value)
            else:
                self.writer.add_uint32(name, value)

    def take(self, name):
        self.unread.discard(name)
        return self.weights[name]

    def matrix(self, to, name):
        self.writer.add_tensor(to, np.ascontiguousarray(self.take(name).astype(np.float16)))

    def floats(self, to, values):
        self.writer.add_tensor(to, np.ascontiguousarray(values.astype(np.float32)))

    def vector(self, to, name):
        self.floats(to, self.take(name))

    def write(self, model):
        assert not self.unread, self.unread
        golden_file.finish(self.writer, model, self.arch)


COMMON = dict(vocab_size=N_VOCAB, hidden_size=D_MODEL, eos_token_id=256, bos_token_id=None,
              pad_token_id=None)


def lfm2():
    kinds = ["conv", "full_attention", "conv"]
    config = transformers.Lfm2Config(
        **COMMON, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1,
        intermediate_size=48, block_auto_adjust_ff_dim=False, max_position_embeddings=N_CTX,
        conv_L_cache=3, conv_bias=False, layer_types=kinds, tie_word_embeddings=True,
        attn_implementation="eager")
    model = transformers.Lfm2ForCausalLM(config).eval()
    randomise(model, 1)
    file = File("lfm2", model)
    file.numbers(block_count=3, context_length=N_CTX, embedding_length=D_MODEL,
                 feed_forward_length=48, attention__head_count=2,
                 attention__head_count_kv=[int(kind == "full_attention") for kind in kinds],
                 attention__layer_norm_rms_epsilon=float(config.norm_eps),
                 rope__freq_base=float(config.rope_parameters["rope_theta"]), shortconv__l_cache=3,
                 vocab_size=N_VOCAB)
    file.matrix("token_embd.weight", "model.embed_tokens.weight")
    file.vector("token_embd_norm.weight", "model.embedding_norm.weight")
    for n, kind in enumerate(kinds):
        to, name = f"blk.{n}.", f"model.layers.{n}."
        file.vector(to + "attn_norm.weight", name + "operator_norm.weight")
        file.vector(to + "ffn_norm.weight", name + "ffn_norm.weight")
        for part, of in dict(ffn_gate="w1", ffn_down="w2", ffn_up="w3").items():
            file.matrix(f"{to}{part}.weight", f"{name}feed_forward.{of}.weight")
        if kind == "conv":
            file.matrix(to + "shortconv.in_proj.weight", name + "conv.in_proj.weight")
            file.matrix(to + "shortconv.out_proj.weight", name + "conv.out_proj.weight")
            file.floats(to + "shortconv.conv.weight", file.take(name + "conv.conv.weight")[:, 0])
            continue
        for part, of in dict(attn_q="q_proj", attn_k="k_proj", attn_v="v_proj",
                             attn_output="out_proj").items():
            file.matrix(f"{to}{part}.weight", f"{name}self_attn.{of}.weight")
        for part in "qk":
            file.vector(f"{to}attn_{part}_norm.weight", f"{name}self_attn.{part}_layernorm.weight")
    file.write(model)


def scan(file, to, name, n_groups):
    """The tensors of a selective scan."""
    file.matrix(to + "ssm_in.weight", name + "in_proj.weight")
    file.matrix(to + "ssm_out.weight", name + "out_proj.weight")
    file.floats(to + "ssm_conv1d.weight", file.take(name + "conv1d.weight")[:, 0])
    file.vector(to + "ssm_conv1d.bias", name + "conv1d.bias")
    file.vector(to + "ssm_dt.bias", name + "dt_bias")
    file.floats(to + "ssm_a", -np.exp(file.take(name + "A_log"))[:, None])
    file.floats(to + "ssm_d", file.take(name + "D")[:, None])
    file.floats(to + "ssm_norm.weight", file.take(name + "norm.weight").reshape(n_groups, -1))


def mamba2():
    """Heads of 16 dimensions, states of 16; decays from slow to fast."""
    config = transformers.Mamba2Config(
        **COMMON, num_hidden_layers=2, expand=2, head_dim=16, num_heads=4, state_size=16, n_groups=1,
        conv_kernel=4, chunk_size=8, use_bias=False, use_conv_bias=True, tie_word_embeddings=True)
    model = transformers.Mamba2ForCausalLM(config).eval()
    randomise(model, 2)
    file = File("mamba2", model)
    file.numbers(block_count=2, context_length=N_CTX, embedding_length=D_MODEL,
                 feed_forward_length=0, attention__head_count=0,
                 attention__layer_norm_rms_epsilon=float(config.layer_norm_epsilon),
                 ssm__conv_kernel=4, ssm__inner_size=64, ssm__state_size=16, ssm__time_step_rank=4,
                 ssm__group_count=1, vocab_size=N_VOCAB)
    file.matrix("token_embd.weight", "backbone.embeddings.weight")
    file.vector("output_norm.weight", "backbone.norm_f.weight")
    for n in range(2):
        to, name = f"blk.{n}.", f"backbone.layers.{n}."
        file.vector(to + "attn_norm.weight", name + "norm.weight")
        scan(file, to, name + "mixer.", n_groups=1)
    file.write(model)


def nemotron_h():
    """Layers of all three kinds, scans in two groups. transformers raises time steps to a floor that
    files do not have: next to none here."""
    kinds = ["linear_attention", "mlp", "full_attention", "linear_attention", "mlp"]
    config = transformers.NemotronHConfig(
        **COMMON, layers_block_type=kinds, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
        intermediate_size=48, mamba_num_heads=4, mamba_head_dim=16, ssm_state_size=16, n_groups=2,
        conv_kernel=4, chunk_size=8, time_step_min=1e-9, max_position_embeddings=N_CTX,
        tie_word_embeddings=False, attn_implementation="eager")
    model = transformers.NemotronHForCausalLM(config).eval()
    randomise(model, 3)
    file = File("nemotron_h", model)
    file.numbers(block_count=len(kinds), context_length=N_CTX, embedding_length=D_MODEL,
                 feed_forward_length=[48 * (kind == "mlp") for kind in kinds],
                 attention__head_count=2,
                 attention__head_count_kv=[int(kind == "full_attention") for kind in kinds],
                 attention__key_length=16, attention__value_length=16,
                 attention__layer_norm_rms_epsilon=float(config.layer_norm_epsilon),
                 ssm__conv_kernel=4, ssm__inner_size=64, ssm__state_size=16, ssm__time_step_rank=4,
                 ssm__group_count=2, vocab_size=N_VOCAB)
    file.writer.add_bool("nemotron_h.rope.scaling.finetuned", False)
    file.matrix("token_embd.weight", "model.embeddings.weight")
    file.vector("output_norm.weight", "model.norm_f.weight")
    file.matrix("output.weight", "lm_head.weight")
    for n, kind in enumerate(kinds):
        to, name = f"blk.{n}.", f"model.layers.{n}."
        file.vector(to + "attn_norm.weight", name + "norm.weight")
        if kind == "linear_attention":
            scan(file, to, name + "mixer.", n_groups=2)
        elif kind == "mlp":
            for part in ("up", "down"):
                file.matrix(f"{to}ffn_{part}.weight", f"{name}mixer.{part}_proj.weight")
        else:
            for part, of in dict(attn_q="q", attn_k="k", attn_v="v", attn_output="o").items():
                file.matrix(f"{to}{part}.weight", f"{name}mixer.{of}_proj.weight")
    file.write(model)


if __name__ == "__main__":
    for family in sys.argv[1:] or ["lfm2", "mamba2", "nemotron_h"]:
        globals()[family]()
