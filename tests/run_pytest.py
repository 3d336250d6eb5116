"""Program of BUILD's tests: starts pytest on the file in `args`."""

import sys

import pytest

if __name__ == "__main__":
  sys.exit(pytest.main(["-p", "no:cacheprovider", "-n", "0", "-m", "", *sys.argv[1:]]))
