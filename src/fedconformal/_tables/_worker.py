"""Excel and Parquet, read in a process of their own under limits on its memory and
processor time.

Other libraries parse these formats, and what a file makes them allocate cannot be
computed beforehand: a workbook with one cell in the last row of the last column is 5
KB, a column of equal numbers or a compressed text grows a thousandfold, and a library
that runs out of memory ends its process. The limits grow with the size of the file, so
that large files of people are read. The answer is one line of JSON, then the cells.
"""

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedconformal._tables._csv import check_unnamed, column_names
from fedconformal._tables._formulas import find_uncomputed
from fedconformal._tables._table import check_type, check_width, polars
from fedconformal._text import one_line

_MEMORY, _GROWTH = 350 * 2**20, 40  # bytes, and bytes more for each byte of the file
_SECONDS, _SPEED = 2, 2_000_000  # seconds, and one more for each 2 MB
_PATIENCE = 10  # times as many seconds by the clock, for machines that are busy
_MOST_ROWS, _ROWS_PER_BYTE = 30_000_000, 100
_BATCH = 4_000_000  # rows of a Parquet file read at once
_KINDS = {"excel": "Excel", "table": "Parquet", "column": "Parquet"}


def read_limited(
    task: str, name: str, path: Path | None, data: bytes = b"", **options: Any
) -> Any:
    """Read a file in another process.

    Parameters
    ----------
    task : {"excel", "table", "column"}
        What to read: a sheet, a Parquet table, or one column of it as numbers.
    name : str
        What the file is called in messages.
    path : Path, optional
        The file; None if its content is given.
    data : bytes
        Content of a file that has no path.
    **options
        Of the function that reads it.

    Returns
    -------
    dict, and DataFrame or array
        What was noticed, and the cells.

    Raises
    ------
    ValueError
        If the file cannot be read, or not within the limits.
    """
    size = len(data) if path is None else path.stat().st_size
    seconds, memory = _SECONDS + size // _SPEED, _MEMORY + _GROWTH * size
    order = {
        "task": task,
        "name": name,
        "path": path and str(path),
        "size": size,
        "options": options,
    }
    command = [
        sys.executable,
        "-c",
        f"from {__name__} import work; work({seconds}, {memory})",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe = subprocess.PIPE
    options = {
        "stdin": pipe,
        "stdout": pipe,
        "stderr": subprocess.DEVNULL,
        "env": environment,
    }
    with subprocess.Popen(command, **options) as worker:
        timer = threading.Timer(_PATIENCE * seconds, worker.kill)
        timer.start()
        message = json.dumps(order).encode() + b"\n" + data
        feeder = threading.Thread(target=_feed, args=(worker.stdin, message))
        feeder.start()
        try:
            return _receive(worker.stdout, task, name, size, memory)
        except EOFError:
            raise ValueError(
                f"{name}: cannot be read as {_KINDS[task]}: it takes more than"
                f" {seconds} s or {memory // 2**20} MB; a CSV file has no such limits"
            ) from None
        finally:
            timer.cancel()
            worker.kill()
            feeder.join()


def _feed(pipe: Any, data: bytes) -> None:
    try:
        with pipe:
            pipe.write(data)
    except OSError:
        pass  # the worker has ended, and its answer says why


def _receive(pipe: Any, task: str, name: str, size: int, memory: int) -> Any:
    """Return the answer; an EOFError if it is not whole."""
    line = pipe.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    answer = json.loads(line)
    if "error" in answer:
        raise ValueError(answer["error"])
    if task == "column":
        values = np.empty(answer["rows"])
        if pipe.readinto(values.data.cast("B")) != values.nbytes:
            raise EOFError
        return answer, values
    content = pipe.read(memory)
    if len(content) != answer["bytes"]:
        raise EOFError
    return answer, polars.read_ipc_stream(io.BytesIO(content))


# -- in the worker ---------------------------------------------------------------------


def work(seconds: int, memory: int) -> None:
    """Limit this process, read the file that standard input asks for, and write the
    answer.
    """
    order = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read() if order["path"] is None else b""
    _limit(seconds, memory)
    out, task, name = sys.stdout.buffer, order["task"], order["name"]
    source = io.BytesIO(data) if order["path"] is None else Path(order["path"])
    readers: dict[str, Any] = {
        "excel": _read_sheet,
        "table": _read_parquet,
        "column": _read_column,
    }
    try:
        answer, parts = readers[task](name, source, order["size"], **order["options"])
    except ValueError as error:
        answer, parts = {"error": str(error)}, ()
    except (Exception, polars.exceptions.PanicException) as error:
        answer, parts = (
            {"error": f"{name}: cannot be read as {_KINDS[task]}: {first_line(error)}"},
            (),
        )
    out.write(json.dumps(answer).encode() + b"\n")
    for part in parts:
        out.write(part)


def _limit(seconds: int, memory: int) -> None:
    try:
        import resource
    except ImportError:  # Windows: the clock alone
        return
    if sys.platform == "linux":  # where all memory that is written to counts
        used = (
            int(Path("/proc/self/statm").read_text().split()[5])
            * resource.getpagesize()
        )
        resource.setrlimit(resource.RLIMIT_DATA, (used + memory, used + memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def first_line(error: BaseException) -> str:
    """Return the beginning of what a library complains about."""
    return one_line((str(error).strip() or type(error).__name__).splitlines()[0], 200)


def _with_cells(
    answer: dict[str, Any], frame: Any
) -> tuple[dict[str, Any], list[bytes]]:
    content = io.BytesIO()
    frame.write_ipc_stream(content)
    return {**answer, "bytes": content.tell()}, [content.getvalue()]


def _read_parquet(
    name: str, source: Any, _: int, *, private: bool
) -> tuple[dict[str, Any], Any]:
    """Read a whole table, for a private answer of numbers alone, whose cells have one
    size.
    """
    lazy = polars.scan_parquet(source)
    schema = lazy.collect_schema()
    check_width(name, len(schema))
    for column in schema if private else ():
        check_type(name, column, schema[column])
    return _with_cells({}, lazy.collect())


def _read_column(
    name: str, source: Any, size: int, *, column: str | None, nan: bool
) -> tuple[dict[str, Any], Any]:
    """Read one column as numbers, batch by batch."""
    lazy = polars.scan_parquet(source)
    schema = lazy.collect_schema()
    check_width(name, len(schema))
    if (column is None and len(schema) != 1) or (
        column is not None and column not in schema
    ):
        return {"columns": schema.names(), "rows": 0}, ()
    used = schema.names()[0] if column is None else column
    check_type(
        name, used, schema[used]
    )  # a text of any length would decide whether a file can be read
    rows = int(lazy.select(polars.len()).collect().item())
    if rows > _MOST_ROWS + _ROWS_PER_BYTE * size:
        raise ValueError(
            f"{name}: {rows} rows in {size} bytes are not read; save it as CSV"
        )

    def batches() -> Any:
        for start in range(0, rows, _BATCH):
            part = lazy.select(used).slice(start, _BATCH).collect()[used]
            floats = part.cast(polars.Float64, strict=not nan).fill_null(float("nan"))
            yield np.ascontiguousarray(floats.to_numpy()).data

    return {"columns": [used], "rows": rows}, batches()


# -- Excel -----------------------------------------------------------------------------


def _read_sheet(name: str, source: Any, _: int) -> tuple[dict[str, Any], Any]:
    """Read the first sheet, all cells as text; its first row that is not empty holds
    the names.

    Rows end with the last one in which a cell holds anything, an error included.
    """
    import fastexcel

    book = fastexcel.read_excel(
        source.read_bytes() if isinstance(source, Path) else source.getvalue()
    )
    load = partial(book.load_sheet, 0, header_row=None)
    texts = load(skip_rows=0, dtypes="string").to_polars()
    sheet, n_sheets = book.sheet_names[0], len(book.sheet_names)
    place = name if n_sheets == 1 else f"{name}, sheet {sheet!r}"
    if cell := find_uncomputed(source):
        raise ValueError(
            f"{place}: the formula in cell {cell} has no stored value: open the file in"
            " Excel or LibreOffice, and save it"
        )
    filled = texts.select(
        polars.any_horizontal(polars.all().str.strip_chars() != "")
    ).to_series()
    if not filled.any():
        raise ValueError(f"{name}: the sheet {sheet!r} is empty")
    start = int(np.argmax(filled.fill_null(False).to_numpy()))
    names, named = column_names(
        place, [cell or "" for cell in texts.row(start)], private=False
    )
    first = start + named
    texts = texts.slice(first).rename(dict(zip(texts.columns, names, strict=True)))
    if not named:
        check_unnamed(place, texts, in_quotes=False)
    cells = _with_numbers(load, texts, first, fastexcel.FastExcelError)
    noticed = [f"from the first of {n_sheets} sheets"] * (n_sheets > 1)
    return _with_cells(
        {"name": place, "first": first, "named": named, "noticed": noticed}, cells
    )


def _with_numbers(
    load: Callable[..., Any], texts: Any, first: int, failure: type[Exception]
) -> Any:
    """Return the same cells, as numbers in columns that hold nothing else: these have
    no decimal sign.
    """
    empty: dict[int, Any] = {
        i: "string" for i, text in enumerate(texts) if text.null_count() == texts.height
    }
    if len(empty) == texts.width:
        return texts
    load = partial(load, skip_rows=first, n_rows=texts.height)
    floats = load(dtypes="float").to_polars()
    try:
        typed = load(dtypes=empty).to_polars()
    except failure:  # of a time of day among numbers
        typed = texts
    columns = []
    for text, values, exact in zip(texts, typed, floats, strict=True):
        is_rounded = (
            text.cast(exact.dtype, strict=False) != exact
        )  # the library rounds numbers to text
        unrounded = exact.cast(text.dtype).zip_with(is_rounded.fill_null(False), text)
        is_numeric = (
            values.dtype.is_numeric() and values.null_count() == text.null_count()
        )
        columns.append((values if is_numeric else unrounded).alias(text.name))
    return polars.DataFrame(columns)
