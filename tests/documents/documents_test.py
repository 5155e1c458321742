"""What a reader of the documents meets: each link leads somewhere, each picture can be drawn, each page is found, and the first ones are short.

    documents_test.py [unittest arguments]
"""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/deploy"))

import tools  # noqa: E402

LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
# Page: how many words it may have. A newcomer reads the first two before anything else.
WORDS_MAX = {"README.md": 700, "ARCHITECTURE.md": 2500, "docs/concepts.md": 1500, "docs/quickstart.md": 900}
IMAGE_BYTES_MAX = 300_000
# Draws each picture of standard input, a JSON list of [place, text], and prints [[place, error]].
DRAW = """
import json, sys, mermaidx
problems = []
for place, text in json.load(sys.stdin):
    try:
        mermaidx.render(text).svg()
    except Exception as error:
        problems.append([place, str(error)])
print(json.dumps(problems))
"""


def pages():
    """Each page of the tree, also one that is not committed yet."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return sorted(name for name in listed.stdout.splitlines() if (ROOT / name).exists())


def prose_of(text):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def anchor_of(heading):
    """As GitHub makes it."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def anchors_of(text):
    found = set()
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M):
        anchor, number = anchor_of(heading), 0
        while anchor in found:
            number += 1
            anchor = f"{anchor_of(heading)}-{number}"
        found.add(anchor)
    return found


def links_of(text):
    return [link for link in LINK.findall(prose_of(text)) if not re.match(r"[a-z]+:", link)]


def target_of(page, link):
    """(path from the root, anchor)"""
    path, _, anchor = link.partition("#")
    return (os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page), anchor


def broken_links(page, text, read):
    """`read`: the text of a page; None where there is no such file or folder; "" for what has no anchors."""
    for link in links_of(text):
        path, anchor = target_of(page, link)
        there = read(path)
        if there is None:
            yield f"{page}: {link} leads nowhere"
        elif anchor and anchor not in anchors_of(there):
            yield f"{page}: {path} has no heading #{anchor}"


def read(path):
    file = ROOT / path
    if not file.exists():
        return None
    return file.read_text(encoding="utf-8") if path.endswith(".md") else ""


def pictures_of(page, text):
    return [[f"{page}: picture {number}", picture] for number, picture in enumerate(re.findall(r"^```mermaid\n(.*?)^```", text, re.M | re.S), 1)]


def undrawable(pictures):
    python = tools.environment(ROOT / "tests/documents/requirements.txt")
    drawn = subprocess.run([python, "-c", DRAW], input=json.dumps(pictures), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(drawn.stdout)


def words_of(text):
    """What one reads: no marks of tables, no targets of links, no pictures."""
    text = re.sub(r"^```mermaid.*?^```", "", text, flags=re.M | re.S)
    return len(re.findall(r"\S*\w\S*", re.sub(r"\]\([^)]*\)", "]", text)))


class DocumentsTest(unittest.TestCase):
    def test_links_lead_somewhere(self):
        self.assertEqual([problem for page in pages() for problem in broken_links(page, read(page), read)], [])

    def test_pictures_can_be_drawn(self):
        pictures = [picture for page in pages() for picture in pictures_of(page, read(page))]
        self.assertGreaterEqual(len(pictures), 5)
        self.assertEqual(undrawable(pictures), [])

    def test_each_page_is_found_from_the_first_one(self):
        known, left = {"README.md"}, ["README.md"]
        while left:
            page = left.pop()
            for link in links_of(read(page)):
                path, _ = target_of(page, link)
                path = f"{path}/README.md" if (ROOT / path / "README.md").exists() else path
                if path.endswith(".md") and path not in known and (ROOT / path).exists():
                    known.add(path)
                    left.append(path)
        self.assertEqual([page for page in pages() if page.startswith("docs/") and page not in known], [])

    def test_the_first_pages_are_short(self):
        for page, most in WORDS_MAX.items():
            self.assertLessEqual(words_of(read(page)), most, page)

    def test_images_are_used_and_small(self):
        shown = {target_of(page, link)[0] for page in pages() for link in links_of(read(page))}
        for image in sorted((ROOT / "docs/images").iterdir()):
            if image.suffix in (".svg", ".png"):
                self.assertIn(str(image.relative_to(ROOT)), shown)
                self.assertLess(image.stat().st_size, IMAGE_BYTES_MAX, image)

    def test_the_plot_is_that_of_its_figures(self):
        script = ROOT / "docs/images/loss_against_bytes.py"
        spec = importlib.util.spec_from_file_location("loss_against_bytes", script)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        figures = json.loads(script.with_suffix(".json").read_text(encoding="utf-8"))
        self.assertEqual(script.with_suffix(".svg").read_text(encoding="utf-8"), module.draw(figures), f"run {script} --draw")
        said = read("README.md")
        for curve in figures["curves"].values():
            self.assertIn(f"{curve[-1][1]:.3f}", said)


class FindsTest(unittest.TestCase):
    """What is wrong is found."""

    def test_a_broken_link(self):
        tree = {"a.md": "# One\n## Two words\n## Two words\n`[x](no)`\n```\n[x](no)\n# No heading\n```\n", "docs/b.md": ""}
        text = "[x](../a.md) [x](../a.md#two-words) [x](../a.md#two-words-1) [x](https://example.org/x) [x](#own)\n# Own\n"
        self.assertEqual(list(broken_links("docs/b.md", text, {**tree, "docs/b.md": text}.get)), [])
        for link in ("a.md", "../a.md#three", "../a.md#two-words-2", "../a.md#no-heading", "#other"):
            self.assertEqual(len(list(broken_links("docs/b.md", f"[x]({link})", tree.get))), 1, link)

    def test_a_picture_that_is_none(self):
        pictures = pictures_of("p", "```mermaid\nflowchart LR\n  a[x] --> b\n```\n```mermaid\nflowchart LR\n  a[x --> b\n```\n")
        self.assertEqual([place for place, _ in undrawable(pictures)], ["p: picture 2"])

    def test_words(self):
        self.assertEqual(words_of("# One two\n| three | - |\n[four](https://five.six)\n```mermaid\nno\n```\n```sh\nlonghaul submit\n```\n"), 7)


if __name__ == "__main__":
    unittest.main()
