import pytest

from tests.run_scripts import tiny_data


@pytest.fixture(scope="session")
def data(tmp_path_factory):
  """STS-B, SICK-R and STS-12 to STS-16, with invented gold."""
  return tiny_data.write(tmp_path_factory.mktemp("tiny"))
