#!/bin/bash -eu
# A fuzzer and its seeds for each target of tests/fuzz/trimask_fuzz.
python3 -m pip install ./client ./theory './server[collector,postgres]' ./sdk pytest
export PYTHONPATH="tests/support:tests/fuzz:tests/simulation:tests/faults"
for name in $(python3 -c 'from trimask_fuzz.__main__ import NAMES; print(*NAMES)'); do
  printf 'from trimask_fuzz.__main__ import watched\n\nwatched("%s")\n' "$name" > "$SRC/fuzz_$name.py"
  python3 -c "from trimask_fuzz.__main__ import write_seeds; write_seeds('$name', '$WORK/$name')"
  zip -jqr "$OUT/fuzz_${name}_seed_corpus.zip" "$WORK/$name"
  compile_python_fuzzer "$SRC/fuzz_$name.py" --paths tests/support --paths tests/fuzz --paths tests/simulation \
    --paths tests/faults --collect-submodules trimask_fuzz
done
