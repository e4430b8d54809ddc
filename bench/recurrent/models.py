"""Files of random weights with the shapes of small recurrent models: python3 bench/recurrent/models.py FOLDER

What they write means nothing; what a pass costs does not depend on it. Matrices are Q4_K and embeddings Q6_K, as in
files of that size. Shapes are those of the models' published configurations. Needs PyPI's `gguf` and `numpy`.
"""
import pathlib
import sys

import gguf
import numpy as np

N_CTX = 4096
Q4_K, Q6_K = gguf.GGMLQuantizationType.Q4_K, gguf.GGMLQuantizationType.Q6_K


class File:
    def __init__(self, folder, name, architecture, n_vocab, **numbers):
        self.random = np.random.default_rng(1)
        self.arch = architecture
        self.writer = gguf.GGUFWriter(folder / f"{name}.gguf", architecture)
        self.writer.add_tokenizer_model("gpt2")
        self.writer.add_tokenizer_pre("gpt-2")
        # llama.cpp reads no vocabulary without merges.
        self.writer.add_token_list([*(f"<|{number}|>" for number in range(n_vocab - 3)), "a", "b", "ab"])
        self.writer.add_token_types([3] * (n_vocab - 3) + [1] * 3)
        self.writer.add_token_merges(["a b"])
        self.writer.add_eos_token_id(0)
        self.numbers(context_length=N_CTX, vocab_size=n_vocab, **numbers)

    def numbers(self, **values):
        for key, value in values.items():
            name = f"{self.arch}.{key.replace('__', '.')}"
            if isinstance(value, list):
                self.writer.add_array(name, value)
            elif isinstance(value, float):
                self.writer.add_float32(name, value)
            else:
                self.writer.add_uint32(name, value)

    def matrix(self, name, n_out, n_in, kind=Q4_K):
        """Any bytes are values, but for the factors of a block of 256: with these, products are as large as inputs."""
        size, factors = {Q4_K: (144, {0: 1, 2: 7.5}), Q6_K: (210, {208: 0.06})}[kind]
        blocks = self.random.integers(0, 256, (n_out * n_in // 256, size), dtype=np.uint8)
        for place, factor in factors.items():
            blocks[:, place:place + 2] = np.frombuffer(np.float16(factor / 170 / np.sqrt(n_in)).tobytes(), np.uint8)
        self.writer.add_tensor(name, blocks.reshape(n_out, -1), raw_dtype=kind)

    def vector(self, name, *shape, low=0.5, high=1.5):
        self.writer.add_tensor(name, self.random.uniform(low, high, shape).astype(np.float32))

    def feed_forward(self, to, d_model, d_ff):
        self.matrix(to + "ffn_gate.weight", d_ff, d_model)
        self.matrix(to + "ffn_up.weight", d_ff, d_model)
        self.matrix(to + "ffn_down.weight", d_model, d_ff)

    def write(self):
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def mamba2(folder):
    d_model, n_layers, width, d_state, n_heads, n_vocab = 768, 24, 1536, 128, 24, 50288
    d_conv = width + 2 * d_state
    file = File(folder, "mamba2-130m", "mamba2", n_vocab, block_count=n_layers, embedding_length=d_model,
                feed_forward_length=0, attention__head_count=0, attention__layer_norm_rms_epsilon=1e-5,
                ssm__conv_kernel=4, ssm__inner_size=width, ssm__state_size=d_state, ssm__time_step_rank=n_heads,
                ssm__group_count=1)
    file.matrix("token_embd.weight", n_vocab, d_model, Q6_K)
    file.vector("output_norm.weight", d_model)
    for n in range(n_layers):
        to = f"blk.{n}."
        file.vector(to + "attn_norm.weight", d_model)
        file.matrix(to + "ssm_in.weight", width + d_conv + n_heads, d_model)
        file.matrix(to + "ssm_out.weight", d_model, width)
        file.vector(to + "ssm_conv1d.weight", d_conv, 4, low=-0.5, high=0.5)
        file.vector(to + "ssm_conv1d.bias", d_conv, low=-0.1, high=0.1)
        file.vector(to + "ssm_dt.bias", n_heads, low=-4, high=-2)
        file.vector(to + "ssm_a", n_heads, 1, low=-8, high=-1)
        file.vector(to + "ssm_d", n_heads, 1)
        file.vector(to + "ssm_norm.weight", 1, width)
    file.write()


def lfm2(folder):
    d_model, n_heads, n_kv_heads, d_ff, n_vocab = 1024, 16, 8, 4608, 65536
    attention = [2, 5, 8, 10, 12, 14]
    d_kv = n_kv_heads * d_model // n_heads
    file = File(folder, "lfm2-350m", "lfm2", n_vocab, block_count=16, embedding_length=d_model, feed_forward_length=d_ff,
                attention__head_count=n_heads,
                attention__head_count_kv=[n_kv_heads if n in attention else 0 for n in range(16)],
                attention__layer_norm_rms_epsilon=1e-5, rope__freq_base=1e6, shortconv__l_cache=3)
    file.matrix("token_embd.weight", n_vocab, d_model, Q6_K)
    file.vector("token_embd_norm.weight", d_model)
    for n in range(16):
        to = f"blk.{n}."
        file.vector(to + "attn_norm.weight", d_model)
        file.vector(to + "ffn_norm.weight", d_model)
        file.feed_forward(to, d_model, d_ff)
        if n in attention:
            for part, n_out in dict(q=d_model, k=d_kv, v=d_kv, output=d_model).items():
                file.matrix(f"{to}attn_{part}.weight", n_out, d_model)
            for part in "qk":
                file.vector(f"{to}attn_{part}_norm.weight", d_model // n_heads)
        else:
            file.matrix(to + "shortconv.in_proj.weight", 3 * d_model, d_model)
            file.matrix(to + "shortconv.out_proj.weight", d_model, d_model)
            file.vector(to + "shortconv.conv.weight", d_model, 3, low=-0.6, high=0.6)
    file.write()


def qwen35(folder):
    d_model, n_layers, n_heads, n_kv_heads, d_head, d_ff, n_vocab = 1024, 24, 8, 2, 256, 3584, 248320
    n_keys, d_key, n_values, d_value = 16, 128, 16, 128
    width, keys = n_values * d_value, n_keys * d_key
    file = File(folder, "qwen3.5-0.8b", "qwen35", n_vocab, block_count=n_layers, embedding_length=d_model,
                feed_forward_length=d_ff, attention__head_count=n_heads, attention__head_count_kv=n_kv_heads,
                attention__key_length=d_head, attention__value_length=d_head,
                attention__layer_norm_rms_epsilon=1e-6, rope__freq_base=1e7, rope__dimension_count=d_head // 4,
                rope__dimension_sections=[11, 11, 10, 0], ssm__conv_kernel=4, ssm__state_size=d_key,
                ssm__group_count=n_keys, ssm__time_step_rank=n_values, ssm__inner_size=width, full_attention_interval=4)
    file.matrix("token_embd.weight", n_vocab, d_model, Q6_K)
    file.vector("output_norm.weight", d_model)
    for n in range(n_layers):
        to = f"blk.{n}."
        file.vector(to + "attn_norm.weight", d_model)
        file.vector(to + "post_attention_norm.weight", d_model)
        file.feed_forward(to, d_model, d_ff)
        if n % 4 == 3:
            file.matrix(to + "attn_q.weight", 2 * n_heads * d_head, d_model)
            for part in "kv":
                file.matrix(f"{to}attn_{part}.weight", n_kv_heads * d_head, d_model)
            file.matrix(to + "attn_output.weight", d_model, n_heads * d_head)
            for part in "qk":
                file.vector(f"{to}attn_{part}_norm.weight", d_head)
        else:
            file.matrix(to + "attn_qkv.weight", 2 * keys + width, d_model)
            file.matrix(to + "attn_gate.weight", width, d_model)
            file.matrix(to + "ssm_beta.weight", n_values, d_model)
            file.matrix(to + "ssm_alpha.weight", n_values, d_model)
            file.matrix(to + "ssm_out.weight", d_model, width)
            file.vector(to + "ssm_conv1d.weight", 2 * keys + width, 4, low=-0.5, high=0.5)
            file.vector(to + "ssm_dt.bias", n_values, low=-4, high=-2)
            file.vector(to + "ssm_a", n_values, low=-8, high=-1)
            file.vector(to + "ssm_norm.weight", d_value)
    file.write()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for make in (mamba2, lfm2, qwen35):
        make(folder)


if __name__ == "__main__":
    main()
