# The commands of .ci/run, one at a time, in .venv.
.PHONY: install test slow lint docs notebook table results soak constraints

install: ; python3 -m venv .venv && .venv/bin/pip install -q -e '.[test,docs]'
test: ; .venv/bin/python -m pytest -q
slow: ; .venv/bin/python -m pytest -q -m ''
lint: ; .venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy
docs: ; .venv/bin/mkdocs build --strict
notebook: ; .venv/bin/python -m tools.notebook
table: ; .venv/bin/python run_scripts/run_table.py $(FLAGS)
results: ; .venv/bin/python -m tools.results_page exp/tables docs/results.md
soak: ; .venv/bin/python -m tools.soak.kills $(FLAGS)
COMPILE = uv pip compile --quiet --universal --python-version=3.11 --no-annotate setup.py

constraints: ; $(COMPILE) --extra=test --extra=docs --extra=gcs --extra=s3 -o constraints.txt && $(COMPILE) --extra=test-newest -o constraints-newest.txt
