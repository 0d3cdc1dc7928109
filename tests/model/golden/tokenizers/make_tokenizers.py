#!/usr/bin/env python3
"""Makes the files in this folder: small tokenizers that Hugging Face's tokenizers trained on this
course's own text, and the ids that they give to difficult texts. The tests compare ours with these; they
need no Python.

    python3 -m venv venv && venv/bin/pip install tokenizers
    venv/bin/python tests/model/golden/tokenizers/make_tokenizers.py

With a folder as its argument it writes 10,000 random texts and their ids there instead: the file that
YOTTA_TOKENIZER_CASES names to test_model.

Each line of expected.json has the tokenizer, the text, its ids without special tokens, and what the ids
are decoded as (bytes that are no UTF-8 as U+FFFD). That is null where an added token has letters beyond
ASCII: tokenizers takes those for bytes.
"""
import json
import pathlib
import random
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
COURSE = HERE.parents[3]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
MORE = "naïve café, größer; Δίκη, Москва, 日本語 テキスト, नमस्ते, 안녕하세요, it's we'll I'd 1234567 3.14159 " * 3


def train(split, size, special):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    texts = [(COURSE / name).read_text() for name in ("LICENSE", "CONTRIBUTING.md", "docs/architecture.md")]
    tokenizer.train_from_iterator(texts + [MORE], trainer)
    return tokenizer


def split_then_bytes(*first):
    return pre_tokenizers.Sequence([*first, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def gpt2():
    tokenizer = train(pre_tokenizers.ByteLevel(add_prefix_space=False), 600, ["<|endoftext|>"])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def changed(tokenizer, change):
    file = json.loads(tokenizer.to_str())
    change(file["model"])
    return Tokenizer.from_str(json.dumps(file))


def tokens_without_merges(model):
    """What ignore_merges is for."""
    model["ignore_merges"] = True
    model["merges"] = [each for each in model["merges"] if each[1] not in ("ing", "ion", "ould")]
    for word in ("\u0120tensor", "\u0120parallel", "checkpoint"):
        model["vocab"].setdefault(word, len(model["vocab"]))


def llama3():
    tokenizer = train(split_then_bytes(pre_tokenizers.Split(Regex(LLAMA3), "isolated")), 600, [])
    tokenizer = changed(tokenizer, tokens_without_merges)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|end|>", "<|end|><|x|>"])
    tokenizer.add_tokens([AddedToken("    ", normalized=True), AddedToken("straße", normalized=False)])
    begin = ("<|begin_of_text|>", tokenizer.token_to_id("<|begin_of_text|>"))
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=f"{begin[0]} $A", pair=f"{begin[0]} $A {begin[0]}:1 $B:1",
                                      special_tokens=[begin])])
    return tokenizer


def qwen():
    tokenizer = train(split_then_bytes(pre_tokenizers.Split(Regex(QWEN), "isolated")), 500, [])
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_special_tokens(["<|im_end|>"])
    tokenizer.add_tokens([AddedToken("e\u0301e", normalized=True)])
    return tokenizer


def smol():
    digits = pre_tokenizers.Digits(individual_digits=True)
    split = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=True)])
    return train(split, 500, ["<|endoftext|>"])


