"""What includes what: units (a header with the source of the same name), rooms (folders), circles among them, and a picture."""
import collections
import pathlib
import re
import subprocess

INCLUDE = re.compile(r'^\s*#include\s*"([^"]+)"', re.M)
ROOTS = ('lib', '')  # include paths, in this order


class Graph:
    """The includes of lib/ and drivers/. A unit is named by its path without suffix."""

    def __init__(self, root, files):
        self.root = pathlib.Path(root)
        known = {str(f) for f in files}
        self.edges = collections.defaultdict(set)
        for path in files:
            if path.parts[0] not in ('lib', 'drivers') or path.suffix not in ('.h', '.cc', '.c', '.inc'):
                continue
            unit = unit_of(path)
            self.edges[unit]  # it exists, even if it includes nothing
            for name in INCLUDE.findall((self.root / path).read_text()):
                target = next((t for t in (str(pathlib.PurePath(r) / name) for r in ROOTS) if t in known), None)
                if target and unit_of(pathlib.Path(target)) != unit:
                    self.edges[unit].add(unit_of(pathlib.Path(target)))

    def rooms(self, room_of):
        """The same between rooms; `room_of` maps a unit to its room, or None."""
        result = collections.defaultdict(set)
        for unit, targets in self.edges.items():
            room = room_of(unit)
            if room is None:
                continue
            result[room]
            result[room] |= {room_of(t) for t in targets} - {room, None}
        return result


def unit_of(path):
    return str(path.with_suffix(''))


def circles(edges):
    """Tarjan's strongly connected components of more than one node, largest first."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []

    def visit(node):
        work = [(node, iter(sorted(edges.get(node, ()))))]
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        while work:
            current, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(sorted(edges.get(target, ())))))
                    break
                if target in on_stack:
                    low[current] = min(low[current], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[current])
                if low[current] == index[current]:
                    component = []
                    while not component or component[-1] != current:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    if len(component) > 1:
                        found.append(sorted(component))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return sorted(found, key=len, reverse=True)


def dot(rooms, level_of):
    """The rooms and their arrows, higher levels above lower ones, without the arrows that follow from others."""
    lines = ['digraph modules {', '  rankdir=TB; node [shape=box, fontname="sans-serif"];']
    by_level = collections.defaultdict(list)
    for room in sorted(rooms):
        by_level[level_of(room)].append(room)
    for level in sorted(by_level, reverse=True):
        lines.append('  { rank=same; ' + ' '.join(f'"{room}";' for room in by_level[level]) + ' }')
    for room in sorted(rooms):
        for target in sorted(rooms[room]):
            if not any(target in reachable(rooms, other) for other in rooms[room] - {target}):
                lines.append(f'  "{room}" -> "{target}";')
    return '\n'.join(lines + ['}', ''])


def reachable(edges, start):
    seen, work = set(), [start]
    while work:
        for target in edges.get(work.pop(), ()):
            if target not in seen:
                seen.add(target)
                work.append(target)
    return seen


def draw(text, svg):
    """Writes `text` as SVG by Graphviz. False: there is no `dot` here."""
    try:
        subprocess.run(['dot', '-Tsvg', '-o', str(svg)], input=text, text=True, check=True)
    except FileNotFoundError:
        return False
    return True
