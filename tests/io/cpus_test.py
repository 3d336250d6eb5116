"""Tests of the number of CPUs: affinity, and quotas of control groups as Linux writes them."""

import os

import pytest

from bert_flow_tf.io import cpus

# {file: content} of a process of the group /jobs/one, each with the number of CPUs.
V2 = {"process": "0::/jobs/one\n"}
V1 = {"process": "3:cpu,cpuacct:/docker/f00\n2:memory:/docker/f00\n"}
GROUPS = [
  ({}, 64),
  (V2, 64),
  (V2 | {"jobs/one/cpu.max": "max 100000\n"}, 64),
  (V2 | {"jobs/one/cpu.max": "200000 100000\n"}, 2),
  (V2 | {"jobs/one/cpu.max": "400000 100000\n", "jobs/cpu.max": "150000 100000\n"}, 2),
  (V2 | {"cpu.max": "10000 100000\n"}, 1),
  (V2 | {"jobs/one/cpu.max": "9900000 100000\n"}, 64),
  # A container of version 1 sees its own group as the root, and its name outside.
  (V1 | {"cpu,cpuacct/cpu.cfs_quota_us": "300000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 3),
  (V1 | {"cpu,cpuacct/cpu.cfs_quota_us": "-1\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 64),
]


@pytest.mark.parametrize("files, expected", GROUPS)
def test_quotas_of_containers(tmp_path, monkeypatch, files, expected):
  for name, content in files.items():
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(content)
  monkeypatch.setattr(cpus, "_CGROUPS", tmp_path)
  monkeypatch.setattr(cpus, "_GROUP_OF_PROCESS", tmp_path / "process")
  monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)), raising=False)
  assert cpus.usable_cpus() == expected
