"""docs/report.png, README's picture: the page of README's main command.

The picture keeps the page's text, which is compared with the text of a new run; where Chromium is installed, the page
is drawn and compared, too. After a change of the page, DRAW_PICTURE=1 writes the new picture.
"""

import html
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from tests.pages import check_output
from tests.testing import REPO

PICTURE = REPO / "docs/report.png"
_WIDTH, _HEIGHT = 1010, 1345  # down to the caption of the first drawing
_PIXELS = 32  # width of a block: other fonts and processors draw a little differently


@pytest.fixture(scope="module")
def page(tmp_path_factory):
  """Returns the path of the page of a run as README's."""
  folder = tmp_path_factory.mktemp("run")
  command = [sys.executable, str(REPO / "run_scripts/run_flow.py")]
  done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
  assert done.returncode == 0, done.stderr[-4000:]
  return folder / "exp/sample_mini_flow_5ep/report.html"


def _shown_text(path):
  """Returns the page's text as far as the picture shows it, a line per paragraph or cell."""
  shown = path.read_text(encoding="utf-8").partition("<body>")[2].partition("<figure")[0]
  lines = html.unescape(re.sub(r"<[^>]*>", "\n", shown)).splitlines()
  return "\n".join(line for line in lines if line.strip())


def _draw(path, picture):
  """Draws the page; returns an image. Skips the test without a browser."""
  browser = shutil.which("chromium") or shutil.which("google-chrome")
  if browser is None:
    pytest.skip("Chromium is not installed (apt-get install chromium)")
  command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
  command += [f"--screenshot={picture}", f"--window-size={_WIDTH},{_HEIGHT}", f"file://{path}"]
  subprocess.run(command, capture_output=True, timeout=120, check=True)
  return Image.open(picture).convert("RGB")


def _blocks(picture):
  """Returns the mean of each block of pixels."""
  size = (_WIDTH // _PIXELS, _HEIGHT // _PIXELS)
  return np.asarray(picture.convert("L").resize(size, Image.Resampling.BOX), np.float64)


@pytest.mark.slow
def test_picture_has_the_text_of_the_page(page, tmp_path):
  if os.environ.get("DRAW_PICTURE"):
    kept = PngImagePlugin.PngInfo()
    kept.add_itxt("text", _shown_text(page))
    _draw(page, tmp_path / "report.png").quantize(128).save(PICTURE, optimize=True, pnginfo=kept)
  check_output(_shown_text(page), Image.open(PICTURE).text["text"])


@pytest.mark.slow
def test_picture_looks_like_the_page(page, tmp_path):
  drawn, kept = _draw(page, tmp_path / "report.png"), Image.open(PICTURE).convert("RGB")
  assert drawn.size == kept.size
  assert np.corrcoef(_blocks(drawn).ravel(), _blocks(kept).ravel())[0, 1] > 0.9
