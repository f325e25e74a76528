"""Every way in which people's programs write a table is read into the same numbers, or refused."""

import io
import sys
import warnings
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedconformal._tables import Dialect, read_column, read_table

TRUTH = [1.5, -0.25, 1234.5, 0.0]
GUESS = [1.25, 0.5, 1e-7, 12.0]
NAMES = ("Größe", "prediction")

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1")


def written(separator, decimal, *, quoted=False, stray=False, end="\n", names=NAMES):
    """A table as some program would write it."""

    def cell(value):
        text = repr(value).replace(".", decimal)
        return f'"{text}"' if quoted or separator in text else text

    heads = [f" {name} " if stray else f'"{name}"' if quoted else name for name in names]
    rows = [separator.join(map(cell, row)) for row in zip(TRUTH, GUESS, strict=True)]
    return end.join([separator.join(heads), *rows, ""])


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Write a file; returns its path."""
    monkeypatch.chdir(tmp_path)

    def file(text, encoding="utf-8", name="t.csv"):
        path = Path(name)
        path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
        return path

    return file


def said(path, columns=None, **options):
    """The numbers, and what was said about the file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = read_table(path, **options)
        found = table.numbers(columns or table.columns)
    return found, " ".join(str(each.message) for each in caught)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("separator", SEPARATORS.values(), ids=SEPARATORS)
