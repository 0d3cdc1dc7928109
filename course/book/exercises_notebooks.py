"""Pages of exercises (statement, hints one by one) and of notebooks with what they print."""
import json
import re

from repository import ROOT, text_of


def hints(topic):
    """The hints as drawers to open, one after the other."""
    path = f"exercises/{topic}/hints.md"
    if not (ROOT / path).exists():
        return ""
    out, count = ["## Hints", ""], 0
    for block in re.split(r"\n{2,}", text_of(path)):
        if block.startswith("# "):
            continue
        if block.startswith("## "):
            count = 0
            out += ["#" + block, ""]
        elif out[-2].startswith("###") or count:
            count += 1
            out += [f'<details markdown="1" class="hint"><summary>Hint {count}</summary>', "", block, "",
                    "</details>", ""]
    return "\n".join(out)


def statement(topic):
    about = json.loads(text_of(f"exercises/{topic}/exercise.json"))
    outcomes = "".join(f"\n- {each}" for each in about.get("outcomes", []))
    text = text_of(f"exercises/{topic}/README.md")
    if outcomes:
        text += "\n## What you can do afterwards\n" + outcomes + "\n"
    return text + "\n" + hints(topic)


def notebook(topic, save):
    """`save(name, text)` keeps a picture, and returns where it lies."""
    out, pictures = [], 0
    for cell in json.loads(text_of(f"notebooks_cpp/{topic}.ipynb"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            out += [source, ""]
            continue
        out += ["```cpp", source, "```", ""]
        for output in cell.get("outputs", []):
            if output["output_type"] == "stream":
                out += ["```output", "".join(output["text"]).rstrip("\n"), "```", ""]
            elif "image/svg+xml" in output.get("data", {}):
                pictures += 1
                place = save(f"{topic}_{pictures}.svg", "".join(output["data"]["image/svg+xml"]))
                out += [f"![The picture that the cell above draws]({place})", ""]
    return "\n".join(out)
