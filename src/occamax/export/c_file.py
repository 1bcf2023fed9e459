"""A graph as one C header: `predict(input, output)` for one example. No allocation, no library but math.h, C99. Weights
are stored as the exporter rounded them: a codebook, the step to each weight that is there, and its code. They are read
once, in order, and every product is done where a weight is met: zeros cost neither room nor time."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import ExportError
from ..structure.graph import Graph, Shape, sized
from ..structure.unrolling import unrolled
from . import absorbing
from .c_ops import RULES
from .card import Card
from .draft import rewritten
from .packing import coded_steps
from .rewriting import recognised

MOST = 255
INPUTS = {"uint8": "unsigned char", "float32": "float"}
CARD = re.compile(r"^ \* card: (.*)$", re.MULTILINE)
SIZES = re.compile(r"(\d+) bytes of constants, (\d+) of memory")


class Header(NamedTuple):
    text: str
    constants: int  # bytes
    memory: int  # bytes


class Writer:
    """Lines of C while a graph is walked."""

    def __init__(self, graph: Graph, name: str, packed: bool):
        self.graph, self.name, self.packed = graph, name, packed
        self.tables: list[str] = []
        self.lines: list[str] = []
        self.constants = 0
        self._depth, self._count = 1, 0
        self._names: dict[int, str] = {}
        self._places: dict[int, int] = {}
        self.roots = _roots(graph)

    def shape(self, value: int) -> Shape:
        return sized(self.graph.shapes[value], 1)

    def line(self, text: str) -> None:
        self.lines.append("  " * self._depth + text)

    def at(self, value: int, where: str) -> str:
        """One number of a value."""
        value = self.roots.get(value, value)
        if value in self.graph.constants:
            array = self.graph.constants[value]
            return _number(array.reshape(())) if array.size == 1 else f"{self._constant(value)}[{where}]"
        if value in self.graph.inputs:
            return f"input[{where}]"
        if value == self.graph.outputs[0]:
            return f"output[{where}]"
        start = self._places[value]
        return f"memory[{where}]" if start == 0 else f"memory[{start} + {where}]"

    def set(self, value: int, where: str, expression: str) -> None:
        self.line(f"{self.at(value, where)} = {expression};")

    @contextmanager
    def loops(self, sizes: Sequence[int], prefix: str = "i") -> Iterator[list[str]]:
        """Loops inside each other; the names that count. An axis of size one is no loop."""
        names = [f"{prefix}{axis}" if size != 1 else "0" for axis, size in enumerate(sizes)]
        opened = 0
        self.line("{")
        self._depth += 1
        for name, size in zip(names, sizes, strict=True):
            if name != "0":
                self.line(f"int {name}; for ({name} = 0; {name} < {size}; ++{name}) {{")
                self._depth, opened = self._depth + 1, opened + 1
        yield names
        for _ in range(opened + 1):
            self._depth -= 1
            self.line("}")

    def inside(
        self,
        outer: Sequence[str],
        inner: Sequence[str],
        strides: Sequence[int],
        dilations: Sequence[int],
        padding: Sequence[tuple[int, int]],
        shape: Sequence[int],
    ) -> list[str]:
        """Where a window looks, along each axis; beyond the edge the loop goes on."""
        places = []
        for axis, (out, within) in enumerate(zip(outer, inner, strict=True)):
            low, high = padding[axis]
            where = f"{out} * {strides[axis]} + {within} * {dilations[axis]}" + (f" - {low}" if low else "")
            if low or high:
                self.line(f"if ({where} < 0 || {where} >= {shape[axis]}) continue;")
            places.append(f"({where})")
        return places

    @contextmanager
    def weights(self, matrix: np.ndarray) -> Iterator[None]:
        """A loop over the weights that are there: `w` is one, `p` its place."""
        flat = np.ascontiguousarray(matrix, np.float32).ravel()
        steps, codes, book = _forms(flat, self.packed)
        self.line("{")
        self._depth += 1
        count, step = (len(flat), "1") if steps is None else (len(steps), f"{self._table(steps)}[k]")
        if codes is None or book is None:
            value = f"{self._table(flat if steps is None else _at_steps(flat, steps))}[k]"
        elif len(book) <= 16:
            pairs = np.append(codes, np.zeros(len(codes) % 2, np.uint8)).reshape(-1, 2)
            halves = self._table((pairs[:, 0] | pairs[:, 1] << 4).astype(np.uint8))
            value = f"{self._table(book)}[{halves}[k >> 1] >> (k & 1) * 4 & 15]"
        else:
            value = f"{self._table(book)}[{self._table(codes)}[k]]"
        self.line("long k, p = -1;")
        self.line(f"for (k = 0; k < {count}; ++k) {{")
        self._depth += 1
        self.line(f"const float w = {value};")
        self.line(f"p += {step};")
        yield
        for _ in range(2):
            self._depth -= 1
            self.line("}")

    def whole_numbers(self, numbers: np.ndarray) -> str:
        return self._table(numbers.astype(np.uint8 if numbers.max(initial=0) < 256 else np.uint16))

    def _constant(self, value: int) -> str:
        if value not in self._names:
            self._names[value] = self._table(self.graph.constants[value].astype(np.float32).ravel())
        return self._names[value]

    def _table(self, numbers: np.ndarray) -> str:
        name = f"{self.name}_c{self._count}"
        self._count += 1
        self.constants += numbers.nbytes
        kind = {"f": "float", "u": "unsigned char" if numbers.itemsize == 1 else "unsigned short"}[numbers.dtype.kind]
        words = [_number(number) if kind == "float" else str(number) for number in numbers]
        rows = [", ".join(words[i : i + 20]) for i in range(0, len(words), 20)]
        self.tables.append(
            f"static const {kind} {name}[{max(len(words), 1)}] = {{\n" + ",\n".join(rows or ["0"]) + "};"
        )
        return name

    def place_memory(self) -> int:
        """Gives every value its place, several the same where they do not live at once; how many numbers there are."""
        last = {self.roots.get(v, v): i for i, node in enumerate(self.graph.nodes) for v in node.inputs}
        living: dict[int, tuple[int, int]] = {}
        total = 0
        for i, node in enumerate(self.graph.nodes):
            value = node.output
            if value in self.roots or value == self.graph.outputs[0]:
                continue
            living = {own: span for own, span in living.items() if last.get(own, -1) >= i}
            size, start = math.prod(self.shape(value)), 0
            for begin, end in sorted(living.values()):
                if begin - start >= size:
                    break
                start = max(start, end)
            living[value], self._places[value] = (start, start + size), start
            total = max(total, start + size)
        return total


def write_c(graph: Graph, card: Card, name: str = "predict", as_usual: bool = False) -> Header:
    """The header. `as_usual`: every weight as a float, zeros too. An operation that has no form is refused by name."""
    graph = recognised(unrolled(graph)[0])
    for rule in (absorbing.before, absorbing.before, absorbing.after):
        graph = rewritten(graph, rule)
    (value,), (result,) = graph.inputs, graph.outputs
    if graph.dtypes[value] not in INPUTS:
        raise ExportError(f"--format c: inputs of type {graph.dtypes[value]} have no form in C; export to onnx")
    strange = [node.op for node in graph.nodes if node.op not in RULES]
    if strange:
        raise ExportError(f"--format c: {strange[0]} has no form in C; export to onnx or safetensors")
    c = Writer(graph, name, not as_usual)
    memory = c.place_memory()
    for node in graph.nodes:
        if node.output not in c.roots:
            RULES[node.op](c, node)
    sizes = math.prod(c.shape(value)), math.prod(c.shape(result))
    text = _header(c, card, sizes, 4 * memory, INPUTS[graph.dtypes[value]])
    return Header(text, c.constants, 4 * memory)


def _header(c: Writer, card: Card, sizes: tuple[int, int], memory: int, kind: str) -> str:
    guard = f"OCCAMAX_{c.name.upper()}_H"
    words = json.dumps(json.loads(card.as_json()), separators=(",", ":")).replace("*/", "* /")
    return "\n".join(
        [
            f"/* Written by occamax {card.version}: {card.input_name} in, {card.output_name} out, one example a call.",
            f" * {c.constants} bytes of constants, {memory} of memory, which is static: not for threads at once.",
            f" * card: {words}",
            " */",
            f"#ifndef {guard}",
            f"#define {guard}",
            "#include <math.h>",
            f"#define {c.name.upper()}_INPUTS {sizes[0]}",
            f"#define {c.name.upper()}_OUTPUTS {sizes[1]}",
            *c.tables,
            f"static void {c.name}(const {kind} *input, float *output) {{",
            f"  static float memory[{max(memory // 4, 1)}];",
            "  (void)memory;",
            *c.lines,
            "}",
            "#endif",
            "",
        ]
    )


def read_card(path: Path) -> Card:
    found = CARD.search(path.read_text(errors="replace"))
    return Card.from_json(found.group(1) if found else "", str(path))


def constants_of(text: str) -> int:
    """Bytes of constants that a header says it has."""
    found = SIZES.search(text)
    return int(found.group(1)) if found else len(text)


def _roots(graph: Graph) -> dict[int, int]:
    """Values that are another's numbers in another shape, except the output, which has a place of its own."""
    found: dict[int, int] = {}
    for node in graph.nodes:
        if node.op == "reshape" and node.output != graph.outputs[0]:
            found[node.output] = found.get(node.inputs[0], node.inputs[0])
    return found


def _forms(flat: np.ndarray, packed: bool) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """Steps, codes and codebook, whichever are worth it."""
    values = np.unique(flat[flat != 0])
    if not packed or not len(values):
        return None, None, None
    book = np.concatenate([np.zeros(1, np.float32), values])
    has_book = len(values) <= MOST
    steps, codes = coded_steps(flat, values if has_book else np.zeros(0, np.float32))
    bits = 32.0 if not has_book else 4 if len(book) <= 16 else 8
    spread = len(steps) * (bits + 8) < flat.size * bits
    if not has_book:
        return (steps if spread else None), None, None
    dense = np.where(flat != 0, np.searchsorted(values, flat) + 1, 0).astype(np.uint8)
    return (steps, codes, book) if spread else (None, dense, book)


def _at_steps(flat: np.ndarray, steps: np.ndarray) -> np.ndarray:
    return flat[np.cumsum(steps.astype(np.int64)) - 1]


def _number(number: np.ndarray | np.floating) -> str:
    value = float(number)
    if not math.isfinite(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    text = f"{value:.9g}"
    return text + ("f" if "." in text or "e" in text else ".0f")
