#!/usr/bin/env python3
"""Makes tests/text/goldens with the PyPI packages tokenizers 0.23.3 and sentencepiece: make_goldens.py

Trains a small tokenizer of each family on docs/ and languages.txt, and writes its tokenizer.json and what it makes of
the texts of cases.py; and what single normalizers, pre-tokenizers and decoders make of them. Run this only if
you change the cases: training is not reproducible to the bit, so all files change."""
import io
import json
import pathlib
import random

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

from cases import AROUND, TEXTS

HERE = pathlib.Path(__file__).parent
GOLDENS = HERE / "goldens"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def corpus():
    lines = (HERE / "languages.txt").read_text().splitlines()
    for page in sorted((HERE.parents[1] / "docs").rglob("*.md")):
        lines += page.read_text().splitlines()[:150]
    return lines


LINES = corpus()
# A unigram model has all characters that it is trained on.
FEWER_CHARACTERS = [line for line in LINES if all(ord(c) < 0x530 for c in line)]


def charsmap():
    """A small precompiled_charsmap: sentencepiece compiles these rules into its double array."""
    rules = {"\t": " ", "\n": " ", "\u00a0": " ", "\u3000": " ", "ﬁ": "fi", "ﬂ": "fl", "①": "1", "㍿": "株式会社",
             "Ａ": "A", "ｆ": "f", "\u0001": "", "\u200b": "", "e\u0301": "é", "ｶﾞ": "ガ", "½": "1⁄2", "\ufeff": "",
             "\u0085": " ", "ab": "AB"}
    tsv = HERE / "rules.tsv"
    tsv.write_text("".join(" ".join(f"{ord(c):X}" for c in key) + "\t" + " ".join(f"{ord(c):X}" for c in value) + "\n"
                           for key, value in rules.items()))
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(LINES), model_writer=model, vocab_size=3000,
                                             normalization_rule_tsv=str(tsv), hard_vocab_limit=False,
                                             character_coverage=1.0, minloglevel=2)
    tsv.unlink()
    # ModelProto.normalizer_spec is field 3; its precompiled_charsmap is field 2.
    return field(field(model.getvalue(), 3), 2)


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def field(data, wanted):
    """The first length-delimited field of that number in a protobuf message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 2:
            size, at = varint(data, at)
            if key >> 3 == wanted:
                return data[at:at + size]
            at += size
        elif key & 7 == 0:
            _, at = varint(data, at)
        else:
            at += 8 if key & 7 == 1 else 4
    raise ValueError(f"no field {wanted}")


def train_bytes(tokenizer, size=400, special=()):
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(LINES, trainer)


def gpt2():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    train_bytes(tokenizer, special=["<|endoftext|>"])
    return tokenizer


def roberta():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    train_bytes(tokenizer, special=["<s>", "<pad>", "</s>", "<unk>"])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def llama3():
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    train_bytes(tokenizer, 450)
    tokenizer.add_special_tokens(["<|begin_of_text|>", "<|eot_id|>"])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(), processors.TemplateProcessing(
            single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
            special_tokens=[("<|begin_of_text|>", begin)])])
    # A token that no merges lead to: ignore_merges finds it all the same.
    made = json.loads(tokenizer.to_str())
    made["model"]["vocab"]["Ġworld"] = begin + 2
    return Tokenizer.from_str(json.dumps(made))


def qwen2():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN2), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    train_bytes(tokenizer)
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("é\u0301", normalized=True)])
    return tokenizer


def sentencepiece_bpe():
    """The model of Llama 2: trained on words, then used without a pre-tokenizer."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=850, special_tokens=["<unk>", "<s>", "</s>"] + BYTES, limit_alphabet=300,
                                  show_progress=False)
    tokenizer.train_from_iterator(LINES, trainer)
    made = json.loads(tokenizer.to_str())
    made["added_tokens"] = made["added_tokens"][:3]
    return made


def llama2():
    made = sentencepiece_bpe()
    tokenizer = Tokenizer.from_str(json.dumps(made))
    tokenizer.pre_tokenizer = None
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1",
                                                             special_tokens=[("<s>", 1)])
    return tokenizer


def mistral():
    tokenizer = llama2()
    tokenizer.normalizer = None
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    made = json.loads(tokenizer.to_str())
    # As older files have them: merges as texts, and few bytes, so that others are unknown.
    made["model"]["merges"] = [" ".join(merge) for merge in made["model"]["merges"]]
    made["model"]["fuse_unk"] = False
    for byte in BYTES[0x80:0xc0]:
        del made["model"]["vocab"][byte]
    return Tokenizer.from_str(json.dumps(made))


