"""WordNet 3.0 (Debian's wordnet-base) as a graph for `longhaul graph import edges`: to which field does a meaning belong?

    PYTHON deploy/graphs/wordnet.py --out FOLDER [--data /usr/share/wordnet]

A node is a set of words with one meaning, its class the lexicographer file (animals, acts, places). Features are the words of its gloss, edges the
pointers (is a kind of, is a part of). It never changes, so that accuracies of different days compare."""

import argparse
import pathlib
import sys

try:
    import numpy

    import text_graph
except ModuleNotFoundError as error:
    sys.exit(f"wordnet: no module {error.name}; run it by $(deploy/setup.sh --print-venv)/bin/python")

# Of data.KIND, in the order of the numbers of lexicographer files (lexnames(5WN)).
KINDS = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
LEXNAMES = ("adj.all adj.pert adv.all noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body noun.cognition noun.communication "
            "noun.event noun.feeling noun.food noun.group noun.location noun.motive noun.object noun.person noun.phenomenon noun.plant "
            "noun.possession noun.process noun.quantity noun.relation noun.shape noun.state noun.substance noun.time verb.body verb.change "
            "verb.cognition verb.communication verb.competition verb.consumption verb.contact verb.creation verb.emotion verb.motion "
            "verb.perception verb.possession verb.social verb.stative verb.weather adj.ppl").split()


def meanings_of(data):
    """(id, number of its lexicographer file, gloss, ids that it points to) of each."""
    for kind, name in KINDS.items():
        for line in (pathlib.Path(data) / f"data.{name}").read_text(encoding="latin-1").splitlines():
            if line.startswith(" "):
                continue  # The licence.
            fields, _, gloss = line.partition(" | ")
            fields = fields.split(" ")
            pointers = 4 + 2 * int(fields[3], 16)
            first = pointers + 1
            targets = []
            for at in range(first, first + 4 * int(fields[pointers]), 4):
                # Adjectives are a or s (satellites), in one file.
                targets.append(fields[at + 2].replace("s", "a") + fields[at + 1])
            yield kind + fields[0], int(fields[1]), gloss, targets


def make(data, out, columns=256, seed=1):
    """Writes the folder; returns a line that says what it wrote."""
    meanings = list(meanings_of(data))
    number = {meaning: i for i, (meaning, *_) in enumerate(meanings)}
    edges = [(i, number[target]) for i, (*_, targets) in enumerate(meanings) for target in targets]
    labels = numpy.array([file for _, file, *_ in meanings], numpy.int32)
    return text_graph.write_graph(out, list(number), numpy.array(edges, numpy.int64).reshape(-1, 2),
                                  text_graph.features_of([gloss for *_, gloss, _ in meanings], columns), labels, LEXNAMES,
                                  text_graph.split_of(labels, seed))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", required=True, help="folder to write")
    parser.add_argument("--data", default="/usr/share/wordnet", help="folder with data.noun and so on (default: that of wordnet-base)")
    parser.add_argument("--columns", type=int, default=256, help="columns of the features (default: 256)")
    parser.add_argument("--seed", type=int, default=1, help="of the split into train, valid and test (default: 1)")
    options = parser.parse_args()
    try:
        print(make(options.data, options.out, options.columns, options.seed))
    except FileNotFoundError as error:
        sys.exit(f"wordnet: no {error.filename}; install the Debian package wordnet-base")


if __name__ == "__main__":
    main()
