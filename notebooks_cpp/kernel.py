"""Writes a Jupyter kernel for these notebooks: kernel.py FOLDER -> FOLDER/kernels/xcpp20/kernel.json.

It is the C++20 kernel of xeus-cpp as installed, with the course's folders and the flags of a release build:
without -O2 -march=native a matmul in a cell is thirty times slower.
"""
import json
import os
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(here)
folder = os.path.join(os.path.abspath(sys.argv[1]), "kernels", "xcpp20")

listing = subprocess.run(["jupyter", "kernelspec", "list", "--json"], check=True, capture_output=True, text=True)
kernels = json.loads(listing.stdout)["kernelspecs"]
if "xcpp20" not in kernels:
    sys.exit("the kernel xcpp20 of xeus-cpp is not installed: conda install -c conda-forge xeus-cpp")
stock = kernels["xcpp20"]["resource_dir"]
if os.path.realpath(stock) == os.path.realpath(folder):
    sys.exit(0)  # ours is found first: it was written before

with open(os.path.join(stock, "kernel.json")) as file:
    spec = json.load(file)
spec["argv"] += ["-O2", "-march=native", "-I" + os.path.join(root, "include"), "-I" + here]
library = os.path.join(root, "build", "release", "libyotta_notebook.so")
if os.path.exists(library):  # the library compiled: cells compile only what is their own
    spec["argv"] += ["-DYOTTA_COMPILED", '-DYOTTA_NOTEBOOK_LIBRARY="' + library + '"']
spec["display_name"] = "C++20"
os.makedirs(folder, exist_ok=True)
with open(os.path.join(folder, "kernel.json"), "w") as file:
    json.dump(spec, file, indent=1)
