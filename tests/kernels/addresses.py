"""Finds 32-bit products in the addresses of a compiled kernel.

A row number times a stride leaves 32 bits long before memory ends. The check reads Triton's first
intermediate form: from every `tt.addptr` it walks back over the operations that made the offset,
and reports each 32-bit multiplication or shift of a number without a small bound: a program id, a
loaded value, or an argument of the kernel times anything but a constant.
"""

import re
from dataclasses import dataclass, field

NAME = r"%[\w.$-]+(?:#\d+)?"
LINE = re.compile(r'\s*(?:(%[\w.$-]+)(?::(\d+))? = )?"?([a-z_]+\.[\w.]+)"?(.*?)(?: loc\((.*)\))?')
UNBOUNDED = ("tt.get_program_id", "tt.load")
PRODUCTS = ("arith.muli", "arith.shli")


@dataclass(eq=False)
class Operation:
    """One value of the program: what makes it, of what, and where."""

    name: str
    operands: list["Operation"] = field(default_factory=list)
    type: str = ""
    place: str = ""


def narrow_products(ttir: str) -> list[str]:
    """Each suspicious product as "file:line: operation of type"."""
    offsets = _offsets(ttir)
    assert len(offsets) == ttir.count("tt.addptr "), "an address was overlooked"
    found = set()
    for operation in _sources(*offsets):
        if operation.name not in PRODUCTS or not re.search(r"\bi32\b|xi32>", operation.type):
            continue
        is_scaled = any(_is_constant(operand) for operand in operation.operands)
        sources = {source.name for source in _sources(*operation.operands)}
        if sources & set(UNBOUNDED) or ("argument" in sources and not is_scaled):
            found.add(f"{operation.place}: {operation.name} of {operation.type}")
    return sorted(found)


def _sources(*operations: Operation) -> set[Operation]:
    """Everything the operations are computed from, up to what was loaded."""
    seen: set[Operation] = set()
    todo = list(operations)
    while todo:
        operation = todo.pop()
        if operation not in seen:
            seen.add(operation)
            if operation.name not in UNBOUNDED:
                todo += operation.operands
    return seen


def _is_constant(operation: Operation) -> bool:
    while operation.name in ("tt.splat", "arith.extsi"):
        operation = operation.operands[0]
    return operation.name == "arith.constant"


def _offsets(ttir: str) -> list[Operation]:
    """The offset of every address."""
    places = _places(ttir)
    scopes: list[dict[str, Operation]] = [{}]  # a name is unique within its region
    regions = [Operation("module")]
    offsets: list[Operation] = []
    for line in ttir.splitlines():
        region, inside = regions[-1], {}
        if line.lstrip().startswith("}"):
            scopes.pop()
            regions.pop()
        elif line.lstrip().startswith("tt.func"):
            inside = {name: Operation("argument") for name in re.findall(r"(%[\w.$-]+):", line)}
        elif line.lstrip().startswith("^bb"):  # of a reduction, which computes no address
            scopes[-1] |= {name: Operation("item") for name in re.findall(r"(%[\w.$-]+):", line)}
        elif match := LINE.fullmatch(line):
            result, count, kind, body, location = match.groups()
            names = re.findall(NAME, body)
            if kind == "scf.for":  # counter = first to end step step, carried = initial, ...
                counter, carried, names = names[0], names[4::2], names[1:4] + names[5::2]
            operands = [scopes[-1][name] for name in names]
            types = body.rpartition(" : ")[2].strip()
            region = Operation(kind, operands, types, places.get(location, "?"))
            if kind == "scf.for":
                inside = dict.fromkeys(carried, region) | {
                    counter: Operation("counter", operands[:3])
                }
            elif kind == "scf.yield":
                regions[-1].operands += operands
            elif kind == "tt.addptr":
                offsets.append(operands[1])
            results = [f"{result}#{i}" for i in range(int(count))] if count else [result]
            scopes[-1] |= dict.fromkeys(results, region)
        if re.search(r"\{( loc\(.*\))?$", line):
            if "scf." in region.name and region.name not in ("scf.for", "scf.if"):
                raise NotImplementedError(f"the address check does not know {region.name}")
            scopes.append(scopes[-1] | inside)
            regions.append(region)
    return offsets


def _places(ttir: str) -> dict[str, str]:
    """file:line of every location label, of the innermost call."""
    labels = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", ttir, re.MULTILINE))

    def resolve(text: str) -> str:
        if found := re.match(r'"[^"]*?([^"/]+)":(\d+):\d+', text):
            return f"{found[1]}:{found[2]}"
        inner = re.search(r"#loc\d*", text)
        return resolve(labels[inner[0]]) if inner and inner[0] in labels else "?"

    return {label: resolve(text) for label, text in labels.items()}
