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


# What files of Qwen 3.5 and Qwen 3 Next have alike: two keys, each for two heads, whose states have
# rows and columns of different lengths; attention in the last layer, where half of a head turns.
N_LAYERS, N_KEYS, PER_KEY, D_KEY, D_VALUE, D_HEAD = 3, 2, 2, 8, 12, 16
HYBRID = dict(num_hidden_layers=N_LAYERS, num_attention_heads=2, num_key_value_heads=1,
              head_dim=D_HEAD, linear_conv_kernel_dim=4, linear_key_head_dim=D_KEY,
              linear_value_head_dim=D_VALUE, linear_num_key_heads=N_KEYS,
              linear_num_value_heads=N_KEYS * PER_KEY, max_position_embeddings=N_CTX,
              layer_types=["linear_attention"] * (N_LAYERS - 1) + ["full_attention"],
              tie_word_embeddings=True, attn_implementation="eager",
              rope_parameters=dict(rope_type="default", rope_theta=10000.0,
                                   partial_rotary_factor=0.5))


def tiled(values, size, axis=0):
    """Heads of one key lie side by side; afterwards those of different keys do."""
    shape = values.shape
    apart = values.reshape(*shape[:axis], N_KEYS, PER_KEY, size, *shape[axis + 1:])
    return np.ascontiguousarray(apart.swapaxes(axis, axis + 1)).reshape(shape)


def by_keys(matrix, sizes):
    """Rows of each key's parts, one key behind the other, as matrices of one part each."""
    runs = matrix.reshape(N_KEYS, sum(sizes), -1)
    return [part.reshape(-1, matrix.shape[-1])
            for part in np.split(runs, np.cumsum(sizes)[:-1], axis=1)]


class HybridFile(File):
    def __init__(self, architecture, model, config):
        super().__init__(architecture, model)
        self.numbers(block_count=N_LAYERS, context_length=N_CTX, embedding_length=D_MODEL,
                     attention__head_count=2, attention__head_count_kv=1,
                     attention__key_length=D_HEAD, attention__value_length=D_HEAD,
                     attention__layer_norm_rms_epsilon=float(config.rms_norm_eps),
                     rope__freq_base=10000.0, rope__dimension_count=D_HEAD // 2,
                     ssm__conv_kernel=4, ssm__state_size=D_KEY, ssm__group_count=N_KEYS,
                     ssm__time_step_rank=N_KEYS * PER_KEY,
                     ssm__inner_size=N_KEYS * PER_KEY * D_VALUE,
                     full_attention_interval=N_LAYERS, vocab_size=N_VOCAB)
        self.matrix("token_embd.weight", "model.embed_tokens.weight")
        self.norm("output_norm.weight", "model.norm.weight")

    def norm(self, to, name):
        self.floats(to, self.take(name) + 1)

    def half(self, to, values):
        self.writer.add_tensor(to, np.ascontiguousarray(values.astype(np.float16)))

    def attention(self, to, name):
        for part in ("q", "k", "v"):
            self.matrix(f"{to}attn_{part}.weight", f"{name}self_attn.{part}_proj.weight")
        self.matrix(to + "attn_output.weight", name + "self_attn.o_proj.weight")
        for part in "qk":
            self.norm(f"{to}attn_{part}_norm.weight", f"{name}self_attn.{part}_norm.weight")

    def heads(self, to, name, order):
        """What a layer keeps for each head. @param order  of values by heads, along the first axis"""
        name += "linear_attn."
        kernel = self.take(name + "conv1d.weight")[:, 0]
        keys = 2 * N_KEYS * D_KEY
        self.floats(to + "ssm_conv1d.weight",
                    np.concatenate([kernel[:keys], order(kernel[keys:], D_VALUE)]))
        self.floats(to + "ssm_dt.bias", order(self.take(name + "dt_bias"), 1))
        self.floats(to + "ssm_a", order(-np.exp(self.take(name + "A_log")), 1))
        self.vector(to + "ssm_norm.weight", name + "norm.weight")

    def layers(self, delta_net, feed_forward):
        for n in range(N_LAYERS):
            to, name = f"blk.{n}.", f"model.layers.{n}."
            self.norm(to + "attn_norm.weight", name + "input_layernorm.weight")
            self.norm(to + "post_attention_norm.weight", name + "post_attention_layernorm.weight")
            (self.attention if n == N_LAYERS - 1 else delta_net)(to, name)
            feed_forward(to, name)


