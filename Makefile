# The commands a newcomer and CI use. Everything is installed into .venv from this project's own files.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-long corpus-check check format wheel bench-chunk bench-edit bench-formats bench-llm clean

$(VENV)/demo: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Chunkmill needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[demo]'
	touch $@

$(VENV)/dev: $(VENV)/demo
	$(PIP) --editable '.[dev]'
	touch $@

demo: $(VENV)/demo  ## run the real job on the example corpus and search in it
	$(BIN)/chunkmill run examples/job.yaml
	$(BIN)/chunkmill search demo-output/dataset "what to do when the lamp fails at night" -k 2
	@echo 'Next: $(BIN)/chunkmill run YOUR_FOLDER YOUR_DATASET, then $(BIN)/chunkmill search YOUR_DATASET "a question"'

test: $(VENV)/dev  ## what CI runs
	$(BIN)/pytest

test-long: $(VENV)/dev
	$(BIN)/pytest -m long

corpus-check: $(VENV)/dev  ## real and hostile files through the job: what became of each format, which facts hold
	$(BIN)/python benchmarks/corpus.py --floor

check: $(VENV)/dev  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	cd src && $(abspath $(BIN))/mypy -p chunkmill.chunkers -p chunkmill.io

format: $(VENV)/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

wheel: $(VENV)/dev
	$(BIN)/python -m build --wheel --outdir dist .

.venv-bench/done: benchmarks/requirements.txt  # the peers, apart from the product's environment
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --requirement benchmarks/requirements.txt
	touch $@

bench-chunk: .venv-bench/done  ## speed against the peers; ARGS="--linear", ARGS="--text FOLDER", …
	.venv-bench/bin/python benchmarks/chunk.py $(ARGS)

bench-edit: .venv-bench/done  ## chunks that an edit changes, against the peers
	.venv-bench/bin/python benchmarks/edit.py $(ARGS)

.venv-formats/done: benchmarks/requirements-formats.txt
	$(PYTHON) -m venv .venv-formats
	.venv-formats/bin/python -m pip install --quiet --disable-pip-version-check --requirement benchmarks/requirements-formats.txt
	echo '*' > .venv-formats/.gitignore
	touch $@

bench-formats: $(VENV)/dev .venv-formats/done  ## speed and facts of parsing, beside MarkItDown; ARGS="--only pdf,docx"
	$(BIN)/python benchmarks/formats.py $(ARGS)

bench-llm: $(VENV)/dev  ## what asking a language model costs besides the model; ARGS="--chunks 2000 --delay 0.05"
	$(BIN)/python benchmarks/llm.py $(ARGS)

clean:
	rm -rf $(VENV) .venv-bench .venv-formats build dist demo-output

.PHONY: bench-embed gpu-check
bench-embed: $(VENV)/demo  ## texts to vectors, against sentence-transformers and the bare model; ARGS="--end-to-end 4", …
	$(BIN)/python benchmarks/embed.py $(ARGS)

gpu-check: $(VENV)/dev  ## on a machine with a GPU, some minutes: the tests marked `gpu`, then the speed against the bare model
	$(BIN)/python -c 'import sys, torch; sys.exit(not torch.cuda.is_available() and "torch sees no GPU here")'
	timeout 240 $(BIN)/pytest -m gpu tests/test_models.py tests/test_late.py tests/test_embedding.py
	timeout 230 $(BIN)/python benchmarks/embed.py --device cuda --texts 20000 --rounds 2 $(ARGS)

.PHONY: bench-nightly bench-pdf
bench-nightly: $(VENV)/demo  ## a night in which 1% of 100,000 documents changed, against the full run; ARGS="--documents 20000"
	$(BIN)/python benchmarks/nightly.py $(ARGS)

.venv-pdf/done: benchmarks/requirements-pdf.txt
	$(PYTHON) -m venv .venv-pdf
	echo '*' > .venv-pdf/.gitignore
	grep -v '^pyarrow==' constraints.txt > .venv-pdf/constraints.txt  # Daft asks for an older one
	.venv-pdf/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv-pdf/constraints.txt --editable '.[demo]' --requirement benchmarks/requirements-pdf.txt
	touch $@

bench-pdf: .venv-pdf/done  ## PDFs to vectors, beside a plain Ray Data script and Daft; ARGS="--documents 300"
	.venv-pdf/bin/python benchmarks/pdf.py $(ARGS)

.PHONY: bench-scale
bench-scale: $(VENV)/demo  ## memory at ten times the corpus, many files in a folder, Ray beside a plain loop; ARGS="--only loop"
	$(BIN)/python benchmarks/scale.py $(ARGS)

.PHONY: bench-large
bench-large: $(VENV)/demo  ## one document of 2 GB: time, memory, and whether its chunks are right; ARGS="--mb 200 --format csv"
	$(BIN)/python benchmarks/large.py $(ARGS)
