"""The Python packages that make files of training data; files as other projects' own writers lay them out."""

import os
import pathlib
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]


def use_environment():
    """Goes on in the virtual environment of requirements.txt, which is made the first time."""
    sys.path[:0] = [str(ROOT / "tests/deploy"), str(ROOT / "tests/integration/processes")]
    import tools
    python = tools.environment(pathlib.Path(__file__).with_name("requirements.txt"))
    if pathlib.Path(sys.prefix).resolve() != pathlib.Path(python).parent.parent.resolve():
        os.execv(python, [python, "-B", *sys.argv])


def sentences(count, first=0):
    nouns = ["river", "mountain", "harbour", "library", "station", "garden"]
    verbs = ["crosses", "remembers", "follows", "becomes", "answers"]
    return [f"The {nouns[i % 6]} {verbs[i % 5]} the old {nouns[(i * 5 + 1) % 6]}, number {i}: caf\u00e9 \u4f60\u597d."
            for i in range(first, first + count)]


def write_nanogpt(path, tokens):
    import numpy
    numpy.array(tokens, dtype=numpy.uint16).tofile(path)  # As prepare.py of nanoGPT does.


def write_llmc(path, tokens):
    """As dev/data/data_common.py of llm.c: a header of 256 int32, then uint16."""
    import numpy
    header = numpy.zeros(256, dtype=numpy.int32)
    header[:3] = 20240520, 1, len(tokens)
    with open(path, "wb") as file:
        file.write(header.tobytes())
        file.write(numpy.array(tokens, dtype=numpy.uint16).tobytes())


def write_megatron(prefix, documents):
    """As IndexedDatasetBuilder of Megatron-LM: one sequence a document, int32."""
    import numpy
    sizes = numpy.array([len(document) for document in documents], dtype=numpy.int32)
    with open(f"{prefix}.bin", "wb") as file:
        for document in documents:
            file.write(numpy.array(document, dtype=numpy.int32).tobytes(order="C"))
    pointers = numpy.zeros(len(sizes), dtype=numpy.int64)
    numpy.cumsum(sizes[:-1].astype(numpy.int64) * 4, out=pointers[1:])
    with open(f"{prefix}.idx", "wb") as file:
        file.write(b"MMIDIDX\x00\x00" + struct.pack("<Q", 1) + struct.pack("<B", 4))
        file.write(struct.pack("<Q", len(sizes)) + struct.pack("<Q", len(sizes) + 1))
        file.write(sizes.tobytes(order="C") + pointers.tobytes(order="C"))
        file.write(numpy.arange(len(sizes) + 1, dtype=numpy.int64).tobytes(order="C"))


def read_megatron(prefix):
    """Its documents, as lists of tokens. Independent of the writer above and of the product."""
    import numpy
    with open(f"{prefix}.idx", "rb") as file:
        assert file.read(9) == b"MMIDIDX\x00\x00"
        version, code, sequences, entries = struct.unpack("<QBQQ", file.read(25))
        assert version == 1
        dtype = {1: numpy.uint8, 4: numpy.int32, 8: numpy.uint16}[code]
        sizes = numpy.frombuffer(file.read(4 * sequences), dtype=numpy.int32)
        pointers = numpy.frombuffer(file.read(8 * sequences), dtype=numpy.int64)
        starts = numpy.frombuffer(file.read(8 * entries), dtype=numpy.int64)
        assert not file.read()
    tokens = numpy.fromfile(f"{prefix}.bin", dtype=dtype)
    size = numpy.dtype(dtype).itemsize
    result = []
    for first, end in zip(starts, starts[1:]):
        document = []
        for i in range(first, end):
            document += tokens[pointers[i] // size:pointers[i] // size + sizes[i]].tolist()
        result.append(document)
    return result


def train_pieces(folder):
    """A SentencePiece model; returns its path and the real processor."""
    import sentencepiece
    text = folder / "pieces.txt"
    text.write_text("\n".join(sentences(400)))
    sentencepiece.SentencePieceTrainer.train(input=str(text), model_prefix=str(folder / "pieces"), vocab_size=400, byte_fallback=True,
                                             hard_vocab_limit=False, minloglevel=2)
    return folder / "pieces.model", sentencepiece.SentencePieceProcessor(model_file=str(folder / "pieces.model"))


def train_tokenizer(folder, texts=None, vocab=500):
    """A byte-level BPE tokenizer.json; returns its path and the tokenizer."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts or sentences(400), trainer)
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    return path, tokenizer
