"""A dataset for others: described as DCAT 3 in JSON-LD, for catalogues that harvest it, and its rows in other formats.

Everything is read from the verified manifest and the study that all parties signed. What no vocabulary has a
word for (noise, guarantee, refusals, who would have to collude) is under the prefix `trimask`. The
licence is the study's; where it states none, pass the one you know of, or the record says that none is stated.

Rows are written a batch at a time, never all of them in memory; but a Stata or SPSS file, which has the study's questions as
labels, is written at once.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trimask.data.description import bibtex, sent_together
from trimask.errors import MissingExtra, ParameterError
from trimask_core.study.derived import ONES, Column
from trimask_core.study.schema import Schema
from trimask_core.submit.release_files import COUNTED_FILE, weight_note
from trimask_theory.moments.noise_law import Matrix

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from trimask.data.manifest import Manifest
    from trimask_core.study.guarantee import Guarantee


CONTEXT = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "prov": "http://www.w3.org/ns/prov#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "schema": "https://schema.org/",
    "spdx": "http://spdx.org/rdf/terms#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "trimask": "urn:trimask:terms#",
}
_PARQUET = "https://www.iana.org/assignments/media-types/application/vnd.apache.parquet"
_USE = (
    "Rows are not people: each mixes all rows of the release. Second moments, and models made of them, can be "
    "computed once the noise is taken out of the moments; nothing nonlinear can."
)


_JSON = "https://www.iana.org/assignments/media-types/application/json"
_USE_MOMENTS = (
    "What is published are noisy second moments, summed in shares; no rows were ever together. Models made of second "
    "moments can be computed from them; nothing nonlinear can. Rows made from them are derived, and are not people."
)


def describe_dataset(manifest: Manifest, licence: str | None = None) -> dict[str, Any]:
    """The record, JSON-ready. `licence` is the address of a licence, if one has been agreed."""
    study = manifest.study
    counts = manifest.counts
    rows = manifest.suite == "rows"
    record: dict[str, Any] = {
        "@context": CONTEXT,
        "@id": f"urn:trimask:dataset:{manifest.dataset_id}",
        "@type": "dcat:Dataset",
        "dct:identifier": manifest.dataset_id,
        "dct:title": manifest.title,
        "dct:description": f"{study.purpose.strip()} {_USE if rows else _USE_MOMENTS}".strip(),
        "dct:created": _time(study.created_ms),
        "dct:issued": _time(manifest.published_ms),
        "dct:publisher": {"@type": "foaf:Organization", "foaf:name": study.collector.organisation},
        "dcat:contactPoint": {"@type": "vcard:Kind", "vcard:fn": study.contact},
        "dcat:version": str(manifest.release),
        "schema:variableMeasured": [_variable(column, study.schema) for column in manifest.columns],
        "dcat:distribution": [
            _file(entry.name, entry.bytes, entry.sha256)
            for entry in manifest.files
            if entry.name != COUNTED_FILE  # for receipts; it is no data
        ],
        "dct:provenance": {"@type": "dct:ProvenanceStatement", "dct:description": _provenance(manifest)},
        "prov:wasGeneratedBy": {
            "@type": "prov:Activity",
            "@id": f"urn:trimask:study:{manifest.study_id}",
            "prov:wasAssociatedWith": [
                {"@type": "prov:Organization", "trimask:role": role, "foaf:name": party.organisation}
                for role, party in study.parties.items()
            ],
        },
        "trimask:suite": manifest.suite,
        "trimask:rows": manifest.rows,
        "trimask:storedRows": manifest.stored_rows,
        "trimask:blocks": counts.get("blocks"),
        "trimask:failedAttempts": counts.get("failed_attempts"),
        "trimask:refusals": _refusals(counts.get("refusals")),
        "trimask:noiseSigma": manifest.sigma,
        "trimask:guarantee": [
            _guarantee(towards, manifest.guarantee(towards)) for towards in ("public", "collector")
        ],
        **({} if study.weight is None else {"trimask:weights": weight_note(study)}),
        "trimask:collusion": _terms(manifest.collusion),
        "trimask:citation": bibtex(manifest),
        "trimask:manifestSha256": manifest.sha256,
    }
    licence = licence or manifest.study.licence
    if not licence:
        record["dct:rights"] = "The study states no licence; ask its contact."
    else:
        record["dct:license"] = {"@id": licence}
    if manifest.previous is not None:
        record["trimask:previousManifestSha256"] = manifest.previous
    return record


def _time(milliseconds: int) -> dict[str, str]:
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return {"@type": "xsd:dateTime", "@value": moment.isoformat(timespec="milliseconds")}


def _variable(column: Column, schema: Schema) -> dict[str, Any]:
    """Name, meaning, unit and bounds in original units, and how the stored value leads back to them."""
    asked = next((item for item in schema.attributes if item.name == column.source), None)
    derived = next((item for item in schema.derived if item.name == column.source), None)
    low, high = column.center - column.half_range, column.center + column.half_range
    if column.name == ONES or column.level is not None:
        low, high = (1.0 if column.name == ONES else 0.0), 1.0
    found: dict[str, Any] = {
        "@type": "schema:PropertyValue",
        "schema:name": column.name,
        "schema:minValue": low,
        "schema:maxValue": high,
        "trimask:center": column.center,
        "trimask:halfRange": column.half_range,
    }
    if asked is not None:
        found["trimask:kind"] = asked.kind
        if asked.unit:
            found["schema:unitText"] = asked.unit
        if asked.label:
            found["schema:description"] = asked.label
        if column.level is not None:
            found["trimask:indicates"] = {"trimask:attribute": asked.name, "trimask:level": column.level}
    elif derived is not None:
        found["trimask:kind"] = derived.kind
        found["prov:wasDerivedFrom"] = list(derived.of)
        if derived.cuts:
            found["trimask:cuts"] = list(derived.cuts)
        if column.level is not None:
            found["trimask:indicates"] = {"trimask:attribute": derived.name, "trimask:level": column.level}
        if column.within is not None:
            found["trimask:within"], found["trimask:middle"] = column.within, column.middle
    else:
        found["trimask:kind"] = "constant"
        found["schema:description"] = "one on every row; means and intercepts come from it"
    return found


def _file(name: str, size: int, sha256: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "@type": "dcat:Distribution",
        "dct:title": name,
        "dcat:byteSize": size,
        "spdx:checksum": {
            "@type": "spdx:Checksum",
            "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256"},
            "spdx:checksumValue": sha256,
        },
    }
    if name.endswith(".parquet"):
        found["dcat:mediaType"] = {"@id": _PARQUET}
    elif name.endswith(".json"):
        found["dcat:mediaType"] = {"@id": _JSON}
    return found


def _provenance(manifest: Manifest) -> str:
    return f"{_collected(manifest)} {sent_together(manifest)}".strip()


def _collected(manifest: Manifest) -> str:
    study = manifest.study
    if manifest.suite == "moments":
        noise = f"Gaussian noise (sigma {manifest.sigma:.6g})" if manifest.sigma else "no noise (exact mode)"
        return (
            f"The reports of {manifest.rows:,} people, each checked in shares, were added up in shares by "
            f"{len(study.right)} right providers, who each added {noise} to the totals and signed them. The manifest is "
            "signed by the collector, the study by every party."
        )
    noise = f"Gaussian noise of sigma {manifest.sigma:.6g}" if manifest.sigma else "no noise (exact mode)"
    return (
        f"{manifest.rows:,} rows, each with {noise} added on the device in scaled units, were masked by "
        f"{len(study.right)} right and {len(study.left)} left providers in blocks of {study.rows.block_rows:,}, "
        "pooled by the collector and published once. The manifest is signed by the collector, the study by every "
        "party."
    )


def _guarantee(towards: str, found: Guarantee | None) -> dict[str, Any]:
    if found is None:
        return {"trimask:towards": towards, "trimask:statement": "none: exact mode, no differential privacy"}
    return {"trimask:towards": towards, "trimask:statement": str(found), **_terms(found.to_dict())}


def _refusals(found: object) -> list[dict[str, Any]]:
    """Role and reason are data, so they are values; as keys they would be terms that no vocabulary has."""
    if not isinstance(found, Mapping):
        return []
    listed = []
    for role, reasons in found.items():
        each = reasons.items() if isinstance(reasons, Mapping) else [("all", reasons)]
        listed += [
            {"trimask:role": role, "trimask:reason": reason, "trimask:count": count} for reason, count in each
        ]
    return listed


def _terms(found: object) -> Any:
    """With every key under the prefix: a key without one means nothing to a JSON-LD parser, which drops it and its value.

    A list is kept in its order; a list of lists (coalitions) becomes a list of groups.
    """
    if isinstance(found, Mapping):
        return {f"trimask:{key}": _terms(value) for key, value in found.items()}
    if isinstance(found, (list, tuple)):
        return {"@list": [_terms(item) for item in found]}
    return found


def row_schema(names: Sequence[str], notes: Mapping[str, str] | None = None) -> pa.Schema:
    """Every column a double; `notes` are metadata of the table."""
    import pyarrow as pa

    return pa.schema([(name, pa.float64()) for name in names], metadata=dict(notes) if notes else None)


def record_batch(block: Matrix, schema: pa.Schema) -> pa.RecordBatch:
    """A block of rows in Arrow's form."""
    import pyarrow as pa

    columns = [pa.array(np.ascontiguousarray(block[:, j])) for j in range(block.shape[1])]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def write_notes(path: Path, notes: Mapping[str, str]) -> None:
    """What a file of rows is and is not, in a file NAME.json beside it."""
    path.with_name(f"{path.name}.json").write_text(json.dumps(dict(notes), indent=1), encoding="utf-8")


