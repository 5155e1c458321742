"""Debian's packages and WordNet as files for `longhaul graph import edges`."""

import hashlib
import pathlib
import subprocess
import sys
import tempfile
import unittest

from imports import GRAPHS, import_graph

import debian_packages
import graph_folder
import numpy
import text_graph
import wordnet

LONGHAUL = pathlib.Path(sys.argv.pop(1), "longhaul").resolve()

AVAILABLE = """\
Package: libzip-perl
Source: zip (1.0-2)
Section: perl
Depends: perl:any (>= 5.30), libc6 (>= 2.34) | libc6-udeb, libzip-perl,
 zlib1g (>= 1:1.1.4)
Recommends: mail-transport-agent, awk
Description: Perl module for Zip archives
 A longer text that names libc6.
Description-md5: 00

Package: zip
Section: utils
Pre-Depends: libc6
Suggests: unheard-of
Description-en: Archiver for .zip files

Package: perl
Section: perl
Description: Larry Wall's language

Package: libc6
Source: glibc
Section: libs
Version: 2

Package: libc6
Section: perl
Version: 1
Description: of an older version

Package: exim4
Section: contrib/mail
Provides: mail-transport-agent, awk

Package: mawk
Section: oldlibs
Provides: awk
Enhances: zip

Package: zlib1g
Section: libs
"""


def lists_of_this_machine():
    try:
        return subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        return ""


class GraphMakersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def make(self, text=AVAILABLE, **options):
        return list(debian_packages.make(text.splitlines(keepends=True), self.folder, **options))

    def array(self, name, of="whole"):
        return numpy.load(self.folder / of / f"{name}.npy")

    def ids(self, of="whole"):
        return (self.folder / of / "ids.txt").read_text().split()

    def test_packages_relations_and_sections(self):
        lines = self.make(smallest_class=1)
        self.assertEqual(self.ids(), ["exim4", "libc6", "libzip-perl", "mawk", "perl", "zip", "zlib1g"])
        names = self.ids()
        self.assertEqual({(names[a], names[b]) for a, b in self.array("edges")},
                         {("libzip-perl", "perl"), ("libzip-perl", "libc6"), ("libzip-perl", "libzip-perl"), ("libzip-perl", "zlib1g"),
                          # One package alone provides it; two provide awk.
                          ("libzip-perl", "exim4"), ("zip", "libc6"), ("mawk", "zip")})
        classes = (self.folder / "whole/classes.txt").read_text().split()
        self.assertEqual(classes, ["libs", "mail", "perl", "utils"])
        labels = {name: classes[label] if label >= 0 else None for name, label in zip(names, self.array("labels"))}
        self.assertEqual(labels, {"exim4": "mail", "libc6": "libs", "libzip-perl": "perl", "mawk": None, "perl": "perl", "zip": "utils", "zlib1g": "libs"})
        self.assertIn("7 nodes, 7 edges as written, 6 nodes labelled, 4 classes", lines[0])

    def test_a_small_section_has_no_class(self):
        self.make(smallest_class=2)
        self.assertEqual((self.folder / "whole/classes.txt").read_text().split(), ["libs", "perl"])
        self.assertEqual(sorted(self.array("labels")), [-1, -1, -1, 0, 0, 1, 1])
        with self.assertRaisesRegex(ValueError, "no section with 100"):
            self.make()
        with self.assertRaisesRegex(ValueError, "of 0 packages"):
            self.make(text="")

    def test_features_are_words_of_the_description(self):
        self.make(smallest_class=1)
        rows = dict(zip(self.ids(), self.array("features")))
        self.assertEqual(self.array("features").shape, (7, 256))
        # Neither the name nor the long description counts; without words a row is zero.
        self.assertFalse(rows["libc6"].any() or rows["exim4"].any())
        self.assertEqual(numpy.count_nonzero(rows["perl"]), len({"larry", "wall", "language"}))
        for name in ("libzip-perl", "perl", "zip"):
            self.assertAlmostEqual(float(numpy.linalg.norm(rows[name])), 1, places=6)
        # "for" and "zip" stand in two texts, "perl" in one.
        features = text_graph.features_of(["rare common", "common", "common other", ""], 4096)
        weights = sorted(abs(features[0][features[0] != 0]))
        self.assertGreater(weights[1], 2 * weights[0])

    def test_parts_and_sites(self):
        self.make(smallest_class=1, sites=2)
        splits = {name: self.array(name) for name in ("train", "valid", "test")}
        labelled = numpy.flatnonzero(self.array("labels") >= 0)
        self.assertEqual(sorted(numpy.concatenate(list(splits.values()))), list(labelled))
        self.assertEqual([len(part) for part in splits.values()], [3, 1, 2])
        names = self.ids()
        sites = [self.ids("site-a"), self.ids("site-b")]
        self.assertEqual(sorted(sites[0] + sites[1]), names)
        # The packages of a source are together.
        self.assertTrue(any({"zip", "libzip-perl"} <= set(site) for site in sites))
        for site, own in zip(("site-a", "site-b"), sites):
            edges = {(own[a], own[b]) for a, b in self.array("edges", site)}
            self.assertEqual(edges, {(names[a], names[b]) for a, b in self.array("edges") if names[a] in own and names[b] in own})
            for name, part in splits.items():
                self.assertEqual({own[i] for i in self.array(name, site)}, {names[i] for i in part} & set(own))
            for i, name in enumerate(own):
                self.assertEqual(self.array("labels", site)[i], self.array("labels")[names.index(name)])
                self.assertTrue((self.array("features", site)[i] == self.array("features")[names.index(name)]).all())

    def test_the_same_seed_gives_the_same_files(self):
        def digests():
            return {path.relative_to(self.folder): hashlib.sha256(path.read_bytes()).hexdigest() for path in self.folder.rglob("*.*")}
        self.make(smallest_class=1)
        first = digests()
        self.make(smallest_class=1)
        self.assertEqual(digests(), first)
        self.make(smallest_class=1, seed=2)
        self.assertNotEqual(digests(), first)

    def test_the_small_graph_imports(self):
        self.make(smallest_class=1)
        told = import_graph(LONGHAUL, self.folder / "whole", self.folder / "graph")
        self.assertEqual((told["nodes"], told["edges"], told["dropped_loops"], told["classes"], told["columns"]), (7, 12, 1, 4, 256))
        graph = graph_folder.GraphFolder(self.folder / "graph")
        self.assertEqual((graph.classes, len(graph.indices), len(graph.train)), (4, 12, 3))

    def test_the_packages_of_this_machine_import(self):
        text = lists_of_this_machine()
        if text.count("\nPackage: ") < 10000:
            self.skipTest("apt knows no packages: apt-get update was not run")
        self.make(text=text)
        whole = import_graph(LONGHAUL, self.folder / "whole", self.folder / "graph")
        self.assertGreater(whole["nodes"], 10000)
        self.assertGreater(whole["edges"], 3 * whole["nodes"])
        self.assertGreater(whole["classes"], 20)
        # As written every third package is named by none.
        self.assertLess(whole["nodes_without_in_edges"], whole["nodes"] / 10)
        self.assertEqual(whole["warnings"], [])
        sites = [import_graph(LONGHAUL, self.folder / site, self.folder / f"graph-{site}") for site in ("site-a", "site-b")]
        self.assertEqual(sum(site["nodes"] for site in sites), whole["nodes"])
        self.assertLess(sum(site["edges"] for site in sites), whole["edges"])
        for part in ("train", "valid", "test"):
            self.assertEqual(sum(site[part] for site in sites), whole[part])
        self.assertEqual({site["schema_digest"] for site in sites}, {whole["schema_digest"]})

    def test_the_command_without_lists(self):
        (self.folder / "empty").write_text("")
        done = subprocess.run([sys.executable, "-B", GRAPHS / "debian_packages.py", "--out", self.folder, "--available", self.folder / "empty"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("was `apt-get update` run?", done.stderr)

    def test_wordnet(self):
        licence = "  1 This software and database is being provided to you, the LICENSEE  \n"
        texts = {"noun": "00001740 03 n 01 entity 0 002 ~ 00001930 n 0000 + 00000005 v 0101 | that which exists  \n"
                         "00001930 05 n 0a a 0 b 0 c 0 d 0 e 0 f 0 g 0 h 0 i 0 j 0 001 @ 00001740 n 0000 | a living thing; \"a | b\"  \n",
                 "verb": "00000005 29 v 01 be 0 000 01 + 08 00 | have life  \n",
                 "adj": "00000005 00 s 01 able 0 001 & 00000009 a 0000 | having skill  \n00000009 00 a 01 apt 0 001 & 00000005 s 0000 | quick to learn  \n",
                 "adv": "00000005 02 r 01 ably 0 001 \\ 00000005 a 0101 | with skill  \n"}
        for name, text in texts.items():
            (self.folder / f"data.{name}").write_text(licence + text)
        wordnet.make(self.folder, self.folder / "made")
        self.assertEqual(self.ids("made"), ["n00001740", "n00001930", "v00000005", "a00000005", "a00000009", "r00000005"])
        self.assertEqual(self.array("labels", "made").tolist(), [3, 5, 29, 0, 0, 2])
        self.assertEqual(self.array("edges", "made").tolist(), [[0, 1], [0, 2], [1, 0], [3, 4], [4, 3], [5, 3]])
        self.assertEqual(numpy.count_nonzero(self.array("features", "made")[2]), 2)


unittest.main()
