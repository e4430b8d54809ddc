"""Writes GGUF files of a few hundred kilobytes whose models do what a test can foretell.

The alphabet model says the next letter: after `a` comes `b`. Its embedding is one unit vector for each token, all
layers add nothing, and row j of its head is the unit vector of the token that j follows.
"""

import struct

U32, F32, STRING, ARRAY, I32 = 4, 6, 8, 9, 5
TYPE_F32, TYPE_Q4_0 = 0, 2
NORMAL, CONTROL = 1, 3
IM_START, IM_END = 256, 257
N_VOCAB = 258
D_MODEL = 288  # a multiple of 32, and room for one dimension a token

CHATML = ("{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
          "{% endfor %}<|im_start|>assistant\n")


def byte_alphabet():
    """The printable characters that stand for the 256 bytes in byte-level vocabularies."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, spare = [], 256
    for byte in range(256):
        if byte in printable:
            letters.append(chr(byte))
        else:
            letters.append(chr(spare))
            spare += 1
    return letters


def text(value):
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def array(kind, values):
    pack = {STRING: text, I32: lambda v: struct.pack("<i", v)}[kind]
    return struct.pack("<IQ", kind, len(values)) + b"".join(map(pack, values))


def entry(key, kind, value):
    body = {U32: lambda: struct.pack("<I", value), F32: lambda: struct.pack("<f", value),
            STRING: lambda: text(value), ARRAY: lambda: array(*value)}[kind]()
    return text(key) + struct.pack("<I", kind) + body


def zeros(n_out, n_in):
    """A matrix of nothing, in 4 bits."""
    return TYPE_Q4_0, [n_in, n_out], bytes(n_out * n_in // 32 * 18)


def floats(shape, values):
    return TYPE_F32, shape, struct.pack(f"<{len(values)}f", *values)


def unit_rows(targets, scale=1.0):
    """Row i is the unit vector `targets[i]`, or nothing for None."""
    values = [0.0] * (len(targets) * D_MODEL)
    for row, target in enumerate(targets):
        if target is not None:
            values[row * D_MODEL + target] = scale
    return values


def alphabet_successors(after_z):
    """What follows each byte: the next letter, `after_z` after z, a after anything else."""
    follows = {}
    for token in range(N_VOCAB):
        is_letter = ord("a") <= token < ord("z")
        follows[token] = token + 1 if is_letter else ord("a")
    follows[ord("z")] = after_z
    return follows


def head_of(follows):
    """Head whose best token behind t is follows[t]."""
    values = [0.0] * (N_VOCAB * D_MODEL)
    for token, following in follows.items():
        values[following * D_MODEL + token] = 1.0
    return values


def metadata(family="llama", n_ctx=512, heads=2, head_size=16, chat=CHATML, letters=None, overrides=()):
    letters = letters or byte_alphabet()
    entries = {
        "general.architecture": (STRING, family),
        "general.name": (STRING, "the alphabet"),
        f"{family}.block_count": (U32, 1),
        f"{family}.context_length": (U32, n_ctx),
        f"{family}.embedding_length": (U32, D_MODEL),
        f"{family}.feed_forward_length": (U32, 32),
        f"{family}.attention.head_count": (U32, heads),
        f"{family}.attention.head_count_kv": (U32, heads),
        f"{family}.attention.key_length": (U32, head_size),
        f"{family}.attention.value_length": (U32, head_size),
        f"{family}.rope.dimension_count": (U32, head_size),
        f"{family}.attention.layer_norm_rms_epsilon": (F32, 1e-5),
        "tokenizer.ggml.model": (STRING, "gpt2"),
        "tokenizer.ggml.pre": (STRING, "gpt-2"),
        "tokenizer.ggml.tokens": (ARRAY, (STRING, letters + ["<|im_start|>", "<|im_end|>"])),
        "tokenizer.ggml.token_type": (ARRAY, (I32, [NORMAL] * 256 + [CONTROL] * 2)),
        "tokenizer.ggml.merges": (ARRAY, (STRING, [])),
        "tokenizer.ggml.bos_token_id": (U32, IM_START),
        "tokenizer.ggml.eos_token_id": (U32, IM_END),
    }
    if chat:
        entries["tokenizer.chat_template"] = (STRING, chat)
    entries.update(overrides)
    return [(key, *value) for key, value in entries.items()]


def tensors(follows, heads=2, head_size=16, overrides=()):
    width = heads * head_size
    found = {
        "token_embd.weight": floats([D_MODEL, N_VOCAB], unit_rows(range(N_VOCAB))),
        "output_norm.weight": floats([D_MODEL], [1.0] * D_MODEL),
        "output.weight": floats([D_MODEL, N_VOCAB], head_of(follows)),
        "blk.0.attn_norm.weight": floats([D_MODEL], [1.0] * D_MODEL),
        "blk.0.attn_q.weight": zeros(width, D_MODEL),
        "blk.0.attn_k.weight": zeros(width, D_MODEL),
        "blk.0.attn_v.weight": zeros(width, D_MODEL),
        "blk.0.attn_output.weight": zeros(D_MODEL, width),
        "blk.0.ffn_norm.weight": floats([D_MODEL], [1.0] * D_MODEL),
        "blk.0.ffn_gate.weight": zeros(32, D_MODEL),
        "blk.0.ffn_up.weight": zeros(32, D_MODEL),
        "blk.0.ffn_down.weight": zeros(D_MODEL, 32),
    }
    found.update(overrides)
    return [(name, *value) for name, value in found.items() if value is not None]


def gguf(entries, weights):
    """The bytes of a file."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(weights), len(entries))
    for key, kind, value in entries:
        out += entry(key, kind, value)
    data = b""
    for name, kind, shape, payload in weights:
        out += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        out += struct.pack("<IQ", kind, len(data))
        data += payload + bytes(-len(payload) % 32)
    return out + bytes(-len(out) % 32) + data


def alphabet_model(after_z=IM_END, **options):
    """The alphabet, ended by the end token or by whatever `after_z` says."""
    metadata_overrides = options.pop("metadata_overrides", ())
    tensor_overrides = options.pop("tensor_overrides", ())
    sizes = {key: options[key] for key in ("heads", "head_size") if key in options}
    return gguf(metadata(overrides=metadata_overrides, **options),
                tensors(alphabet_successors(after_z), overrides=tensor_overrides, **sizes))
