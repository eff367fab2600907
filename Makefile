PYTHON ?= python
N ?= 1000
ROUNDS ?= 100

.PHONY: test check lint golden fuzz stress sanitize demo bench

# The tests that say in a minute whether the tree is sound.
test:
	$(PYTHON) -m pytest tests/test_tiny.py tests/test_layers.py tests/test_doctests.py

# All of CI, in a fresh environment.
check:
	bash .ci/run

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy

# Rewrite the golden files; the diff is for review.
golden:
	$(PYTHON) -m pytest --golden

# New random examples for each property: make fuzz N=5000
fuzz:
	$(PYTHON) -m pytest -n auto -m hypothesis --fuzz $(N)

# Twenty processes that compile the same step at once, killed at random: make stress ROUNDS=20
stress:
	$(PYTHON) -m tests.stress --rounds $(ROUNDS)

# All tests with all C under the address and undefined-behaviour sanitizers: CONTRIBUTING.md says what they see.
sanitize:
	$(PYTHON) -m tests.sanitized

# Train on handwritten digits.
demo:
	gtensor demo

# Measure beside torch, jax, pytensor and NumPy: benchmarks/README.md says what and how.
bench:
	$(PYTHON) -m benchmarks.run
