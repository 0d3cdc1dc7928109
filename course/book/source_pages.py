"""The library's files as pages: names lead to their definitions, and each says which lesson teaches it.

ctags finds the definitions, Pygments the colours. An anchor is a name, never a line's number, so
links live as long as what they name.
"""
import collections
import html
import itertools
import json
import os
import re
import subprocess

from pygments.lexers.c_cpp import CppLexer
from pygments.token import STANDARD_TYPES, Comment, Name, String, Text

from repository import ROOT, text_of

Definition = collections.namedtuple("Definition", "name file line kind scope anchor")
TYPES = {"struct", "class", "enum", "union", "typedef", "alias", "using"}


def definitions(files):
    command = ["ctags", "-L", "-", "--languages=C++", "--langmap=C++:.hpp.ipp.cpp.cu.cuh",
               "--kinds-C++=cdefgnpstuv", "--fields=+nKs", "--output-format=json", "-f", "-"]
    done = subprocess.run(command, cwd=ROOT, input="\n".join(files), capture_output=True, text=True,
                          check=True)
    found, used = [], collections.Counter()
    tags = [json.loads(line) for line in done.stdout.splitlines()]
    for tag in sorted(tags, key=lambda tag: (tag["path"], tag["line"])):
        if tag["kind"] == "namespace" or tag["name"].startswith("__anon"):
            continue
        scope = tag.get("scope", "").replace("yotta::", "").replace("yotta", "")
        name = re.sub(r"[^\w~]+", "-", tag["name"]) if not tag["name"].startswith("operator") else "operator"
        anchor = (scope.replace("::", "-") + "-" if scope else "") + name
        used[tag["path"], anchor] += 1
        if used[tag["path"], anchor] > 1:
            anchor += f"-{used[tag['path'], anchor]}"
        found.append(Definition(tag["name"], tag["path"], tag["line"], tag["kind"], scope, anchor))
    return found


class Library:
    def __init__(self, files):
        self.files = files
        self.definitions = definitions(files)
        self.by_file = collections.defaultdict(list)
        self.free = collections.defaultdict(list)
        self.members = collections.defaultdict(list)
        for each in self.definitions:
            self.by_file[each.file].append(each)
            if each.scope == "":
                self.free[each.name].append(each)
            elif each.kind != "enumerator":
                self.members[each.name].append(each)
        self.includes = {file: set(self.included(file)) for file in files}
        self.reached = {}

    def included(self, file):
        for name in re.findall(r'^#include "([^"]+)"', text_of(file), re.M):
            for place in (f"include/{name}", name, os.path.join(os.path.dirname(file), name)):
                if os.path.normpath(place) in set(self.files):
                    yield os.path.normpath(place)
                    break

    def reach(self, file):
        """All files that this one includes, through others too."""
        if file not in self.reached:
            self.reached[file] = found = set()
            left = [file]
            while left:
                for each in self.includes[left.pop()] - found:
                    found.add(each)
                    left.append(each)
        return self.reached[file]

    def meant(self, file, name, before, after):
        """The definition that a name in this file stands for; None where several could be."""
        if before in (".", "->"):
            found = self.members[name]
            return found[0] if len({each.anchor for each in found}) == 1 else None
        found = [each for each in self.free[name]
                 if each.kind in TYPES or each.kind == "variable" or after in ("(", "<")]
        here = [each for each in found if each.file == file]
        near = [each for each in found if each.file in self.reach(file)]
        return (here or near or [None])[0] if here or len({e.file for e in near}) == 1 else None


def purpose(text):
    """The first sentence of the comment with which a file begins."""
    lines = itertools.takewhile(lambda line: re.match(r"//.*\w", line), text.splitlines())
    return first_sentence(" ".join(line.removeprefix("//").strip() for line in lines))


def first_sentence(text):
    return re.split(r"(?<=[.:?!]) (?=[A-Z])", text)[0].rstrip(":")


def summary(file, line, lines):
    """The comment above a definition, or behind it; its first sentence."""
    above = []
    i = line - 2
    while i >= 0 and re.match(r"\s*(template|requires)\b", lines[i]):
        i -= 1
    while i >= 0 and re.match(r"\s*// (?!---)", lines[i]):
        above.insert(0, lines[i].strip()[3:])
        i -= 1
    if i >= 0 and (head := re.match(r"\s*// --- *.* --- *(\S.*)", lines[i].replace("----", "---"))):
        above.insert(0, head.group(1))
    behind = re.search(r"[;{,] +// (.+)$", lines[line - 1]) if line <= len(lines) else None
    text = " ".join(above) or (behind.group(1) if behind else "")
    return first_sentence(text)


def tokens_of(file, text):
    """Words with what they are; of files that are not C++ the text as it stands."""
    if not file.endswith(("pp", ".cu")):
        return [(Text, text)]
    return list(CppLexer(stripnl=False, ensurenl=False).get_tokens(text))


def colour(kind):
    while kind not in STANDARD_TYPES:
        kind = kind.parent
    return STANDARD_TYPES[kind]


def source_html(library, file, target_of):
    """The file's text in HTML. `target_of(path, anchor)` is a link from this file's page."""
    text = text_of(file)
    anchors = collections.defaultdict(list)
    for each in library.by_file[file]:
        anchors[each.line].append(each)
    out, line, tokens = [anchor_tags(anchors[1])], 1, tokens_of(file, text)
    plain = [value for _, value in tokens]
    for i, (kind, value) in enumerate(tokens):
        before = after = ""
        if kind in Name:
            before = next((v.strip() for v in reversed(plain[max(0, i - 2):i]) if v.strip()), "")
            after = next((v.strip() for v in plain[i + 1:i + 3] if v.strip()), "")
        pieces = value.split("\n")
        for k, piece in enumerate(pieces):
            if k:
                line += 1
                out.append("\n" + anchor_tags(anchors[line]))
            out.append(word(library, file, kind, piece, before[-2:], after[:1], target_of))
    return f'<pre class="source" tabindex="0"><code>{"".join(out)}</code></pre>'


def anchor_tags(found):
    return "".join(f'<a id="{html.escape(each.anchor)}"></a>' for each in found)


def word(library, file, kind, value, before, after, target_of):
    shown = html.escape(value, quote=False)
    if not value.strip():
        return shown
    target = None
    if kind in Name:
        found = library.meant(file, value, before.strip(), after)
        target = found and target_of(found.file, found.anchor)
    elif kind in Comment.PreprocFile or kind in String:
        name = value.strip('"<>')
        found = [each for each in library.includes[file] if each.endswith("/" + name)]
        target = target_of(found[0], "") if found else None
    if target:
        return f'<a href="{html.escape(target)}">{shown}</a>'
    name = colour(kind)
    return f'<span class="{name}">{shown}</span>' if name in KEPT else shown


# What is coloured: comments, keywords, text, numbers.
KEPT = {"c1", "cm", "cp", "cpf", "k", "kt", "kr", "kd", "kc", "s", "sc", "se", "mi", "mf", "mh", "c"}
