"""HTML of one file, for light and dark screens, without network."""

import html
from collections.abc import Sequence

_STYLE = """
:root { color-scheme: light dark; --line: #8b949e55; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; background: Canvas;
  color: CanvasText; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 1rem 0; } figcaption, .note { opacity: .75; font-size: .9rem; }
svg { max-width: 100%; height: auto; } svg text { fill: currentColor; }
.warning { border-left: 4px solid #d9534f; padding-left: .75rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border: 1px solid var(--line); padding: .75rem;
  font-size: .85rem; }
"""


def document(title: str, parts: Sequence[str]) -> str:
  """Returns an HTML document of one file.

  Args:
    title: its title, plain text.
    parts: elements of its body, HTML.
  """
  head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
  head += f"<title>{escaped(title)}</title><style>{_STYLE}</style>"
  return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(parts) + "\n</body></html>\n"


def table(rows: Sequence[Sequence[str]], numbers: Sequence[bool]) -> str:
  """Returns an HTML table.

  Args:
    rows: plain text; the first row is the header.
    numbers: for each column, whether it is aligned to the right.
  """
  lines = []
  for index, row in enumerate(rows):
    tag = "td" if index else "th"
    kinds = (' class="number"' * number for number in numbers)
    cells = (f"<{tag}{kind}>{escaped(cell)}</{tag}>" for kind, cell in zip(kinds, row, strict=True))
    lines.append(f"<tr>{''.join(cells)}</tr>")
  return "<table>\n" + "\n".join(lines) + "\n</table>"


def escaped(text: object) -> str:
  """Returns text for HTML, with its special characters escaped."""
  return html.escape(str(text))
