# Every target sets up .venv by itself; only python3 and make are needed to start.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test test-torch bench lint format wheel docs clean
.DELETE_ON_ERROR:

run: .venv/ready-to-run
	$(BIN)/occamax quickstart --out runs/quickstart

test: .venv/ready-to-test
	$(BIN)/python -m pytest

# networks of other libraries, and posteriors of IVON and laplace-torch; where this Python has no such build, its tests skip and say so
test-torch: .venv/ready-for-others
	$(BIN)/python -m pytest tests/interop --ignore tests/interop/test_numpyro.py -rs

bench: .venv/ready-to-test benchmarks/authors
	$(BIN)/python benchmarks/speed.py --steps 10 --rounds 3 --estimators --out benchmarks/speed.json
	$(BIN)/python benchmarks/growth.py --steps 5 --out benchmarks/growth.json

lint: .venv/ready-to-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: .venv/ready-to-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# the built wheel, of 5 MB at most, installed by itself as a user would, trains, exports and predicts
wheel: | $(BIN)/python
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/wheel .
	test "$$(cat build/wheel/*.whl | wc -c)" -le 5000000
	$(PYTHON) -m venv --without-pip build/wheel/venv
	$(BIN)/python -m pip --python build/wheel/venv install --quiet --disable-pip-version-check "$$(ls build/wheel/*.whl)[onnx]"
	cd build/wheel && venv/bin/python ../../tests/try_wheel.py

# the site, in build/site; a broken link is an error
docs: .venv/ready-for-docs
	$(BIN)/zensical build --clean --strict

clean:
	rm -rf .venv build

# the authors' package, only to be timed; its dependencies are not needed for that
benchmarks/authors: | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $@ bmr4pml==0.1.0

$(BIN)/python:
	$(PYTHON) -m venv .venv

.venv/ready-to-run: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

# +cpu never matches a CUDA build. Where the package index has none, PyTorch's own has: PIP_EXTRA_INDEX_URL names it.
.venv/ready-for-others: pyproject.toml .venv/ready-to-test
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check "torch==2.13.0+cpu" torchax==0.0.14.dev20261026
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check "torch==2.13.0+cpu" laplace-torch ivon-opt
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[flax,haiku]"
	touch $@

.venv/ready-to-test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@ .venv/ready-to-run

.venv/ready-for-docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	touch $@ .venv/ready-to-run
