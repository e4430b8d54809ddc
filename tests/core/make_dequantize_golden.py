#!/usr/bin/env python3
"""Write data/dequantize.golden: random blocks of every storage format and the floats they stand for.

The floats come from the PyPI package gguf 0.19, an implementation that shares nothing with ours.

    python3 -m venv venv && venv/bin/pip install gguf==0.19.0
    venv/bin/python make_dequantize_golden.py

The file has three lines a format: number, name and count of values; the bytes in hex; the floats as their bits in hex.
"""

import pathlib

import gguf
import numpy as np

BLOCKS = 2  # blocks of quantized formats; the two of one format differ in everything
TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
# Byte offsets of the binary16 numbers of a block: random bits there would be NaN or infinity now and then.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def random_bytes(rng, name, block_bytes):
    if name == "F32":
        return rng.standard_normal(32).astype("<f4").tobytes()
    if name == "F16":  # every third one subnormal
        values = rng.standard_normal(32)
        values[::3] *= 2.0**-20
        return values.astype("<f2").tobytes()
    if name == "BF16":
        return (rng.standard_normal(32).astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    blocks = rng.integers(0, 256, size=(BLOCKS, block_bytes), dtype=np.uint8)
    for offset in HALVES[name]:
        scales = (rng.standard_normal(BLOCKS) * 0.05).astype("<f2")
        blocks[:, offset:offset + 2] = scales.view(np.uint8).reshape(BLOCKS, 2)
    return blocks.tobytes()


def main():
    rng = np.random.default_rng(20240607)
    lines = []
    for name in TYPES:
        kind = gguf.GGMLQuantizationType[name]
        _, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        data = random_bytes(rng, name, block_bytes)
        values = gguf.quants.dequantize(np.frombuffer(data, dtype=np.uint8), kind)
        values = np.ascontiguousarray(values, dtype="<f4").reshape(-1)
        lines += [f"{int(kind)} {name} {values.size}", data.hex(),
                  " ".join(f"{bits:08x}" for bits in values.view("<u4"))]
    path = pathlib.Path(__file__).parent / "data" / "dequantize.golden"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
