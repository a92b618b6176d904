#!/usr/bin/env python3
"""Compares bench_tokenizer with the PyPI package tokenizers, in ids and in speed:

    compare_tokenizers.py collect DOCUMENTS MEGABYTES PATH...
    compare_tokenizers.py train FOLDER DOCUMENTS [FAMILY...]
    compare_tokenizers.py compare BENCH_TOKENIZER DOCUMENTS TOKENIZER.json...

collect writes documents with zero bytes between them: half of them texts of files below the paths, in the order of a
hash, among them translations in .mo files; half of them random texts. train makes tokenizers as large as real ones of
the families of make_goldens.py. compare prints the first differences of each tokenizer, also in texts of its
special tokens. It prints MB/s of both by one thread's time on a core: medians over parts of the documents, for which
they take turns. Exit status 1 if any ids differ."""
import array
import gettext
import hashlib
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer, trainers  # noqa: E402  pylint: disable=wrong-import-position

import make_goldens  # noqa: E402  pylint: disable=wrong-import-position
from cases import AROUND, TEXTS  # noqa: E402  pylint: disable=wrong-import-position

PARTS = 9
# First and last code points of what random texts are made of.
ALPHABETS = [(0x20, 0x7e), (0x61, 0x7a), (0x1, 0x7f), (0xa0, 0x17f), (0x300, 0x36f), (0x370, 0x3ff), (0x400, 0x4ff),
             (0x5d0, 0x5ea), (0x620, 0x6ff), (0x900, 0x97f), (0xe00, 0xe7f), (0x1100, 0x11ff), (0x1e00, 0x1fff),
             (0x2000, 0x206f), (0x2100, 0x27bf), (0x3000, 0x30ff), (0x4e00, 0x4fff), (0xac00, 0xacff), (0xfb00, 0xfb4f),
             (0xfe00, 0xffff), (0x1d400, 0x1d4ff), (0x1f300, 0x1f6ff), (0x1f1e6, 0x1f1ff), (0x20, 0xd7ff),
             (0x10000, 0x1ffff)]


def texts_of_file(path):
    try:
        if path.suffix == ".mo":
            with open(path, "rb") as file:
                catalog = gettext.GNUTranslations(file)._catalog  # pylint: disable=protected-access
            return ["\n".join(text for text in catalog.values() if isinstance(text, str))]
        text = path.read_bytes()[:1_000_000].decode()
    except (OSError, UnicodeDecodeError, LookupError, ValueError, AttributeError):
        return []
    return [] if "\0" in text else [text]


def random_text(rng):
    parts = []
    while rng.random() > 0.1:
        kind = rng.random()
        if kind < 0.3:
            text = rng.choice(TEXTS).replace("\0", "")
            begin = rng.randrange(len(text) + 1)
            parts.append(text[begin:begin + rng.randrange(20)])
        elif kind < 0.4:
            parts.append(rng.choice([" ", "  ", "\n", "\t", "\r\n", "\u200d", "\u0301", "\ufe0f", "'s", "</s>", "<s>",
                                     "<unk>", "[UNK]", "<mask>", "<|endoftext|>", "<|im_start|>", "<0x41>", "▁"]))
        else:
            first, last = rng.choice(ALPHABETS)
            letters = [chr(rng.randint(first, last)) for _ in range(rng.randrange(1, 12))]
            parts.append(re.sub("[\ud800-\udfff]", "", "".join(letters)))
    return "".join(parts)


def collect(documents, megabytes, *paths):
    files = [path for each in paths for path in pathlib.Path(each).rglob("*") if path.is_file() and not path.is_symlink()]
    files.sort(key=lambda path: hashlib.md5(str(path).encode()).digest())
    budget, written, rng = float(megabytes) * 1e6, 0, random.Random(1)
    with open(documents, "wb") as out:
        for path in files:
            for text in texts_of_file(path):
                written += out.write(text.encode() + b"\0")
            if written > budget / 2:
                break
        while written < budget:
            written += out.write(random_text(rng).encode() + b"\0")


