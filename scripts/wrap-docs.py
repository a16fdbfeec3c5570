#!/usr/bin/env python3
"""wrap-docs.py [--check] FILE ...: wrap the paragraphs and lists of Markdown files at 100 columns.

Tables, code, headings, pictures and quotes of programs stay as they are. With --check nothing is
written: files that would change are named, and the exit status is 1 if there is one."""

import re
import sys
import textwrap

WIDTH = 100
ITEM = re.compile(r"^(\s*)([-*]|\d+\.)(\s+)")


def wrap(words, first, rest):
    """The words as lines; `first` and `rest` are what lines begin with."""
    wrapper = textwrap.TextWrapper(width=WIDTH, initial_indent=first, subsequent_indent=rest,
                                   break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(" ".join(words.split()))


def is_fixed(line):
    """Whether a line is never joined with others."""
    return line.startswith(("#", "|", ">", "<", "!", "    ", "\t")) or line.strip() == ""


def reflow(text):
    out, lines, i, fenced = [], text.split("\n"), 0, False
    in_list = False
    while i < len(lines):
        line = lines[i]
        if line.startswith("```"):
            fenced = not fenced
        item = ITEM.match(line)
        indented = line.startswith("  ") and in_list and not item
        if fenced or line.startswith("```") or (is_fixed(line) and not item and not indented):
            in_list = in_list and line.strip() == ""
            out.append(line)
            i += 1
            continue
        in_list = bool(item) or indented
        first = item.group(0) if item else re.match(r"\s*", line).group(0)
        rest = " " * len(first)
        words = [line[len(first):]]
        i += 1
        while i < len(lines) and lines[i].strip() != "" and not ITEM.match(lines[i]) \
                and not lines[i].startswith(("#", "|", "```", "<", ">")):
            words.append(lines[i].strip())
            i += 1
        out += wrap(" ".join(words), first, rest)
    return "\n".join(out)


def main():
    check = "--check" in sys.argv[1:]
    changed = 0
    for path in (a for a in sys.argv[1:] if not a.startswith("--")):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        new = reflow(text)
        if new == text:
            continue
        changed += 1
        if check:
            print(f"{path}: scripts/wrap-docs.py would wrap it")
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(new)
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