def write_csv(
    path: Path, names: Sequence[str], blocks: Iterable[Matrix], notes: Mapping[str, str] | None = None
) -> Path:
    """As CSV with a heading; every value can be read back exactly. `notes` go into a file NAME.json beside it."""
    from pyarrow import csv

    if notes:
        write_notes(path, notes)
    schema = row_schema(names)
    with csv.CSVWriter(path, schema) as writer:
        for block in blocks:
            writer.write_batch(record_batch(block, schema))
    return path


def write_arrow(
    path: Path, names: Sequence[str], blocks: Iterable[Matrix], notes: Mapping[str, str] | None = None
) -> Path:
    """As an Arrow IPC file, which readers map into memory without parsing; `notes` are its metadata."""
    import pyarrow as pa

    schema = row_schema(names, notes)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for block in blocks:
            writer.write_batch(record_batch(block, schema))
    return path


_LABELLED = {".dta": 32, ".sav": 64}
"""Stata's and SPSS's files, by suffix, and the letters a variable's name may have there."""
_RESERVED = re.compile(
    r"all|and|by|eq|ge|gt|le|lt|ne|not|or|to|with|byte|double|float|if|in|int|long|using|str[0-9]*"
)


def question_labels(columns: Sequence[Column], schema: Schema) -> dict[str, str]:
    """What each column and each question is, in the study's words."""
    asked = {item.name: item for item in schema.attributes}
    found = {
        name: (item.label or name) + (f" ({item.unit})" if item.unit else "") for name, item in asked.items()
    }
    for column in columns:
        if column.level is not None:
            found[column.name] = f"{found.get(column.source, column.source)}: {column.level}"
            found[f"C({column.source})[{column.level}]"] = found[column.name]  # as fits name it
    found[ONES] = "1 for everybody: the intercept"
    return found


