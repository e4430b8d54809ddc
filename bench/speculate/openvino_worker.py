"""Whole answers of OpenVINO GenAI on request: python openvino_worker.py MODEL.gguf THREADS [--lookup]

Lines of JSON, as bench.answers: {"info": true} and {"ids": [tokens of the prompt], "n": 128}. --lookup is its drafting by
prompt lookup. Everything else is as it comes, but prompts are not kept.
"""
import json
import os
import sys


def main():
    model, threads, lookup = sys.argv[1], int(sys.argv[2]), "--lookup" in sys.argv
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the library talks

    def reply(value):
        print(json.dumps(value), file=replies, flush=True)

    try:
        import numpy
        import openvino
        import openvino_genai as genai
        scheduler = genai.SchedulerConfig()
        scheduler.enable_prefix_caching = False
        pipeline = genai.LLMPipeline(model, "CPU", scheduler_config=scheduler, INFERENCE_NUM_THREADS=threads,
                                     **({"prompt_lookup": True} if lookup else {}))
    except (ImportError, RuntimeError) as error:
        reply({"error": str(error).strip().splitlines()[-1]})
        return
    for line in sys.stdin:
        asked = json.loads(line)
        if "info" in asked:
            reply({"version": genai.__version__})
            continue
        config = genai.GenerationConfig(max_new_tokens=asked["n"], apply_chat_template=False)
        config.set_eos_token_id(pipeline.get_tokenizer().get_eos_token_id())
        if lookup:  # the values of its own example
            config.num_assistant_tokens = 5
            config.max_ngram_size = 3
        ids = numpy.array([asked["ids"]], dtype=numpy.int64)
        inputs = genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids)))
        done = pipeline.generate(inputs, config)
        times = done.perf_metrics
        behind_first = (times.get_generate_duration().mean - times.get_ttft().mean) / 1000
        # As for the others the first token counts: at the pace of those behind it.
        tokens = done.tokens[0]
        pace = {"decode_seconds": behind_first * len(tokens) / (len(tokens) - 1)} if len(tokens) > 1 else {}
        reply({"tokens": tokens, **pace})


if __name__ == "__main__":
    main()
