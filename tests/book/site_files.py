"""What can be said of the book's files without a browser: links, anchors, what other servers are asked for, sizes."""
import gzip
import html.parser
import math
import pathlib
import posixpath
import random
import re
import urllib.parse


class Page(html.parser.HTMLParser):
    """Anchors, links and what a page loads."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loads, self.unnamed = set(), [], [], []
        self.language, self.headings = None, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        of = dict(attributes)
        self.anchors.update(of[key] for key in ("id", "name") if of.get(key))
        if tag == "html":
            self.language = of.get("lang")
        if tag == "a" and of.get("href"):
            self.links.append(of["href"])
        if tag in ("img", "script", "source", "iframe") and of.get("src"):
            self.loads.append(of["src"])
        if tag == "source" and of.get("srcset"):
            self.loads.append(of["srcset"])
        if tag == "link" and of.get("rel") in ("stylesheet", "icon", "preload", "modulepreload"):
            self.loads.append(of["href"])
        if tag == "img" and not of.get("alt"):
            self.unnamed.append(of.get("src"))
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            self.headings.append(int(tag[1]))


def read_one(site, name):
    return Page((pathlib.Path(site) / name).read_text(encoding="utf-8"))


def read(site):
    return {file.relative_to(site).as_posix(): Page(file.read_text(encoding="utf-8"))
            for file in sorted(pathlib.Path(site).rglob("*.html"))
            if not file.is_relative_to(pathlib.Path(site) / "slides")}


def is_elsewhere(link):
    return bool(urllib.parse.urlsplit(link).scheme) or link.startswith("//")


def lost_links(site, pages):
    """Links inside the book that lead nowhere: a file that is not there, an anchor that a page lacks."""
    files = {file.relative_to(site).as_posix() for file in pathlib.Path(site).rglob("*") if file.is_file()}
    lost = []
    for name, page in pages.items():
        if name == "404.html":  # its links are those of the server's root
            continue
        for link in dict.fromkeys(page.links + page.loads):
            if is_elsewhere(link):
                continue
            path, anchor = urllib.parse.urldefrag(urllib.parse.unquote(link))
            path = path.partition("?")[0]
            place = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
            if place not in files:
                place = posixpath.normpath(posixpath.join(place, "index.html"))
            if place not in files:
                lost.append(f"{name}: {link}: there is no such file")
            elif anchor and place in pages and anchor not in pages[place].anchors:
                lost.append(f"{name}: {link}: that page has no such anchor")
    return lost


def other_servers(pages):
    return [f"{name} loads {link}" for name, page in pages.items() for link in page.loads if is_elsewhere(link)]


def unnamed_pictures(pages):
    return [f"{name}: the picture {each} has no description" for name, page in pages.items() for each in page.unnamed]


def left_markdown(site, pages):
    """Marks of Markdown or of formulas that should have become HTML."""
    found = []
    for name in pages:
        text = (pathlib.Path(site) / name).read_text(encoding="utf-8")
        for word in ("ymath", "ysource", "<p>```", "<p>| "):
            if word in text:
                found.append(f"{name}: '{word}' is left")
        words = re.sub(r"<(pre|script|style|svg|code)\b.*?</\1>", "", text[text.find("<article"):text.find("</article")], flags=re.S)
        found += [f"{name}: no item of a list: {item[:60]}" for item in re.findall(r"^ *((?:-|\d+\.) .*)", words, re.M)]
    return found


def kilobytes(files):
    """As a server sends them: compressed, but for what is compressed already."""
    size = 0
    for file in files:
        data = pathlib.Path(file).read_bytes()
        size += len(data) if file.suffix in (".woff2", ".png") else len(gzip.compress(data))
    return size / 1000


def differences(ours, other, place=""):
    """Where two answers differ; numbers that are nearly equal are equal, as two compilers' exp() may be."""
    if isinstance(ours, dict) and isinstance(other, dict) and ours.keys() == other.keys():
        return [each for key in ours for each in differences(ours[key], other[key], f"{place}/{key}")]
    if isinstance(ours, list) and isinstance(other, list) and len(ours) == len(other):
        return [each for i, pair in enumerate(zip(ours, other)) for each in differences(*pair, f"{place}/{i}")]
    if isinstance(ours, (int, float)) and isinstance(other, (int, float)):
        near = abs(ours - other) <= 1e-12 * max(abs(ours), abs(other))
        return [] if near else [f"{place}: expected {ours}, found {other}"]
    return [] if ours == other else [f"{place}: expected {ours}, found {other}"]


def not_of_the_figure(request, data, said):
    """Numbers that lines of C++ print and their figure does not say, in other units (s and ms, bytes and GB), nor draw."""
    printed = [float(each) for each in re.findall(r"(?<![\w.-])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)", said)]
    shown = [each["value"] * 10.0 ** power for each in data["numbers"] if each["value"] is not None for power in (-12, -9, -6, -3, 0, 3, 6, 9, 12)]
    known = shown + [value for row in data["rows"] for value in row["values"] if value is not None]
    found = [f"{request}: the lines print {each}" for each in printed if not any(math.isclose(each, other, rel_tol=1e-5) for other in known)]
    prints = any("fmt::print" in line and not line.startswith("//") for line in data["code"].splitlines())
    return found + ([f"{request}: the lines print no number"] if prints and not printed and "nan" not in said else [])


def drawn(about, count=20):
    """Settings of a figure, as requests: both ends, and others at random, the same ones in every run."""
    name, lengths = about["name"], [len(each["values"]) for each in about["settings"]]
    chance = random.Random(name)
    some = [[0] * len(lengths), [n - 1 for n in lengths]] + [[chance.randrange(n) for n in lengths] for _ in range(count - 2)]
    return [" ".join([name, *map(str, each)]) for each in some]
