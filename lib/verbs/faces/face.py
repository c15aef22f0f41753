#!/usr/bin/env python3
"""Makes the thin faces of the stack out of their lists of symbols: a jump per symbol, and the version scripts.

    face.py VERSION STACK_MAP [SYMBOLS ASSEMBLER MAP ...]
"""

import re
import sys

TARGETS = {
    "errno": "uroce_verbs_unsupported_errno",
    "null": "uroce_verbs_unsupported_null",
    "minus_one": "uroce_verbs_unsupported_minus_one",
    "nothing": "uroce_verbs_nothing",
    "sockets": "uroce_rdmacm_no_sockets",
}

# What the stack exports beside what its faces jump to.
NOT_VERBS = ["uroce_port_facts"]

JUMP = """
    .globl {name}
    .type {name}, @function
    .p2align 4
{name}:
    endbr64
    jmp *{target}@GOTPCREL(%rip)
    .size {name}, . - {name}
"""

DATA = """
    .bss
    .globl {name}
    .type {name}, @object
{name}:
    .zero 1
    .size {name}, 1
    .text
"""


def read_symbols(path):
    """[(name, node, kind)] in the order of the file."""
    symbols = []
    with open(path, encoding="ascii") as lines:
        for number, line in enumerate(lines, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            if len(words) != 3 or words[2] not in (*TARGETS, "implemented", "data"):
                sys.exit(f"{path}:{number}: expected: name node kind")
            symbols.append(tuple(words))
    return symbols


def node_order(node):
    """1.5 before 1.14, private nodes last."""
    match = re.fullmatch(r"\w+_(\d+)\.(\d+)", node)
    return (0, int(match[1]), int(match[2])) if match else (1, node)


def assembler(symbols):
    text = "# Made by face.py.\n    .text\n"
    for name, _, kind in symbols:
        if kind == "data":
            text += DATA.format(name=name)
        else:
            text += JUMP.format(name=name, target=TARGETS.get(kind, "uroce_" + name))
    return text + '\n    .section .note.GNU-stack,"",@progbits\n'


def version_script(symbols):
    text, previous = "", ""
    for node in sorted({node for _, node, _ in symbols}, key=node_order):
        names = "".join(f"    {name};\n" for name, at, _ in symbols if at == node)
        hidden = "" if previous else "  local:\n    *;\n"
        text += f"{node} {{\n  global:\n{names}{hidden}}}{previous};\n\n"
        previous = " " + node
    return text


def stack_version_script(symbols, version):
    """What the stack exports to its faces. The node carries the version, so ld.so refuses a partner of another one."""
    targets = sorted({TARGETS.get(kind, "uroce_" + name) for name, _, kind in symbols if kind != "data"}) + NOT_VERBS
    names = "".join(f"    {target};\n" for target in targets)
    return f"UROCE_PRIVATE_{version} {{\n  global:\n{names}  local:\n    *;\n}};\n"


def main():
    version, stack_map_path, *faces = sys.argv[1:]
    outputs, all_symbols = {}, []
    for path, assembler_path, map_path in zip(*[iter(faces)] * 3):
        symbols = read_symbols(path)
        outputs[assembler_path] = assembler(symbols)
        outputs[map_path] = version_script(symbols)
        all_symbols += symbols
    outputs[stack_map_path] = stack_version_script(all_symbols, version)
    for path, text in outputs.items():
        with open(path, "w", encoding="ascii") as output:
            output.write(text)


if __name__ == "__main__":
    main()
