import pathlib
import sys

from setuptools import find_packages, setup

VERSION = "0.4.0.dev0"

TF = "2.21.*"

# pip would say only that 3.14 does not match ">=3.11,<3.14".
if sys.version_info >= (3, 14):
  sys.exit(
    f"bert-flow-tf needs Python 3.11, 3.12 or 3.13, and this is Python {sys.version_info[0]}.{sys.version_info[1]}: "
    f"TensorFlow {TF.removesuffix('.*')}, which it depends on, has no build for Python 3.14 or later."
  )

INSTALL_REQUIRES = [
  "tf-keras==2.21.*",
  "tensorflow-probability==0.25.*",
  # For a TFBertModel of the user's own alone, which 4.53 is the last to load from safetensors.
  "transformers>=4.53.3,<6",
  "tensorflow-datasets==4.9.*",
  # tensorflow-datasets 4.9.10 imports it and forgets to require it (tensorflow/datasets issue 11212).
  "importlib_resources>=6",
  "numpy>=2.0,<2.5",
  "scipy>=1.13,<2",
  "absl-py>=2.1,<3",
  "safetensors>=0.4.3,<1",
  "tokenizers>=0.21",
  "huggingface_hub>=0.30",
  # The params.yaml of a Model Garden; huggingface_hub needs it, too.
  "pyyaml>=5.1,<7",
  "requests>=2.21,<3",
  # Input and output of run_embed on object stores.
  "fsspec>=2024.2",
  "tqdm>=4.27,<5",
  # Draws the page of a run.
  "matplotlib>=3.8,<4",
]

TABLES = ["rapidfuzz>=3,<4"]

# tensorflow-text has the ops that tokenize in a SavedModel; the client needs the other two.
SERVING = ["tensorflow-text>=2.21.1,<2.22", f"tensorflow-serving-api=={TF}", "grpcio>=1.60,<2"]

# This version accepts the protobuf of TensorFlow, 6.31 or later.
BEAM = ["apache-beam==2.77.*"]

# The index of search and dedupe; BM25 of search and of evaluations.
SEARCH = ["faiss-cpu>=1.15,<2", "bm25s>=0.2.5,<1"]

# Hidden states on CPUs.
OPENVINO = ["openvino>=2026.2,<2027"]

# Exports to ONNX. ONNX Runtime compares their answers.
ONNX = ["tf2onnx>=1.17,<2", "onnx>=1.14", "onnxruntime>=1.20"]

# fsspec's file systems of gs:// and s3://.
STORES = {"gcs": ["gcsfs>=2024.2"], "s3": ["s3fs>=2024.2"]}

TEST = [
  *TABLES,
  *SERVING,
  *BEAM,
  *SEARCH,
  *OPENVINO,
  "pytest>=8,<10",
  "pytest-xdist>=3.6,<4",
  "ruff==0.17.*",
  "mypy==2.4.*",
  "scikit-learn>=1.5,<2",
  "tensorflow-hub>=0.16,<0.17",
  "setuptools<82",  # tensorflow-hub imports pkg_resources, which 82 dropped.
  "hypothesis>=6.85,<7",
  # The tour as a notebook.
  "jupytext>=1.16,<2",
  "nbclient>=0.10,<1",
  "ipykernel>=6.29,<8",
]

EXTRAS = {
  "and-cuda": [f"tensorflow[and-cuda]=={TF}"],
  "tables": TABLES,
  "serving": SERVING,
  "beam": BEAM,
  "search": SEARCH,
  "openvino": OPENVINO,
  "onnx": ONNX,
  **STORES,
  "docs": ["mkdocs>=1.6,<2", "mkdocs-material>=9.6,<10", "mkdocstrings[python]>=1,<2", "ruff==0.17.*"],
  # With the last transformers that has TFBertModel, which proves our numbers.
  "test": [*TEST, "transformers<4.54"],
  "test-newest": TEST,
}

setup(
  name="bert-flow-tf",
  version=VERSION,
  description="BERT-flow (Li et al., EMNLP 2020) for TensorFlow 2: calibrated sentence embeddings",
  long_description=pathlib.Path("README.md").read_text(encoding="utf-8"),
  long_description_content_type="text/markdown",
  license="Apache-2.0",
  license_files=["LICENSE", "NOTICE"],
  keywords=["sentence embeddings", "BERT", "normalizing flow", "semantic textual similarity", "TensorFlow"],
  classifiers=[
    "Development Status :: 4 - Beta",
    "Intended Audience :: Developers",
    "Intended Audience :: Science/Research",
    "Programming Language :: Python :: 3.11",
    "Programming Language :: Python :: 3.12",
    "Programming Language :: Python :: 3.13",
    "Topic :: Scientific/Engineering :: Artificial Intelligence",
    "Topic :: Text Processing :: Linguistic",
    "Typing :: Typed",
  ],
  python_requires=">=3.11,<3.14",
  packages=find_packages(include=["bert_flow_tf", "bert_flow_tf.*", "run_scripts", "run_scripts.*"]),
  package_data={
    "bert_flow_tf": ["py.typed"],
    "bert_flow_tf.flow": ["config/*.json"],
    "bert_flow_tf.data": ["frequencies/*", "hard_sample/*", "sample/*"],
    "bert_flow_tf.encoder": ["pretrained/mini/*"],
    "bert_flow_tf.report": ["page.html"],
    "bert_flow_tf.tables": ["paper_tables.json"],
    "run_scripts": ["run_two_machines.sh", "train_siamese.sh"],
  },
  install_requires=[f"tensorflow=={TF}", *INSTALL_REQUIRES],
  extras_require=EXTRAS,
  entry_points={
    "console_scripts": ["bert-flow=run_scripts.bert_flow:main"],
  },
)