def codebook(columns: Sequence[Column], schema: Schema) -> pd.DataFrame:
    """A row a column of the release: of which question, of what kind, in which unit, and between which bounds."""
    import pandas as pd

    rows = []
    for column in columns:
        made = _variable(column, schema)
        rows.append(
            {
                "column": column.name,
                "question": column.source or column.name,
                "kind": made["trimask:kind"],
                "level": column.level or "",
                "unit": made.get("schema:unitText", ""),
                "minimum": made["schema:minValue"],
                "maximum": made["schema:maxValue"],
                "center": column.center,
                "half_range": column.half_range,
            }
        )
    return pd.DataFrame(rows)


def write_labelled(
    path: Path, frame: pd.DataFrame, labels: Mapping[str, str], title: str, notes: Sequence[str]
) -> Path:
    """A frame as a Stata (.dta) or SPSS (.sav) file, by the path's suffix.

    Texts are whole numbers with value labels, and each variable has a label: what `labels` say of it, or its own name, which
    neither program may take as it is. `title` is the file's label, shown when it is opened. SPSS's files hold the notes; to
    Stata's the package cannot write any, and NAME.json beside them has them.
    """
    if path.suffix not in _LABELLED:
        raise ParameterError("path", "a file NAME.dta (Stata) or NAME.sav (SPSS)", str(path))
    try:
        pyreadstat = import_module("pyreadstat")
    except ImportError:
        raise MissingExtra("stata", "a Stata or SPSS file") from None
    stata = path.suffix == ".dta"
    flat = frame if frame.index.names == [None] and frame.index.dtype.kind in "iu" else _with_index(frame)
    names = _names([str(name) for name in flat.columns], _LABELLED[path.suffix])
    heads = [
        _cut(labels.get(str(name), str(name)), 80 if stata else 255, bytes_too=not stata)
        for name in flat.columns
    ]
    values: dict[str, dict[int | float, str]] = {}
    out = flat.set_axis(names, axis=1)
    for name in names:
        if out[name].dtype.kind in "fiub":
            continue
        texts = list(
            dict.fromkeys(str(text) for text in out[name] if text)
        )  # in the study's order; "" is missing
        values[name] = {code: _cut(_said(text, labels), 120) for code, text in enumerate(texts)}
        out[name] = [float(texts.index(str(text))) if text else np.nan for text in out[name]]
    said = dict(zip(names, heads, strict=True))
    head = _cut(title, 80 if stata else 60, bytes_too=not stata)
    if stata:
        pyreadstat.write_dta(
            out, str(path), file_label=head, column_labels=said, variable_value_labels=values
        )
        write_notes(path, {"title": title, "notes": "\n".join(notes)})
    else:
        lines = [line for note in (title, *notes) for line in textwrap.wrap(_ascii(note), 78)]
        pyreadstat.write_sav(
            out, str(path), file_label=head, column_labels=said, variable_value_labels=values, note=lines
        )
    return path


