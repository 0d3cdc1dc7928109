"""Turns Markdown as code hosts read it into what Python-Markdown reads, with links that stay inside the book.

Mathematics is replaced by marks here and set after the pages are made: the words between dollars
would otherwise be read as Markdown.
"""
import itertools
import os
import re

COLUMNS = 109  # of a block of code that fit on a screen of 1300 pixels
DENSE_COLUMNS = 128  # and of smaller letters
FENCE = re.compile(r"^( *)(`{3,}|~{3,})([^`]*)$")
LIST = re.compile(r"^ {0,3}([-*+]|\d+[.)]) ")


def fence_line(info, topic, more=""):
    """```output 02.ridge --rows 3 -> what pymdownx reads, with a caption, an anchor and `more` classes."""
    words = info.split(maxsplit=2)
    if not words:
        return f"```{{.text{more}}}"
    kind, name, rest = (words + ["", ""])[:3]
    if kind == "output":
        rest = re.sub(r"^measured\b *", "", rest)
        if rest.startswith("one_screen"):
            caption = "one_screen.cpp prints"
        elif rest and not rest.startswith("--"):
            caption = f"./yotta {rest}"
        else:
            caption = f"./yotta lesson {topic[:2]}" + (f" -- {rest}" if rest else "")
        return f'```{{.text .output{more} #{anchor(name)} title="{caption}"}}' if name else f"```{{.text .output{more}}}"
    language = {"cpp": "cpp", "sh": "bash", "cmake": "cmake", "json": "json", "python": "python"}
    title = f' title="{name}"' if name else ""
    return f"```{{.{language.get(kind, 'text')}{more}{title}}}"


def wrapped(info, block):
    """The class of a block with long lines: sentences are broken; lines of C++ and tables are not, and have smaller letters if they fit then."""
    wide = [line for line in block if len(line) > COLUMNS]
    if not wide:
        return ""
    fits = max(map(len, wide)) <= DENSE_COLUMNS
    columns = len(wide) >= 3 or any("──" in line or "   " in line.strip() for line in wide)
    if info.startswith(("cpp", "json")) or fits and columns:
        return " .dense" if fits else ""
    return " .wrapped" if info.startswith("sh") or len(wide) < 3 or max(map(len, wide)) > 1.2 * COLUMNS else ""


def anchor(name):
    return "out-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


class Mathematics:
    """Every formula of the book, once; `mark` stands in the page for it."""

    def __init__(self):
        self.formulas = []

    def mark(self, tex, display):
        self.formulas.append({"tex": tex.strip(), "display": display})
        return f"ymath{len(self.formulas) - 1}htamy"

    def inline(self, line):
        """Dollars of a line outside of `code`."""
        parts = re.split(r"(`+[^`]*`+)", line)
        for i in range(0, len(parts), 2):
            parts[i] = re.sub(r"(?<![\\$\w])\$(?=[^\s$])([^$]*[^\s$\\])\$(?![\d$])",
                              lambda m: self.mark(m.group(1), False), parts[i])
        return "".join(parts)


def convert(text, topic, mathematics, link):
    """The page's text; `link(target)` says where a link of the repository leads in the book."""
    out, fence, formula = [], None, None
    lines = indented(text.splitlines())
    for i, line in enumerate(lines):
        opening = FENCE.match(line)
        if fence:
            out.append(line)
            if opening and opening.group(2).startswith(fence) and not opening.group(3).strip():
                fence = None
            continue
        if formula is not None:
            formula.append(line)
        elif line.strip().startswith("$$"):
            formula = [line]
        elif opening:
            fence = opening.group(2)
            if out and out[-1].strip():
                out.append("")
            block = itertools.takewhile(lambda each: not each.strip().startswith(fence), lines[i + 1:])
            info = opening.group(3)
            out.append(opening.group(1) + fence_line(info, topic, wrapped(info, block)).replace("```", fence))
            continue
        else:
            blank_before_list(out, line)
            out.append(mathematics.inline(links(html(line), link)))
        if formula and "".join(formula).strip().endswith("$$") and len("".join(formula).strip()) > 2:
            tex = "\n".join(formula).strip()[2:-2]
            out += ["", mathematics.mark(tex, True), ""]
            formula = None
    return "\n".join(out) + "\n"


def indented(lines):
    """What belongs to an item of a numbered list has three spaces elsewhere, and four here."""
    out, in_item, in_block = [], False, False
    for line in lines:
        if line.strip() and not line.startswith(" ") and not in_block:
            in_item = bool(re.match(r"\d+[.)] ", line))
        if FENCE.match(line):
            in_block = not in_block
        out.append(" " + line if in_item and line.startswith("   ") else line)
    return out


def blank_before_list(out, line):
    """Elsewhere a list may follow its sentence without a blank line."""
    starts = LIST.match(line) or line.startswith("|")
    if starts and out and out[-1].strip() and not out[-1].startswith("|") and not in_list(out):
        out.append("")


def in_list(out):
    """Does the last line belong to an item's first paragraph? After another one mkdocs wants a blank line."""
    for line in reversed(out):
        if FENCE.match(line) or LIST.match(line) or not line.startswith(" "):
            return bool(LIST.match(line))
    return False


def html(line):
    return line.replace("<details>", '<details markdown="1">')


def links(line, link):
    """Targets outside of `code`."""
    parts = re.split(r"(`+[^`]*`+)", line)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"(?<=\]\()([^)\s]+)(?=\))", lambda m: link(m.group(1)), parts[i])
    return "".join(parts)


def relative(target, page):
    """A link from one page of the book to another."""
    return os.path.relpath(target, os.path.dirname(page) or ".")