@pytest.mark.parametrize("style", [{}, {"quoted": True}, {"stray": True}, {"end": "\r\n"}], ids=str)
def test_every_dialect_in_every_encoding(file, separator, decimal, encoding, style):
    path = file(written(separator, decimal, **style), encoding)
    table = read_table(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert table.columns == list(NAMES)
        assert np.array_equal(table.numbers(NAMES), np.transpose([TRUTH, GUESS]))


class TestWhatWasFoundOutIsSaid:
    def test_in_one_line(self, file):
        assert said(file(written(";", ",", stray=True), "utf-16"))[1] == (
            "t.csv: read in UTF-16, with ; between columns, without the spaces around column names and with "
            "decimal commas"
        )
        assert "in Latin-1" in said(file(written(",", "."), "latin-1"))[1]
        assert "with tabs between columns" in said(file(written("\t", ".")))[1]

    def test_nothing_of_what_is_usual(self, file):
        assert said(file(written(",", ".")))[1] == ""
        assert said(file(written(",", "."), "utf-8-sig"))[1] == ""
        assert said(file(written("\t", "."), name="t.tsv"))[1] == ""

    def test_nor_of_what_somebody_said(self, file):
        dialect = Dialect("semicolon", "comma", "utf-16")
        values, words = said(file(written(";", ","), "utf-16"), dialect=dialect)
        assert words == ""
        assert np.array_equal(values, np.transpose([TRUTH, GUESS]))


class TestExcel:
    def sheet(self, rows, name="t.xlsx", *, more=()):
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        for title in more:
            book.create_sheet(title).append([1])
        book.save(name)
        return Path(name)

    def test_the_first_sheet(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        path = self.sheet([[], [" Größe ", "prediction"], *zip(TRUTH, GUESS, strict=True)], more=["Notes"])
        values, words = said(path)
        assert np.array_equal(values, np.transpose([TRUTH, GUESS]))
        assert words == "t.xlsx, sheet 'Sheet': read from the first of 2 sheets"

    def test_which_sheet_lacks_a_column(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        path = self.sheet([["notes"], ["x"]], more=["data"])
        with pytest.raises(ValueError, match=r"t.xlsx, sheet 'Sheet': no column 'truth'; there are notes"):
            read_table(path).numbers(["truth"])

    def test_without_names_no_row_is_lost(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        values, words = said(self.sheet([[1.5, 2.5], [3, 4]]))
        assert values.tolist() == [[1.5, 2.5], [3, 4]]
        assert words == "t.xlsx: the first line holds numbers, so it is read as the first row"
        with pytest.raises(ValueError, match="does the first line hold names or numbers"):
            read_table(self.sheet([[2023, 2024], [3.5, 4.5]]))

    def test_numbers_have_no_decimal_sign_and_texts_have(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert said(self.sheet([["a"], [1.234], [5.678]]))[0].tolist() == [[1.234], [5.678]]
        with pytest.raises(ValueError, match=r"is 1.234 in line 2 a thousand or more"):
            said(self.sheet([["a"], ["1.234"], ["5.678"]]))
        with pytest.raises(ValueError, match=r"got 'n/a' in line 3$"):
            said(self.sheet([["a"], [1.5], ["n/a"]]))
        with pytest.raises(ValueError, match=r"got '1,5' in line 3: other numbers have decimal points"):
            said(self.sheet([["a"], [2.5], ["1,5"]]))
        with pytest.raises(ValueError, match=r"must hold numbers, got '2024-01-02 00:00:00' in line 2"):
            said(self.sheet([["a"], [datetime(2024, 1, 2)]]))

    @pytest.mark.parametrize("last", ["0,5", "x", "1.200", None, True, 3])
    def test_of_private_scores_one_cell_changes_one(self, tmp_path, monkeypatch, last):
        monkeypatch.chdir(tmp_path)
        rng = np.random.default_rng(1)
        scores = (rng.normal(size=200) * 10.0 ** rng.integers(-12, 12, size=200)).tolist()
        rows = [["score"], *([score] for score in scores)]
        scores = read_column(self.sheet(rows), nan=True).tolist()  # as they are without it
        values = read_column(self.sheet([*rows, [last], [7.5]]), nan=True)
        assert values.size == 202
        assert values[:200].tolist() == scores
        assert values[201] == 7.5

    def test_a_file_is_what_it_holds(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        renamed = self.sheet([["a"], [1.5]]).rename("t.csv")
        assert read_table(renamed).numbers(["a"]).tolist() == [[1.5]]
        Path("text.xlsx").write_text("a\n1.5\n")
        with pytest.raises(
            ValueError, match=r"text.xlsx: cannot be read as Excel: it is another kind of file"
        ):
            read_table(Path("text.xlsx"))

    def test_a_row_is_told_as_the_sheet_counts_it(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        path = self.sheet([[], ["a", "b"], [1, 2], [3, None], [4, 5]])
        with pytest.raises(ValueError, match=r"column 'b': NaN or empty in 1 of 3 rows, first in line 4"):
            read_table(path).numbers(["b"])

    def test_labels_that_are_whole_numbers(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        for labels in ([1, 10], [10000000, 1234567890]):
            found = read_table(self.sheet([["a"], *([each] for each in labels)])).labels("a")
            assert found == [str(each) for each in labels]

    def test_empty_sheets_and_files_that_are_none(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ValueError, match=r"t.xlsx: the sheet 'Sheet' is empty"):
            read_table(self.sheet([]))
        Path("junk.xlsx").write_bytes(b"junk")
        with pytest.raises(ValueError, match=r"junk.xlsx: cannot be read as Excel"):
            read_table(Path("junk.xlsx"))

    def test_without_the_extra_one_line_helps(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        path = self.sheet([["a"], [1]])
        monkeypatch.setitem(sys.modules, "fastexcel", None)
        with pytest.raises(ImportError, match=r"pip install 'fedconformal\[excel\]'; or save it as CSV"):
            read_table(path)


class TestThousands:
    """1,200 is never silently something else."""

    @pytest.mark.parametrize(
        "text",
        [
            "score\n1,200\n3,400\n",
            "score\n1,200\n950\n",
            'a,b\n"1,200",1\n"3,400",2\n',
            "a;b\n1,200;1\n3,400;2\n",
            "a;b\n1.200;1\n3.400;2\n",
            "a\tb\n1,200\t1\n",
            "a\tb\n1.200\t1\n",
            "a|b\n1.200|950\n",
            "score\n1.200\n950\n",
        ],
    )
    def test_where_it_is_left_open_it_is_asked(self, file, text):
        path = file(text)
        words = (
            r"column '(a|score)': is 1[.,]200 in line 2 a thousand or more, or .* Write 1200, or say --dec"
        )
        with pytest.raises(ValueError, match=words):
            read_table(path).numbers(read_table(path).columns)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("a;b\n1,200;0.5\n", "got '1,200' in line 2: thousands are written without a separator"),
            ("a;b\n0,5;1.200,5\n", "got '1.200,5' in line 2: thousands"),
            ("a;b\n0,5;1.200\n", "got '1.200' in line 2: thousands"),
            ("a\n0.5\n1 200\n", "got '1 200' in line 3: thousands"),
            ("a\n0.5\n1'200\n", 'got "1\'200" in line 3: thousands'),
            ("a\n0.5\n1\u202f200\n", "in line 3: thousands"),
            ("a\n0.5\n1,234,567\n", "in line 3: thousands"),
            ("a;b\n0.5;2\n0,25;1\n", "got '0,25' in line 3: other numbers have decimal points"),
            ("a;b\n1.234.567;2\n", "got '1.234.567' in line 2: thousands"),
            ("a;b\n1,5;2\n50,5 %;1\n", "got '50,5 %' in line 3$"),
            ("a;b\n(1,5);2\n", r"got '\(1,5\)' in line 2$"),
            ("a\n0.5\n1_000\n", "got '1_000' in line 3"),
        ],
    )
    def test_where_it_is_none_it_is_refused(self, file, text, words):
        table = read_table(file(text))
        with pytest.raises(ValueError, match=words.replace("'", ".")):
            table.numbers(table.columns)

    def test_a_comma_too_many_is_not_a_column(self, file):
        with pytest.raises(ValueError, match=r"line 2 has more than the 2 cells .* thousands separators"):
            read_table(file("id,score\n7,1,200\n8,0,5\n"))

    def test_who_says_what_it_is_is_believed(self, file):
        path = file("a;b\n1,200;1\n3,400;2\n")
        assert read_table(path, dialect=Dialect(decimal=",")).numbers(["a"])[:, 0].tolist() == [1.2, 3.4]
        with pytest.raises(ValueError, match="thousands are written without"):
            read_table(path, dialect=Dialect(decimal=".")).numbers(["a"])

    def test_no_option_is_named_that_there_is_not(self, file):
        none = Dialect(options=())
        for text, words in [
            ("a\n1,200\n", r"a thousand or more, or a number with three decimals\? Write 1200, or 1.2000$"),
            ("a,b\n1,2,3\n", r"cannot be told from those between columns\.$"),
            (b"a\n\x81\n", "is not text in UTF-8, UTF-16 or Latin-1$"),
            (b"\x00\x01\x02", "is not text$"),
            ("a,b\n1,2\n", r"2 columns \(a, b\), and one is needed$"),
        ]:
            with pytest.raises(ValueError, match=words):
                read_column(file(text), dialect=none)

    def test_what_was_said_may_be_wrong(self, file):
        path = file("a;b\n0,5;1\n")
        with pytest.raises(ValueError, match=r"got '0,5' in line 2: say --decimal ,, or nothing"):
            read_table(path, dialect=Dialect(decimal=".")).numbers(["a"])

    def test_the_minus_of_typographers(self, file):
        assert said(file("a;b\n\u22121,5;\u22122\n"))[0].tolist() == [[-1.5, -2.0]]

    def test_another_column_may_settle_it(self, file):
        assert read_table(file("a;b\n1,200;0,5\n")).numbers(["a"])[:, 0].tolist() == [1.2]


class TestLines:
    def test_are_those_of_the_file(self, file):
        for text, line in [
            ("a\n1\nx\n", 3),
            ("1.5\nx\n", 2),
            ("sep=;\na;b\n1;2\nx;3\n", 4),
            ('a,b\n"two\nlines",1\nx,x\n', 4),
            ('"a\nb",c\n1,2\nx,3\n', 4),
            ("a\r1\rx\r", 3),
        ]:
            path = file(text)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                table = read_table(path)
                with pytest.raises(ValueError, match=f"got 'x' in line {line}"):
                    table.numbers([table.columns[-1]] if "two" in text else [table.columns[0]])

    def test_empty_cells_and_labels(self, file):
        table = read_table(file("a,b\n1,x\n\n2, \n3,z\n,\n,\n"))
        assert table.height == 4
        with pytest.raises(ValueError, match=r"column 'a': NaN or empty in 1 of 4 rows, first in line 3"):
            table.numbers(["a"])
        with pytest.raises(ValueError, match=r"column 'b': empty in 2 of 4 rows, first in line 3"):
            table.labels("b")


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("a, a\n1,2\n", "two columns are called 'a'"),
            ("\na\n1\n", "the first line is empty"),
            (b"a\n\x81\n", "is not text in UTF-8, UTF-16 or Latin-1: say which with --encoding"),
            (b"\x00\x01\x02\x03", "is not text"),
            ('{"format": "fedconformal/plan", "x": 1}', "this is a plan, not a table"),
            (
                'a,b\n1,2\n1,"2\n3,4\n',
                "cannot be read as CSV: a quotation mark is not closed; look at line 3$",
            ),
        ],
    )
    def test_get_one_line(self, file, text, words):
        with pytest.raises(ValueError, match=words):
            read_table(file(text))

    def test_a_document_with_its_own_name(self, file):
        with pytest.raises(ValueError, match=r"^plan.json: this is a plan, not a table$"):
            read_table(file('{\n  "format": "fedconformal/plan"}', name="plan.json"))

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"separator": "::"}, "separator must be one character, or tab or space, got '::'"),
            ({"decimal": "'"}, "decimal must be a point or a comma"),
            ({"encoding": "utf-7000"}, "encoding must be one that Python knows"),
            ({"decimal": ",", "separator": ","}, "separator and decimal must differ"),
        ],
    )
    def test_dialects_that_cannot_be(self, options, words):
        with pytest.raises(ValueError, match=words):
            Dialect(**options)

    def test_an_encoding_that_it_is_not(self, file):
        with pytest.raises(ValueError, match=r"t.csv: is not text in utf-8, first in line 2"):
            read_table(file(b"a\n\xff\n"), dialect=Dialect(encoding="utf-8"))


class TestPrivate:
    """Of private scores no case decides how the file is read, and no cell is refused."""

    @pytest.mark.parametrize("cell", ["x", "1,2,3", "0,5"])
    def test_the_last_case_counts_too(self, file, cell):
        values = read_column(file(f"score\n0.5\n{cell}\n"), nan=True)
        assert values.size == 2
        assert np.isnan(values[1])

    @pytest.mark.parametrize("last", ["x", "0,5", "1,2,3", "", "\xff", '"', "1.200", "nan"])
    def test_one_case_changes_one_case(self, file, last):
        data = b"score\n" + b"0.5\n" * 9 + last.encode("latin-1") + b"\n7.5\n"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            values = read_column(file(data), nan=True)
        assert [str(each.message) for each in caught] == [
            "t.csv: read with decimal points (for commas say --decimal ,)"
        ]
        if last != '"':
            assert values.size == 11
            assert values[10] == 7.5
        assert values[:9].tolist() == [0.5] * 9
        assert np.isnan(values[9]) or values[9] == 1.2

    def test_the_decimal_sign_is_asked_for(self, file):
        for separator in ";\t|":
            path = file("id;score\n1;0,5\n2;0,25\n".replace(";", separator))
            with pytest.raises(ValueError, match=r"no case may decide which: say --decimal , or --decimal ."):
                read_column(path, "score", nan=True)
            found = read_column(path, "score", nan=True, dialect=Dialect(decimal=","))
            assert found.tolist() == [0.5, 0.25]


class TestStandardInput:
    def given(self, monkeypatch, data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    def test_csv_parquet_and_npy(self, monkeypatch):
        parquet, npy = io.BytesIO(), io.BytesIO()
        pl.DataFrame({"a": TRUTH}).write_parquet(parquet)
        np.save(npy, TRUTH)
        csv = "a\n" + "\n".join(map(repr, TRUTH))
        for data in (csv.encode(), csv.encode("utf-16"), parquet.getvalue(), npy.getvalue()):
            self.given(monkeypatch, data)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert read_column(Path("-")).tolist() == TRUTH

    def test_nothing(self, monkeypatch):
        self.given(monkeypatch, b"")
        with pytest.raises(ValueError, match=r"^standard input: is empty; - can stand for one file only$"):
            read_column(Path("-"))
