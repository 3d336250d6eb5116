#!/usr/bin/env bash
# Guess: the Pearson correlation with a constant column is NaN.
# Truth: for .5 and 1 it is. The mean of 100 times .1 or .7 is not quite the number: NumPy, and `corr` of pandas's
#        Series, give 0, and of two constant columns 1 or -1. `corr` of pandas's DataFrame and SciPy give NaN for each.
# Why it matters: a collapsed model gives each pair the same cosine. Its score is NaN for one value and a number for the
#   next: a sweep that drops NaN keeps it, and two collapsed models agree.
# Versions: NumPy 2.4.6, pandas 3.1.1, SciPy 1.17.1. Seen on 2026-11-29.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check numpy==2.4.6 pandas==3.1.1 scipy==1.17.1

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import numpy as np
import pandas as pd
import scipy
from scipy import stats

print("NumPy", np.__version__, "pandas", pd.__version__, "SciPy", scipy.__version__)
gold = np.arange(100) / 20
for value in (0.1, 0.5, 0.7, 1.0):
  column = np.full(100, value)
  frame = {"a": column, "b": gold}
  answers = {
    "NumPy": np.corrcoef(column, gold)[0, 1],
    "Series.corr": pd.Series(column).corr(pd.Series(gold)),
    "DataFrame.corr": pd.DataFrame(frame).corr().loc["a", "b"],
    "SciPy": stats.pearsonr(column, gold).statistic,
    "NumPy, two constants": np.corrcoef(column, column)[0, 1],
    "opposite ones": np.corrcoef(column, -column)[0, 1],
  }
  print(value, *(f"{name} {abs(r) if abs(r) < 1e-9 else r:.3f}" for name, r in answers.items()), sep="; ")
END
cat seen.txt

diff - seen.txt << 'END' || { echo "numpy_correlation_with_a_constant.sh: the behavior has changed: < seen on 2026-11-29, > seen now" >&2; exit 1; }
NumPy 2.4.6 pandas 3.1.1 SciPy 1.17.1
0.1; NumPy 0.000; Series.corr 0.000; DataFrame.corr nan; SciPy nan; NumPy, two constants 1.000; opposite ones -1.000
0.5; NumPy nan; Series.corr nan; DataFrame.corr nan; SciPy nan; NumPy, two constants nan; opposite ones nan
0.7; NumPy 0.000; Series.corr 0.000; DataFrame.corr nan; SciPy nan; NumPy, two constants 1.000; opposite ones -1.000
1.0; NumPy nan; Series.corr nan; DataFrame.corr nan; SciPy nan; NumPy, two constants nan; opposite ones nan
END
