"""Compares the figures of the documents with the rows of the benchmarks. `check-docs` calls it.

A figure is a number before the words of FIGURE, such as `58,000 reads a second`, `5.8 times` or `0.36 of the rate`.
A mark at the end of its paragraph, list item or row of a table names the case and a column for each figure, in order:

    An update reaches 126,000 a second, which is 0.36 of the rate of plain HSET. <!-- bench: update-64 ours ratio -->

A mark may name several cases: `<!-- bench: update-64 ratio, get-1 ratio -->`.
"""
import re

PAGES = ("docs/benchmarks.md", "docs/benchmarks-documents.md")
DOCUMENTS = ("README.md", "book/src/introduction.md", "book/src/performance.md")
COLUMNS = {"ours": 1, "baseline": 2, "ratio": 4}

FIGURE = re.compile(r"(?<![\w.,])(\d[\d,]*(?:\.\d+)?)(?=(?:\s+[a-z]+)?\s+a\s+second\b|\s+times\b|\s+of\s+the\s+rate\b)")
MARK = re.compile(r"<!-- bench: (.*?) -->", re.S)
# A block ends before a blank line, a list item or a row of a table.
BLOCK_END = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=\|)")


def cases(root):
    """The cells of each case's row in the tables of figures."""
    rows = {}
    for page in PAGES:
        table = (root / page).read_text().split("| case | ours | baseline | unit | ratio (range) |", 1)[1]
        for line in table.split("\n\n", 1)[0].splitlines()[2:]:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            rows[cells[0]] = cells
    return rows


def number(text):
    """The number in a cell or a sentence: `126k`, `126,000`, or `0.36 (0.31–0.43)`."""
    digits = text.split()[0].replace(",", "")
    return float(digits[:-1]) * 1000 if digits.endswith("k") else float(digits)


def agrees(figure, cell):
    """A figure may round the cell, to two digits or more."""
    said, measured = number(figure), number(cell)
    digits = figure.replace(",", "").lstrip("0.")
    digits = digits.replace(".", "") if "." in figure else digits.rstrip("0")
    return said == float(f"{measured:.{max(2, len(digits))}g}")


def columns(mark):
    """The cases and columns of a mark, one for each figure."""
    for part in mark.split(","):
        case, *names = part.split()
        yield from ((case, name) for name in names)


def wrong_block(block, rows):
    figures = FIGURE.findall(block)
    named = [pair for mark in MARK.findall(block) for pair in columns(mark)]
    if len(figures) != len(named):
        yield f"has the figures {figures}, and its marks name {len(named)}"
        return
    for figure, (case, column) in zip(figures, named):
        if case not in rows or column not in COLUMNS:
            yield f"names {case} {column}, which no benchmark has"
        elif not agrees(figure, rows[case][COLUMNS[column]]):
            yield f"says {figure}, and {case} has {rows[case][COLUMNS[column]]} as {column}"


def wrong_figures(root):
    rows = cases(root)
    for name in DOCUMENTS:
        text = re.sub(r"^```.*?^```", lambda code: "\n" * code.group(0).count("\n"), (root / name).read_text(), flags=re.M | re.S)
        begin = 0
        for end in [*(match.start() for match in BLOCK_END.finditer(text)), len(text)]:
            block = text[begin:end]
            line = text.count("\n", 0, begin + len(block) - len(block.lstrip())) + 1
            yield from (f"{name}:{line} {fault}" for fault in wrong_block(block, rows))
            begin = end
