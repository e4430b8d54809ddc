"""Makes tests/golden/data/tokenizers.json: 200 texts, and what reference tokenizers make of them.

    pip install gguf mistral-common regex sentencepiece tiktoken tokenizers transformers==5.17.0
    python3 tests/golden/tokenizers/make.py FOLDER

FOLDER has the model files of examples/fetch_model.py. Tokens are those of Hugging Face's `tokenizers` and of `sentencepiece`
with the vocabularies of these files. Words are those of each pre-tokenizer's pattern as its publisher wrote it down, found
by other engines of regular expressions than ours.
"""
import inspect
import json
import pathlib
import random
import sys

import gguf
import mistral_common
import regex
import sentencepiece
import tiktoken_ext.openai_public as openai
import tokenizers
from sentencepiece import sentencepiece_model_pb2
from transformers.convert_slow_tokenizer import TikTokenConverter
from transformers.models.qwen2 import tokenization_qwen2
from transformers.models.qwen3_5 import tokenization_qwen3_5

N_TEXTS = 200
PARTS = {
    "words": "Hello world the quick Brown foxes jumped OVER lazy dogs naïve café Straße Ωμέγα привет мир 東京 こんにちは "
             "안녕하세요 مرحبا שלום नमस्ते ไทย Việt Nam İstanbul ﬁnal ½ Ⅷ x² H₂O iPhone McDonald JSONParser snake_case "
             "camelCase kebab-case e.g. i.e. U.S.A.".split(),
    "apostrophes": "it's I'm we've they'll he'd don't you're IT'S I'M O'Neill 's 'tis rock'n'roll l'été it’s".split(),
    "numbers": "0 7 42 100 1234 12345678 3.14159 1,000,000 1e-9 0xFF 192.168.0.1 2026-11-25 ١٢٣ 五十 Ⅳ ²³".split(),
    "spaces": [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\t\t", " \n", "\n  ", " \t ", "\u00a0", "\u3000", "\u2028",
               "\u200b"],
    "marks": ". , ; : ! ? ... -- — “ ” « » ( ) [ ] { } < > / \\ | @ # $ % ^ & * + = ~ ` _ \" // /* */ => != ::".split(),
    "emoji": "😀 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 ❤️ 🇩🇪 e\u0301 n\u0303o ก\u0e49 क\u094dष 🧑🏿‍🚀".split(),
    "code": ["for (int i = 0; i < n; ++i) {\n\treturn a[i];\n}", "def f(x):\n    return x**2\n", "<div class=\"a\">\n</div>",
             "SELECT * FROM t WHERE id=1;", "https://example.org/a?b=c&d=%20e#f", "{\"key\": [1, 2.5, null]}", "#include <map>",
             "\\frac{1}{2}", "$ git commit -m 'x'", "a\u0000b"],
}
OWN = ["", " ", "\n", "a", "ab", "  a  ", "\n\n\n", "a\n\nb", " a", "a ", "1", "1 2", "é", "日", "😀", "\ufeffa", "\ud7ff",
       "a" * 300, " " * 70, "ab" * 100, "1" * 50, "-" * 80, "=" * 33 + "\n", "\t" * 9 + "x", "の" * 40]


def texts():
    draw = random.Random(20261125)
    made = list(OWN)
    while len(made) < N_TEXTS:
        kinds = draw.sample(list(PARTS), draw.randint(1, len(PARTS)))
        text = ""
        for _ in range(draw.randint(1, 14)):
            kind = draw.choice(kinds)
            text += draw.choice(PARTS[kind])
            if kind != "spaces" and draw.random() < 0.6:
                text += " "
        if text not in made:
            made.append(text)
    return made


def byte_level():
    return tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def single_digits_first():
    """pre_tokenizer of SmolLM."""
    return tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Digits(individual_digits=True),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])


def patterns():
    openai.load_tiktoken_bpe = lambda *_, **__: {}  # the pattern alone is wanted
    tekken = pathlib.Path(mistral_common.__file__).parent / "data/tekken_240911.json"
    return {"gpt-2": openai.r50k_pat_str,
            "llama-bpe": inspect.signature(TikTokenConverter.__init__).parameters["pattern"].default,
            "qwen2": tokenization_qwen2.PRETOKENIZE_REGEX,
            "qwen35": tokenization_qwen3_5.PRETOKENIZE_REGEX,
            "tekken": json.loads(tekken.read_text())["config"]["pattern"],
            "gpt-4o": openai.o200k_base()["pat_str"]}


def words(text):
    cut = {name: [m.group() for m in regex.finditer(pattern, text)] for name, pattern in patterns().items()}
    cut["smollm"] = [text[begin:end] for _, (begin, end) in single_digits_first().pre_tokenize_str(text)]
    for name, parts in cut.items():
        if "".join(parts) != text:
            sys.exit(f"{name} loses something of {text!r}")
    return {name: [len(part.encode()) for part in parts] for name, parts in cut.items()}


class ModelFile:
    def __init__(self, path):
        self.fields = gguf.GGUFReader(path).fields

    def __getitem__(self, key):
        return self.fields[f"tokenizer.ggml.{key}"].contents()


def byte_pairs(file, pre_tokenizer):
    merges = [tuple(merge.split(" ")) for merge in file["merges"]]
    vocabulary = {token: i for i, token in enumerate(file["tokens"])}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges))
    made.pre_tokenizer = pre_tokenizer
    return lambda text: made.encode(text, add_special_tokens=False).ids


def sentence_pieces(file):
    model = sentencepiece_model_pb2.ModelProto()
    model.trainer_spec.model_type = model.trainer_spec.BPE
    model.trainer_spec.byte_fallback = True
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = False
    model.normalizer_spec.remove_extra_whitespaces = False
    for token, score, kind in zip(file["tokens"], file["scores"], file["token_type"]):
        if int(kind) == sentencepiece_model_pb2.ModelProto.SentencePiece.USER_DEFINED:
            token = token.replace(" ", "\u2581")  # as in the model that the file was made from
        model.pieces.add(piece=token, score=score, type=int(kind))
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    return lambda text: processor.encode(text)


def main():
    folder = pathlib.Path(sys.argv[1])
    qwen = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(patterns()["qwen2"]), "isolated"), byte_level()])
    file = {name: ModelFile(folder / f"{name}.gguf") for name in ["smollm2-135m", "qwen2.5-coder-0.5b", "gemma-3-270m"]}
    encode = {"smollm2-135m": byte_pairs(file["smollm2-135m"], single_digits_first()),
              "qwen2.5-coder-0.5b": byte_pairs(file["qwen2.5-coder-0.5b"], qwen),
              "gemma-3-270m": sentence_pieces(file["gemma-3-270m"])}
    lines = [{"text": text, "words": words(text), "tokens": {name: tokens(text) for name, tokens in encode.items()}}
             for text in texts()]
    output = pathlib.Path(__file__).resolve().parents[1] / "data/tokenizers.jsonl"
    output.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


if __name__ == "__main__":
    main()
