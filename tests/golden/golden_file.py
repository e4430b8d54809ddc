"""What the files of small random models have beside the model: a text and its logits."""

import numpy as np
import torch

N_TOKENS = 40


def finish(writer, model, name):
    """Add the logits behind each token of a text, as transformers computes them, and write all."""
    tokens = np.random.default_rng(7).integers(0, 256, N_TOKENS)
    with torch.no_grad():
        logits = model(torch.from_numpy(tokens)[None]).logits[0].numpy()
    writer.add_array("golden.tokens", [int(token) for token in tokens])
    writer.add_array("golden.logits", [float(logit) for logit in logits.reshape(-1)])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{name}: logits up to {abs(logits).max():.3}")