def train(folder, documents, *names):
    texts = read_documents(documents)
    make_goldens.LINES = [line for text in texts[::5] if len(text) > 2000 for line in text[:20000].split("\n")]
    make_goldens.FEWER_CHARACTERS = make_goldens.LINES[::4]  # unigrams train in more than linear time
    # The families ask for small vocabularies.
    for trainer in ("BpeTrainer", "UnigramTrainer", "WordPieceTrainer"):
        make = getattr(trainers, trainer)
        setattr(trainers, trainer, lambda make=make, **options: make(
            **{**options, "vocab_size": 16000 if make.__name__ == "UnigramTrainer" else 32000}))
    for name in names or [family.__name__ for family in make_goldens.FAMILIES]:
        begin = time.monotonic()
        getattr(make_goldens, name)().save(f"{folder}/{name}.json", pretty=False)
        print(f"{name} trained in {time.monotonic() - begin:.0f} s", flush=True)


def read_documents(documents):
    return pathlib.Path(documents).read_bytes().decode().split("\0")[:-1]


def ids_of_program(program, documents, tokenizer):
    """Ids of each text, and MB/s."""
    with tempfile.NamedTemporaryFile() as file:
        said = subprocess.run([program, tokenizer, documents, file.name], capture_output=True, text=True, check=True)
        numbers = array.array("i", pathlib.Path(file.name).read_bytes())
    at, all_ids = 0, []
    while at < len(numbers):
        all_ids.append(numbers[at + 1:at + 1 + numbers[at]].tolist())
        at += 1 + numbers[at]
    return all_ids, float(re.search(r"([0-9.]+) MB/s", said.stdout)[1])


def ids_of_original(tokenizer, texts):
    """The original's ids. Places of tokens are left out: they take a third longer."""
    seconds, all_ids = 0.0, []
    for text in texts:
        begin = time.process_time()
        encoded = tokenizer.encode_batch_fast([text], add_special_tokens=False)[0]
        seconds += time.process_time() - begin
        all_ids.append(encoded.ids)
    return all_ids, sum(len(text.encode()) + 1 for text in texts) / 1e6 / seconds


def show_differences(tokenizer, texts, ours, theirs):
    assert len(ours) == len(texts)
    wrong = [each for each in zip(texts, theirs, ours) if each[1] != each[2]]
    for text, expected, ids in sorted(wrong, key=lambda each: len(each[0]))[:3]:
        at = next((i for i, pair in enumerate(zip(expected, ids)) if pair[0] != pair[1]), min(len(expected), len(ids)))
        print(f"  {text[:200]!r}: from id {at} on theirs {expected[at:at + 8]}, ours {ids[at:at + 8]}; theirs "
              f"{[tokenizer.id_to_token(i) for i in expected[max(0, at - 3):at + 5]]}")
    return len(wrong)


def texts_of_special_tokens(tokenizer):
    tokens = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    return [around.format(token, token) for token in tokens for around in AROUND] + ["".join(tokens), " ".join(tokens)]


def compare(program, documents, *tokenizers):
    texts, differ = read_documents(documents), 0
    for file in tokenizers:
        tokenizer, wrong, count, speeds = Tokenizer.from_file(file), 0, 0, []
        special = texts_of_special_tokens(tokenizer)
        parts = [texts[i::PARTS] for i in range(min(PARTS, len(texts)))]
        for part in parts + [special]:
            with tempfile.NamedTemporaryFile() as own:
                own.write("".join(text + "\0" for text in part).encode())
                own.flush()
                ours, our_speed = ids_of_program(program, own.name, file)
            theirs, their_speed = ids_of_original(tokenizer, part)
            wrong += show_differences(tokenizer, part, ours, theirs)
            count += sum(map(len, ours))
            if part is not special:
                speeds.append((our_speed, their_speed, our_speed / their_speed))
        our_speed, their_speed, ratio = (statistics.median(column) for column in zip(*speeds))
        print(f"{pathlib.Path(file).name}: {len(texts)} texts and {len(special)} of special tokens, {wrong} differ; "
              f"{count} ids; ours {our_speed:.1f} MB/s, theirs {their_speed:.1f}, ratio {ratio:.2f}", flush=True)
        differ += wrong
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit({"collect": collect, "train": train, "compare": compare}[sys.argv[1]](*sys.argv[2:]))
