"""Elements of a run's page: style, tables, drawings, warnings, and how the run was made."""

import html
import json
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from bert_flow_tf.evaluation import figures, report

if typing.TYPE_CHECKING:
  from matplotlib.figure import Figure

STYLE = """
:root { color-scheme: light dark; --line: #8b949e55; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; background: Canvas;
  color: CanvasText; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { text-align: left; padding: .25rem 1rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; white-space: pre-line; }
th.group { padding-top: .75rem; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; } figcaption, .note { opacity: .75; font-size: .9rem; }
.panels { display: flex; flex-wrap: wrap; gap: 1rem; }
svg { flex: 0 1 28rem; min-width: 0; max-width: 100%; height: auto; } svg text { fill: currentColor; }
.warning { border-left: 4px solid #d9534f; padding-left: .75rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border: 1px solid var(--line); padding: .75rem;
  font-size: .85rem; }
@media (max-width: 40rem) { table { font-size: .8rem; } th, td { padding-right: .5rem; } }
"""

# Entries of results.json that say what was run.
_RUN = (
  "flags",
  "encoder",
  "data",
  "flow_corpus",
  "fitted_on",
  "calibrations",
  "auto",
  "training",
  "versions",
  "seconds",
)


def drawing(title: str, drawn: Sequence["Figure"], caption: str) -> str:
  """Returns a heading, and figures next to each other with their caption."""
  label = html.escape(title)
  below = f"<figcaption>{html.escape(caption)}</figcaption>"
  panels = f'<div class="panels">{"".join(map(figures.inline_svg, drawn))}</div>'
  return f'<h2>{label}</h2>\n<figure role="img" aria-label="{label}">{panels}{below}</figure>'


def warning(sentence: str) -> str:
  """Returns a paragraph."""
  return f'<p class="warning">{html.escape(sentence)}</p>'


def run(about: Mapping[str, Any]) -> list[str]:
  """Returns the command, and the entries of results.json that say how the run was made, folded."""
  parts = []
  if "command" in about:
    parts.append(f"<pre>{html.escape(about['command'])}</pre>")
  for name in _RUN:
    if name not in about:
      continue
    text = json.dumps(report.plain(about[name]), indent=2, ensure_ascii=False)
    summary = f"<summary>{name.replace('_', ' ')}</summary>"
    parts.append(f"<details>{summary}<pre>{html.escape(text)}</pre></details>")
  return parts


def table(rows: Sequence[Sequence[str]]) -> str:
  """Returns an HTML table of plain text, numbers to the right; the first row is the header, a single cell a heading."""
  full = [row for row in rows if len(row) > 1]
  numbers = [all(map(_is_number, column[1:])) for column in zip(*full, strict=True)]
  lines = []
  for index, row in enumerate(rows):
    if len(row) == 1 < len(numbers):
      lines.append(f'<tr><th class="group" colspan="{len(numbers)}">{html.escape(row[0])}</th></tr>')
      continue
    tag = "td" if index else "th"
    cells = []
    for number, cell in zip(numbers, row, strict=True):
      kind = ' class="number"' if number else ""
      cells.append(f"<{tag}{kind}>{html.escape(cell)}</{tag}>")
    lines.append(f"<tr>{''.join(cells)}</tr>")
  return "<table>\n" + "\n".join(lines) + "\n</table>"


def _is_number(cell):
  return cell in ("", "nan") or cell.lstrip("+-").replace(".", "", 1).isdigit()
