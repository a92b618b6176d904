#!/usr/bin/env python3
"""Makes the texts of this folder from Debian's package r-cran-janeaustenr: make_texts.py [PACKAGE.deb]

Without an argument the package is downloaded by apt-get. Each novel is a vector of lines in a database of R, which this
script reads by itself: a series of blocks, each a length and a zlib stream of R's serialization in big-endian (XDR)."""
import pathlib
import subprocess
import sys
import tempfile
import zlib

NOVELS = {"SENSE AND SENSIBILITY": "sense-and-sensibility", "PRIDE AND PREJUDICE": "pride-and-prejudice",
          "MANSFIELD PARK": "mansfield-park", "EMMA": "emma", "NORTHANGER ABBEY": "northanger-abbey", "PERSUASION": "persuasion"}
STRINGS, STRING = 16, 9  # R's types: a vector of strings, and one of them
LATIN1 = 1 << 14  # the flag of a string that is not UTF-8


def blocks_of(database):
    """The blocks of an .rdb file, decompressed."""
    while database:
        size, stream = int.from_bytes(database[:4], "big"), zlib.decompressobj()
        block = stream.decompress(database[4:])
        assert len(block) == size, "a block has another length than it says"
        yield block
        database = stream.unused_data


def lines_of(block):
    """The strings of a serialized vector of strings; None for another object."""
    position = 0

    def number():
        nonlocal position
        position += 4
        return int.from_bytes(block[position - 4:position], "big", signed=True)

    assert block[:2] == b"X\n", "not in R's XDR form"
    position = 2
    version = number()
    position += 8  # the versions of R that wrote it and can read it
    if version == 3:
        length = number()
        position += length  # the name of the native encoding
    if number() & 0xff != STRINGS:
        return None
    lines = []
    for _ in range(number()):
        flags, length = number(), number()
        assert flags & 0xff == STRING and length >= 0, "not a string"
        lines.append(block[position:position + length].decode("latin-1" if flags & LATIN1 else "utf-8"))
        position += length
    return lines


def text_of(lines):
    """The author's lines, without blanks at their ends, and with at most two empty lines in a row."""
    kept = []
    for line in lines:
        line = line.rstrip()
        if line == "A NOTE ON THE TEXT":  # by a publisher of our time
            break
        if line or kept[-2:] != ["", ""]:
            kept.append(line)
    return "\n".join(kept).strip("\n") + "\n"


def main(arguments):
    folder = pathlib.Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as temporary:
        if not arguments:
            subprocess.run(["apt-get", "download", "--quiet", "r-cran-janeaustenr"], cwd=temporary, check=True)
            arguments = [str(next(pathlib.Path(temporary).glob("*.deb")))]
        subprocess.run(["dpkg-deb", "--extract", arguments[0], temporary], check=True)
        database = next(pathlib.Path(temporary).rglob("data/Rdata.rdb")).read_bytes()
    for lines in map(lines_of, blocks_of(database)):
        name = lines and next((name for title, name in NOVELS.items() if lines[0].strip().upper() == title), None)
        if name:
            (folder / f"{name}.txt").write_text(text_of(lines), encoding="utf-8")
            print(f"{name}.txt: {len(lines)} lines")


if __name__ == "__main__":
    main(sys.argv[1:])
