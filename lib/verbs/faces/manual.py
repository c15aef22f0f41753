#!/usr/bin/env python3
"""Makes the section-3 pages of <infiniband/urocedv.h> out of the header's own comments, so that neither says what
the other does not.

    manual.py HEADER --names            the pages' file names, one per line
    manual.py HEADER FOLDER             writes them

A comment of one line that is no sentence and stands alone is the heading of a page; every function of that part of
the header has a page of its own name that refers to it.
"""

import pathlib
import re
import sys

DATE = "November 23, 2026"
FUNCTION = re.compile(r"\b(urocedv_\w+)\(")


def pieces_of(text):
    """The header's contents in their order: ("comment", words) and ("code", text)."""
    body = text.split('extern "C" {', 1)[1].split("#endif", 1)[1].rsplit("#ifdef __cplusplus", 1)[0]
    lines = iter(body.strip("\n").split("\n"))
    pieces, code, depth = [], [], 0
    for line in lines:
        if not code and line.startswith("/*"):
            comment = [line]
            while "*/" not in comment[-1]:
                comment.append(next(lines))
            stripped = [re.sub(r"^(/\*| \*(?!/))? ?|\s*\*/\s*$", "", part) for part in comment]
            pieces.append(("comment", stripped))
            continue
        if not line and not code:
            pieces.append(("gap", None))
            continue
        code.append(line)
        without = re.sub(r"/\*.*?\*/", "", line)
        depth += without.count("{") - without.count("}")
        ends = without.rstrip().endswith((";", "}")) or line.startswith("#define")
        if depth == 0 and ends:
            pieces.append(("code", "\n".join(code)))
            code = []
    assert not code, code
    return pieces


def is_heading(piece, following):
    kind, content = piece
    return kind == "comment" and following == "gap" and len(content) == 1 and not content[0].endswith(".")


def pages_of(text):
    """[(heading, pieces)]."""
    pieces = pieces_of(text)
    pages = []
    for number, piece in enumerate(pieces):
        following = pieces[number + 1][0] if number + 1 < len(pieces) else "gap"
        if is_heading(piece, following):
            pages.append((piece[1][0], []))
        elif pieces[number][0] != "gap":
            pages[-1][1].append(piece)
    return pages


def name_of(heading):
    words = re.sub(r"\(.*?\)", "", heading).lower().split()
    return "urocedv_" + "_".join(re.sub(r"\W", "", word) for word in words)


def functions_of(pieces):
    found = []
    for kind, content in pieces:
        if kind == "code" and not content.startswith(("#", "struct urocedv_send_wr")):
            # The first is its name: a declaration, or an inline function's.
            match = FUNCTION.search(content.split("{")[0])
            if match and match[1] not in found:
                found.append(match[1])
    return found


def roff(line):
    line = line.replace("\\", "\\e")
    return "\\&" + line if line[:1] in (".", "'") else line


def literal(code):
    return [".Bd -literal -offset indent", *(roff(line) for line in code.split("\n")), ".Ed"]


def paragraphs(words):
    """A comment's text, each sentence on a line; an empty line begins a new paragraph."""
    out = []
    for text in re.split(r"\n\s*\n", "\n".join(word.strip() for word in words)):
        sentences = re.split(r"(?<=[.!?]) (?=\S)", " ".join(text.split()))
        out += [".Pp", *(roff(sentence) for sentence in sentences)]
    return out[1:]


def prototype(code):
    """Without the body of an inline function."""
    return re.sub(r"^static inline (.*?)\s*\{.*$", r"\1;", code, flags=re.S)


def conventions_of(text):
    """What the head of the header says of all functions."""
    head = re.search(r"/\*(.*?)\*/", text, re.S)[1]
    return re.sub(r"^ \* ?", "", head[head.index("Conventions"):], flags=re.M).rstrip().split("\n")


def page(heading, pieces, text):
    functions = functions_of(pieces)
    names = functions or [name_of(heading)]
    out = [f".Dd {DATE}", f".Dt {name_of(heading).upper()} 3", ".Os uroce", ".Sh NAME"]
    out += [f".Nm {name} ," for name in names[:-1]] + [f".Nm {names[-1]}"]
    out.append(f".Nd {heading[0].lower() + heading[1:]}")
    out += [".Sh SYNOPSIS", ".In infiniband/urocedv.h", ".Sh DESCRIPTION"]
    before = None
    for kind, content in pieces:
        if before is not None and not (before == "comment" and kind == "code"):
            out.append(".Pp")
        out += paragraphs(content) if kind == "comment" else literal(prototype(content))
        before = kind
    out += [".Sh RETURN VALUES", *paragraphs(conventions_of(text))]
    out += [".Sh SEE ALSO", ".Xr uroce 1"]
    return "\n".join(line for number, line in enumerate(out) if not is_idle(out, number)) + "\n"


def is_idle(out, number):
    """A paragraph's beginning where one begins anyway: mandoc warns of it."""
    return out[number] == ".Pp" and (out[number - 1].startswith(".Sh") or out[number + 1].startswith(".Bd"))


def main():
    header = pathlib.Path(sys.argv[1]).read_text(encoding="ascii")
    files = {}
    for heading, pieces in pages_of(header):
        files[name_of(heading) + ".3"] = page(heading, pieces, header)
        for function in functions_of(pieces):
            if function != name_of(heading):
                files[function + ".3"] = f".so man3/{name_of(heading)}.3\n"
    if sys.argv[2] == "--names":
        print("\n".join(files))
        return
    for name, content in files.items():
        (pathlib.Path(sys.argv[2]) / name).write_text(content, encoding="ascii")


if __name__ == "__main__":
    main()
