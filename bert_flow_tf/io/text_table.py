"""Tables as text: with aligned columns for a terminal, and in Markdown."""

from collections.abc import Iterable, Sequence


def aligned_table(rows: Sequence[Sequence[str]]) -> list[str]:
  """Returns the lines of a table with aligned columns, whose first row is the header, with a rule below it."""
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  header, *others = rows
  lines = []
  for row in (header, ["-" * width for width in widths], *others):
    cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
    lines.append("  ".join(cells).rstrip())
  return lines


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
  """Returns a table in Markdown, whose cells may have any text."""
  lines = []
  for row in (head, ["---"] * len(head), *rows):
    cells = [without_line_breaks(cell).replace("|", "\\|") for cell in row]
    lines.append(f"| {' | '.join(cells)} |\n")
  return "".join(lines)


def without_line_breaks(text: str) -> str:
  """Returns text as one line of Markdown; "<" in names of models and files does not start HTML."""
  return " ".join(text.split()).replace("<", "&lt;")
