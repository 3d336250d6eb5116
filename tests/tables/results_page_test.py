"""bert_flow_tf/tables/results_page.py: a page from the tables that are there."""

import pytest

from bert_flow_tf.errors import DataError
from bert_flow_tf.tables import results_page
from bert_flow_tf.tables.table import OURS, Cell, Row, Table
from bert_flow_tf.tables.terms import note

ABOUT = {
  "command": "python run_scripts/run_table.py --table=5",
  "versions": {"numpy": "2.0"},
  "encoders": {"mini": "0123456789abcdef"},
  "sizes": {"mini": {"blocks": 4, "dimensions": 256, "word pieces": 8192, "folder": "my/mini"}},
  "date": "2026-01-02",
  "commit": "12ab",
  "machine": "x86_64, 2 cores",
  "seeds": [3, 4],
}


def put(folder, name, about):
  table = Table(
    name,
    f"title {name}",
    "metric",
    ("x",),
    (Row("ours here", OURS, {"x": Cell((1.25, 1.75))}),),
    (note("±"), "A note of its own."),
    about,
  )
  (folder / f"table_{name}.json").write_text(table.json())


def test_page_of_tables_and_pictures(tmp_path):
  folder = tmp_path / "my tables"
  folder.mkdir()
  for name, about in {"transfer": {}, "5": ABOUT}.items():
    put(folder, name, about)
  (folder / "figure_2_my mini.png").write_bytes(b"\x89PNG")
  results_page.write(tmp_path / "RESULTS.md", folder)
  page = (tmp_path / "RESULTS.md").read_text()
  headings = [line for line in page.splitlines() if line.startswith("#")]
  assert headings == [
    "# Results",
    "## Terms",
    "## Encoders",
    "## How the tables were made",
    "## Table 5: title 5",
    "## Transfer: title transfer",
    "## Figure 2: similarity against edit distance, my mini",
  ]
  assert page.count("| *ours* | |\n| ours here | 1.50 ±0.35 |") == 2
  assert "- Table 5: 2026-01-02; commit 12ab; seeds of the flow: 3, 4; numpy 2.0; x86_64, 2 cores.\n" in page
  assert "| mini | 4 | 256 | 8192 | `my/mini` | `0123456789ab` |\n" in page
  assert page.count("standard deviation over the seeds") == 1 and page.count("A note of its own.") == 2
  assert "](figure_2_my%20mini.png)" in page and (tmp_path / "figure_2_my mini.png").read_bytes() == b"\x89PNG"


def test_html_is_one_file(tmp_path):
  folder = tmp_path / "tables"
  folder.mkdir()
  put(folder, "5", ABOUT)
  (folder / "figure_2_mini.png").write_bytes(b"\x89PNG")
  results_page.write(tmp_path / "results.html", folder)
  page = (tmp_path / "results.html").read_text()
  assert (
    "<td>1.50 ±0.35</td>" in page
    and "<td><em>ours</em></td>" in page
    and 'src="data:image/png;base64,iVBORw=="' in page
    and "|" not in page
  )
  assert sorted(path.name for path in tmp_path.iterdir()) == ["results.html", "tables"]


def test_tables_that_are_not_the_papers_come_first(tmp_path):
  for name in ("5", "gains", "beyond"):
    put(tmp_path, name, {})
  results_page.write(tmp_path / "RESULTS.md", tmp_path)
  headings = [line for line in (tmp_path / "RESULTS.md").read_text().splitlines() if line.startswith("## ")]
  assert headings == ["## Terms", "## Beyond: title beyond", "## Gains: title gains", "## Table 5: title 5"]


def test_no_table(tmp_path):
  with pytest.raises(DataError) as raised:
    results_page.write(tmp_path / "RESULTS.md", tmp_path / "absent")
  assert raised.value.argument == "results_page"


@pytest.mark.parametrize(
  "text",
  ["", "[]", "{}", '{"rows": [{"name": 1, "source": 2, "cells": []}]}', '{"rows": 5}', "\ud800"],
)
def test_a_damaged_table(tmp_path, text):
  put(tmp_path, "5", ABOUT)
  (tmp_path / "table_2.json").write_text(text, errors="surrogatepass")
  with pytest.raises(DataError, match=r"table_2\.json"):
    results_page.write(tmp_path / "RESULTS.md", tmp_path)
  assert not (tmp_path / "RESULTS.md").exists()


def test_a_page_that_cannot_be_written(tmp_path):
  put(tmp_path, "5", ABOUT)
  with pytest.raises(DataError) as raised:
    results_page.write(tmp_path / "absent/RESULTS.md", tmp_path)
  assert raised.value.argument == "results_page"