def gemma():
    tokenizer = llama2()
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_tokens([AddedToken("▁▁▁", normalized=False), AddedToken("\n\n", normalized=False)])
    return tokenizer


def t5():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Precompiled(charsmap())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(FEWER_CHARACTERS, trainers.UnigramTrainer(
        vocab_size=400, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>",
                                                             special_tokens=[("</s>", 1)])
    return tokenizer


def xlm_r():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(FEWER_CHARACTERS, trainers.UnigramTrainer(
        vocab_size=400, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=True)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return tokenizer


def unigram_bytes():
    """Unigrams with byte_fallback, over whole texts."""
    made = json.loads(t5().to_str())
    made["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    made["pre_tokenizer"] = None
    made["model"]["vocab"] += [[byte, -20.0] for byte in BYTES]
    made["model"]["byte_fallback"] = True
    made["decoder"] = json.loads(decoders.Sequence([
        decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="never")]).__getstate__())
    return Tokenizer.from_str(json.dumps(made))


TIES = [chr(0x100 + i) + chr(0x200 + i) * 4 for i in range(20)]


def ties():
    """Unigrams that may write a text in two ways, x a aaa or x aaa a. The scores of both are the same, or differ in
    their last bits by how a score's digits are read: as the nearest number, or by a division."""
    rng = random.Random(1)
    tokens = [("<unk>", 0.0)]
    for text in TIES:
        while True:
            scores = [-rng.uniform(*limits) for limits in ((5, 15), (9, 15), (9, 15))]
            read = [-float(repr(-score).replace(".", "")) / 10.0 ** len(repr(score).partition(".")[2])
                    for score in scores]
            if (scores[0] + scores[1]) + scores[2] >= (scores[0] + scores[2]) + scores[1] and \
                    (read[0] + read[1]) + read[2] < (read[0] + read[2]) + read[1]:
                break
        tokens += zip((text[0], text[1], text[2:]), scores)
    tokenizer = Tokenizer(models.Unigram(tokens, unk_id=0, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def bert():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=50))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(LINES, trainers.WordPieceTrainer(
        vocab_size=700, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False,
        limit_alphabet=250))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def clip():
    tokenizer = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed",
                             invert=True), pre_tokenizers.ByteLevel(False, use_regex=True)])
    tokenizer.decoder = decoders.BPEDecoder()
    tokenizer.train_from_iterator(LINES, trainers.BpeTrainer(
        vocab_size=700, special_tokens=["<|startoftext|>", "<|endoftext|>"], end_of_word_suffix="</w>",
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return tokenizer


def mixed():
    """What the others do not have: all kinds of added tokens, a prefix in a BPE, unknown characters."""
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(),
                                                 normalizers.Lowercase(), normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(True),
                                                       pre_tokenizers.Punctuation("contiguous")])
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    tokenizer.train_from_iterator(LINES, trainers.BpeTrainer(
        vocab_size=500, special_tokens=["[UNK]"], continuing_subword_prefix="##", limit_alphabet=120,
        show_progress=False))
    tokenizer.add_tokens([
        AddedToken("[single]", single_word=True), AddedToken("[LEFT]", lstrip=True),
        AddedToken("[right]", rstrip=True, normalized=False), AddedToken("[both]", lstrip=True, rstrip=True),
        AddedToken("Café", normalized=True), AddedToken("[righter]", normalized=False),
        AddedToken("word", single_word=True, normalized=False)])
    return tokenizer


FAMILIES = [gpt2, roberta, llama3, qwen2, llama2, mistral, gemma, t5, xlm_r, unigram_bytes, ties, bert, clip, mixed]

NORMALIZERS = [
    normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD(), normalizers.Lowercase(),
    normalizers.Strip(), normalizers.Strip(left=True, right=False), normalizers.Strip(left=False, right=True),
    normalizers.StripAccents(), normalizers.Nmt(), normalizers.ByteLevel(), normalizers.Prepend("»"),
    normalizers.Replace("a", "bb"), normalizers.Replace(Regex(r"\p{L}+(?=\d)|\s{2,}"), "_"),
    normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=True, lowercase=False),
    normalizers.BertNormalizer(clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=True),
]
BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
PRE_TOKENIZERS = (
    [pre_tokenizers.Split(pattern, behavior, invert) for behavior in BEHAVIORS for invert in (False, True)
     for pattern in (Regex(r"\s"), "a")] +
    [pre_tokenizers.Split(Regex(""), "isolated"), pre_tokenizers.Split(Regex(r"(?<=\p{L})(?=\P{L})"), "isolated"),
     pre_tokenizers.Split(Regex(r"x*"), "removed"), pre_tokenizers.Split(Regex(LLAMA3), "isolated")] +
    [pre_tokenizers.Punctuation(behavior) for behavior in BEHAVIORS] +
    [pre_tokenizers.Digits(False), pre_tokenizers.Digits(True), pre_tokenizers.Whitespace(),
     pre_tokenizers.WhitespaceSplit(), pre_tokenizers.BertPreTokenizer(), pre_tokenizers.CharDelimiterSplit("e"),
     pre_tokenizers.Metaspace(), pre_tokenizers.Metaspace("_", "never"), pre_tokenizers.Metaspace("_", "first"),
     pre_tokenizers.Metaspace(split=False), pre_tokenizers.ByteLevel(True), pre_tokenizers.ByteLevel(False, use_regex=False),
     pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("_", "first")]),
     pre_tokenizers.Sequence([pre_tokenizers.ByteLevel(False), pre_tokenizers.Split("Ġ", "removed")])])
