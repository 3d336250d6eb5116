"""docs/report.png, the picture of docs/index.md: the page of README's main command.

The picture keeps the page's text, which is compared with the text of a new run. After a change of the page,
DRAW_PICTURE=1 writes the new picture with Chromium.
"""

import html
import os
import re
import shutil
import subprocess

import pytest
from PIL import Image, PngImagePlugin

from tests.pages import check_output
from tests.testing import REPO, finished_python

PICTURE = REPO / "docs/report.png"
_WIDTH, _HEIGHT = 1010, 1345  # down to the caption of the first drawing


@pytest.fixture(scope="module")
def page(tmp_path_factory):
  """Returns the path of the page of a run as README's."""
  folder = tmp_path_factory.mktemp("run")
  finished_python(REPO / "run_scripts/run_flow.py", cwd=folder)
  return folder / "exp/sample_mini_flow_5ep/report.html"


def _shown_text(path):
  """Returns the page's text as far as the picture shows it, a line per paragraph or cell."""
  shown = path.read_text(encoding="utf-8").partition("<body>")[2].partition("<figure")[0]
  lines = html.unescape(re.sub(r"<[^>]*>", "\n", shown)).splitlines()
  return "\n".join(line for line in lines if line.strip())


def _draw(path, picture):
  """Draws the page; returns an image."""
  browser = shutil.which("chromium") or shutil.which("google-chrome")
  command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
  command += [f"--screenshot={picture}", f"--window-size={_WIDTH},{_HEIGHT}", f"file://{path}"]
  subprocess.run(command, capture_output=True, check=True)
  return Image.open(picture).convert("RGB")


@pytest.mark.slow
def test_picture_has_the_text_of_the_page(page, tmp_path):
  if os.environ.get("DRAW_PICTURE"):
    metadata = PngImagePlugin.PngInfo()
    metadata.add_itxt("text", _shown_text(page))
    _draw(page, tmp_path / "report.png").quantize(128).save(PICTURE, optimize=True, pnginfo=metadata)
  check_output(_shown_text(page), Image.open(PICTURE).text["text"])
