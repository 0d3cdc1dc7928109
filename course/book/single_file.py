#!/usr/bin/python3
"""A lesson's program with all that it includes of the library, as one file: single_file.py 13_ddp.

To send to somebody, or for a Compiler Explorer that has a minute for it: C++20, with {fmt} and Boost.Context.
"""
import os
import re
import sys

from repository import ROOT, text_of, version

INCLUDE = re.compile(r'^\s*#include "([^"]+)".*$')


def included(file, name):
    """The file of the project that an include means, if it is one of the project."""
    places = (f"include/{name}", name, os.path.join(os.path.dirname(file), name))
    return next((os.path.normpath(place) for place in places if (ROOT / place).is_file()), None)


def expanded(file, done):
    """The file's text with the project's own files in the place of their includes.

    `done` has those that stand above for certain. What is included under a condition may not be
    read there, so it may come again; a guard lets the compiler read it once.
    """
    if file in done:
        return ""
    done.add(file)
    guard = "SINGLE_" + re.sub(r"\W", "_", file).upper()
    out, conditions = [f"#ifndef {guard}", f"#define {guard}"], []
    for line in text_of(file).splitlines():
        if re.match(r"#\s*if", line):
            conditions.append(line.strip() != "#ifndef YOTTA_COMPILED")
        elif re.match(r"#\s*endif", line):
            conditions.pop()
        include = INCLUDE.match(line)
        found = include and included(file, include.group(1))
        if found:
            out.append(expanded(found, set(done) if any(conditions) else done))
        elif line.strip() != "#pragma once":
            out.append(line)
    return "\n".join(out + ["#endif"])


def single_file(topic):
    head = (f"// Yotta {version()}, lessons/{topic}/one_screen.cpp with all that it includes of the library.\n"
            f"// g++ -std=c++20 -O2 FILE -lfmt -lboost_context -pthread\n\n")
    return head + expanded(f"lessons/{topic}/one_screen.cpp", set()) + "\n"


if __name__ == "__main__":
    sys.stdout.write(single_file(sys.argv[1]))