def _with_index(frame: pd.DataFrame) -> pd.DataFrame:
    names = [str(name or ("term" if i == 0 else f"part {i + 1}")) for i, name in enumerate(frame.index.names)]
    taken = set(map(str, frame.columns))
    return frame.rename_axis([f"{name} (row)" if name in taken else name for name in names]).reset_index()


def _said(text: str, labels: Mapping[str, str]) -> str:
    words = labels.get(text, text)
    return text if words == text else f"{text}: {words}"


def _names(asked: Sequence[str], most: int) -> list[str]:
    """Names that both programs take, each once whatever its case."""
    found: list[str] = []
    for name in asked:
        plain = re.sub(r"[^A-Za-z0-9]+", "_", name.replace("|", "abs")).strip("_")
        plain = plain if plain[:1].isalpha() else f"v_{plain}"
        if _RESERVED.fullmatch(plain.lower()):
            plain = f"v_{plain}"
        base, number = plain[:most], 2
        plain = base
        while plain.lower() in {other.lower() for other in found}:
            plain = f"{base[: most - 1 - len(str(number))]}_{number}"
            number += 1
        found.append(plain)
    return found


def _cut(text: str, most: int, bytes_too: bool = True) -> str:
    if not bytes_too:
        return text[:most]
    return text.encode()[:most].decode(errors="ignore")


def _ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode()