def centre(model):
    """Norms to whose weights the family adds 1; and decays from slow to fast."""
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            if name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight"):
                parameter.sub_(1)
            if name.endswith("A_log"):
                parameter.mul_(3).sub_(4)


def qwen35():
    config = transformers.Qwen3_5TextConfig(**COMMON, **HYBRID, intermediate_size=48)
    model = transformers.Qwen3_5ForCausalLM(config).eval()
    randomise(model, 3)
    centre(model)
    file = HybridFile("qwen35", model, config)
    file.numbers(feed_forward_length=48)

    def delta_net(to, name):
        keys = 2 * N_KEYS * D_KEY
        qkv = file.take(name + "linear_attn.in_proj_qkv.weight")
        file.half(to + "attn_qkv.weight", np.concatenate([qkv[:keys], tiled(qkv[keys:], D_VALUE)]))
        for part, of, size in (("attn_gate", "z", D_VALUE), ("ssm_beta", "b", 1),
                               ("ssm_alpha", "a", 1)):
            file.half(f"{to}{part}.weight",
                      tiled(file.take(f"{name}linear_attn.in_proj_{of}.weight"), size))
        file.half(to + "ssm_out.weight",
                  tiled(file.take(name + "linear_attn.out_proj.weight"), D_VALUE, axis=1))
        file.heads(to, name, tiled)

    def feed_forward(to, name):
        for part in ("gate", "up", "down"):
            file.matrix(f"{to}ffn_{part}.weight", f"{name}mlp.{part}_proj.weight")

    file.layers(delta_net, feed_forward)
    file.write(model)


def qwen3next():
    """The first layer as converters write it now, the second as they did before."""
    n_experts, n_used, d_expert, d_shared = 4, 2, 16, 24
    config = transformers.Qwen3NextConfig(
        **COMMON, **HYBRID, intermediate_size=48, num_experts=n_experts,
        num_experts_per_tok=n_used, moe_intermediate_size=d_expert,
        shared_expert_intermediate_size=d_shared, norm_topk_prob=True)
    model = transformers.Qwen3NextForCausalLM(config).eval()
    randomise(model, 4)
    centre(model)
    file = HybridFile("qwen3next", model, config)
    file.numbers(feed_forward_length=48, expert_count=n_experts, expert_used_count=n_used,
                 expert_feed_forward_length=d_expert, expert_shared_feed_forward_length=d_shared)

    def delta_net(to, name):
        all_parts = file.take(name + "linear_attn.in_proj_qkvz.weight")
        if to == "blk.0.":
            values = PER_KEY * D_VALUE
            q, k, v, z = by_keys(all_parts, [D_KEY, D_KEY, values, values])
            file.half(to + "attn_qkv.weight", np.concatenate([q, k, v]))
            file.half(to + "attn_gate.weight", z)
        else:
            file.half(to + "ssm_in.weight", all_parts)
        file.matrix(to + "ssm_ba.weight", name + "linear_attn.in_proj_ba.weight")
        file.matrix(to + "ssm_out.weight", name + "linear_attn.out_proj.weight")
        file.heads(to, name, lambda values, size: values)

    def feed_forward(to, name):
        name += "mlp."
        file.floats(to + "ffn_gate_inp.weight", file.take(name + "gate.weight"))
        gate_up = file.take(name + "experts.gate_up_proj")
        file.half(to + "ffn_gate_exps.weight", gate_up[:, :d_expert])
        file.half(to + "ffn_up_exps.weight", gate_up[:, d_expert:])
        file.matrix(to + "ffn_down_exps.weight", name + "experts.down_proj")
        file.floats(to + "ffn_gate_inp_shexp.weight", file.take(name + "shared_expert_gate.weight")[0])
        for part in ("gate", "up", "down"):
            file.matrix(f"{to}ffn_{part}_shexp.weight", f"{name}shared_expert.{part}_proj.weight")

    file.layers(delta_net, feed_forward)
    file.write(model)


if __name__ == "__main__":
    for family in sys.argv[1:] or ["lfm2", "mamba2", "nemotron_h", "qwen35", "qwen3next"]:
        globals()[family]()