DIFFICULT = [
    "", " ", "  ", "   a", "a   ", "\n", "\n\n\n", "a\n\nb", "a \n b", "\r\n\r\n x", "\t\tx\t", " \t \n  y", "a\u00a0b \u00a0 c",
    "\u0085x\u0085\u0085y", "\u180ex y\u180e", "\u2003\u2003z \u3000w", "\u200bx", "\ufeffBOM", "Hello, world!", "hello world hello",
    "it's we'll I'd you're they've I'm can't", "IT'S WE'LL I'D", "it'S 'l 'lL''ll 'x '", "it\u2019s", "'\u017f \u212a'll", "don't''s",
    "1 12 123 1234 12345678901", "3.14159e-10", "x1y22z333", "\u0661\u0662\u0663\u0664 \u2167 \u00bd\u00b2", "$1,234.56!!!", "!!!???...",
    "naïve café größer", "e\u0301 cafe\u0301 n\u0303 \u1112\u1161\u11ab", "\u00c5 \u212b A\u030a", "Москва Δίκη", "日本語テキスト", "नमस्ते दुनिया",
    "안녕하세요", "שלום עולם", "مرحبا بالعالم", "สวัสดี", "😀😁 👩‍👩‍👧 🇩🇪", "\U0001d400\U0001f1e6\U0010ffff", "a\u0300\u0316b", "\u0300\u0301",
    "<|endoftext|>", "a<|endoftext|>b", " <|endoftext|> <|endoftext|><|endoftext|>", "<|endoftext|", "<|begin_of_text|>x<|end|><|x|>y<|end|>",
    "<|end|><|x>", "straße Straßen", "if x:\n    return y\n        z", "     five", "<|im_end|>e\u0301ee\u0301e", "\x00\x01\x7f", "tensor parallel checkpoint",
    " tensor a parallel", "std::vector<int> a(n, 0);  // comment\n", "http://example.com/a?b=c&d=%20", "a" * 70, "ab" * 50, " " * 40 + "x", "\n" * 30,
    "MixedCASE_snake-kebab", "\\s+(?!\\S)", "tab\tand\vvt\fff", "\u1680ogham", "line\u2028sep\u2029par", "x\u00ady\u200dz", "the The THE thethe",
]


def random_text(draw, alphabet):
    length = draw.choice([1, 2, 3, 5, 8, 13, 30, 80])
    return "".join(draw.choice(alphabet) for _ in range(length))


def random_texts(count):
    draw = random.Random(1)
    course = (COURSE / "README.md").read_text()
    words = [" ", "  ", "\n", "\t", "'", "'s", "'ll", "<|endoftext|>", "<|end|>", "    ", "12", "a", "é", "e\u0301", "\u00a0", "\r\n", "日", "."]
    planes = [range(0x20, 0x7f), range(0x80, 0x250), range(0x300, 0x370), range(0x370, 0x600), range(0x900, 0x980), range(0x1e00, 0x2100),
              range(0x2000, 0x2070), range(0x3040, 0x3100), range(0xac00, 0xac80), range(0x1f600, 0x1f650), range(0x1100, 0x1200)]
    for i in range(count):
        if i % 4 == 0:
            begin = draw.randrange(len(course) - 300)
            yield course[begin:begin + draw.randrange(300)]
        elif i % 4 == 1:
            yield random_text(draw, words)
        elif i % 4 == 2:
            yield random_text(draw, words + [chr(draw.choice(draw.choice(planes))) for _ in range(12)])
        else:  # any character that this Python's Unicode knows
            some = [chr(c) for c in (draw.randrange(0x30000) for _ in range(40))]
            yield random_text(draw, [c for c in some if unicodedata.category(c) not in ("Cn", "Cs")] + ["\u4e00"])


def expected(tokenizers, texts):
    for text in texts:
        for name, tokenizer in tokenizers.items():
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            added = tokenizer.get_added_tokens_decoder()
            readable = all(added[i].content.isascii() for i in ids if i in added)
            decoded = tokenizer.decode(ids, skip_special_tokens=False) if readable else None
            yield {"tokenizer": name, "text": text, "ids": ids, "decoded": decoded}


def main():
    tokenizers = {}
    for make in (gpt2, llama3, qwen, smol):
        path = HERE / f"{make.__name__}.json"
        if len(sys.argv) == 1:
            file = json.loads(make().to_str())
            if make is gpt2:  # as older versions wrote them
                file["model"]["merges"] = [" ".join(each) for each in file["model"]["merges"]]
            path.write_text(json.dumps(file, ensure_ascii=False, separators=(",", ":")) + "\n")
        tokenizers[make.__name__] = Tokenizer.from_file(str(path))
    folder, texts = (HERE, DIFFICULT) if len(sys.argv) == 1 else (pathlib.Path(sys.argv[1]), random_texts(10_000))
    with open(folder / "expected.json", "w") as file:
        lines = (json.dumps(each, separators=(",", ":")) for each in expected(tokenizers, texts))
        file.write("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