TOKENS = [
    [], ["a"], ["▁Hello", "▁world", "▁"], ["Ġa", "Ã", "©", "Ċ"], ["é", "Ġ", "中"], ["<0xE4>", "<0xBD>", "<0xA0>", "x"],
    ["<0xE4>", "<0xBD>", "y", "<0x41>"], ["  a ", " ", "b  "], ["do", "n't", "'s", ".", "##ed", "do not", " ."],
    ["lo", "w</w>", "est</w>"], ["h", "h", "<pad>", "e", "|", "|", "o"], ["##a", "##b"], ["▁▁x", "▁y▁"],
]
DECODERS = [
    decoders.ByteLevel(), decoders.Metaspace(), decoders.Metaspace(prepend_scheme="never"), decoders.ByteFallback(),
    decoders.Fuse(), decoders.Strip(" ", 1, 0), decoders.Strip(" ", 2, 1), decoders.Replace("▁", " "),
    decoders.Replace(Regex("[a-e]"), "-"), decoders.WordPiece(), decoders.WordPiece(cleanup=False),
    decoders.BPEDecoder(), decoders.CTC(),
    decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]),
]


def texts_of(tokenizer):
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    if not added:
        return TIES
    return TEXTS + [around.format(token, token) for token in added[-7:] for around in AROUND]


def cases_of(tokenizer):
    cases = []
    for text in texts_of(tokenizer):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        case = {"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)}
        with_special = tokenizer.encode(text).ids
        if with_special != ids:
            # All that stands around: the ids themselves are in the middle.
            begin = next(i for i in range(len(with_special)) if with_special[i:i + len(ids)] == ids)
            case["before"], case["after"] = with_special[:begin], with_special[begin + len(ids):]
        skipped = tokenizer.decode(with_special, skip_special_tokens=True)
        if skipped != case["decoded"]:
            case["skipped"] = skipped
        cases.append(case)
    return cases


def write(name, value):
    (GOLDENS / name).write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def state(component):
    return json.loads(component.__getstate__())


def decoded(decoder, tokens):
    """A case, or none where the original panics: Strip of a text that is nothing but what it strips."""
    try:
        return [[tokens, decoder.decode(tokens)]]
    except BaseException:  # pylint: disable=broad-exception-caught  # pyo3's panics are no Exception
        return []


def main():
    GOLDENS.mkdir(exist_ok=True)
    for family in FAMILIES:
        file = family().to_str()
        tokenizer = Tokenizer.from_str(file)  # whose scores may differ from the family's in their last bits
        name = family.__name__
        write(f"{name}.tokenizer.json", json.loads(file))
        vocabulary = tokenizer.get_vocab()
        write(f"{name}.cases.json", {"vocabulary_size": len(vocabulary), "end": max(vocabulary.values()) + 1,
                                     "cases": cases_of(tokenizer)})
    precompiled = normalizers.Precompiled(charsmap())
    texts = TEXTS[:33] + ["ab abc e\u0301 e\u0301\u0323 \r\n ｶﾞ ｶ\u3099"]
    write("normalizers.json", [{"component": state(each), "cases": [[text, each.normalize_str(text)] for text in texts]}
                               for each in NORMALIZERS + [precompiled]])
    write("pre_tokenizers.json", [
        {"component": state(each),
         "cases": [[text, [piece for piece, _ in each.pre_tokenize_str(text)]] for text in texts[3:31:2] + texts[42:44]]}
        for each in PRE_TOKENIZERS])
    write("decoders.json", [
        {"component": state(each), "cases": [case for tokens in TOKENS for case in decoded(each, tokens)]}
        for each in DECODERS])


if __name__ == "__main__":
    main()
