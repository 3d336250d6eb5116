"""A folder whose file was cut, has a flipped bit or is hostile JSON is refused in a sentence, or changes no number."""

import pytest

from tests.damage import run
from tests.damage_cases import CASES

# tools/soak/damage.py damages each 220 times.
_FEW = [pytest.param(name, marks=[pytest.mark.slow] if case.slow else []) for name, case in CASES.items()]


@pytest.mark.parametrize("name", _FEW)
def test_a_damaged_folder_is_refused_or_harmless(name, tmp_path):
  counts, wrong = run(CASES[name], tmp_path, truncations=5, flips=20)
  assert not wrong, "\n".join(wrong)
  assert counts.total() >= 25
