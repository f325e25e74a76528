"""Every way in which people's programs write a table is read into the same numbers, or
refused.
"""

import io
import os
import re
import sys
import warnings
import zipfile
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedconformal._tables import Dialect, read_column, read_table
from fedconformal._tables._formulas import find_uncomputed

TRUTH = [1.5, -0.25, 1234.5, 0.0]
GUESS = [1.25, 0.5, 1e-7, 12.0]
NAMES = ("Größe", "prediction")
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t"}


def written(separator, decimal, *, quoted=False, stray=False, end="\n"):
    """A table as some program would write it."""

    def cell(value):
        text = repr(value).replace(".", decimal)
        return f'"{text}"' if quoted or separator in text else text

    heads = [
        f" {name} " if stray else f'"{name}"' if quoted else name for name in NAMES
    ]
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


@pytest.fixture
def sheet(tmp_path, monkeypatch):
    """Write a workbook; returns its path."""
    openpyxl = pytest.importorskip("openpyxl")
    monkeypatch.chdir(tmp_path)

    def sheet(rows, *, more=()):
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        for title in more:
            book.create_sheet(title).append([1])
        book.save("t.xlsx")
        return Path("t.xlsx")

    return sheet


def said(path, columns=None, **options):
    """The numbers, and what was said about the file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = read_table(path, **options)
        found = table.numbers(columns or table.columns)
    return found, " ".join(str(each.message) for each in caught)


def private(path, column=None, **dialect):
    """The scores of a private answer, and what was said about the file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = read_column(path, column, nan=True, dialect=Dialect(**dialect))
    return found, " ".join(str(each.message) for each in caught)


class TestDialects:
    @pytest.mark.parametrize("decimal", [".", ","])
    @pytest.mark.parametrize("separator", SEPARATORS.values(), ids=SEPARATORS)
    @pytest.mark.parametrize("quoted", [False, True])
    def test_separators_and_decimal_signs(self, file, separator, decimal, quoted):
        values, _ = said(file(written(separator, decimal, quoted=quoted)), NAMES)
        assert np.array_equal(values, np.transpose([TRUTH, GUESS]))

    @pytest.mark.parametrize(
        "style", [{"stray": True}, {"end": "\r\n"}, {"end": "\r"}], ids=str
    )
    def test_spaces_around_names_and_line_ends(self, file, style):
        values, _ = said(file(written(";", ",", **style)), NAMES)
        assert np.array_equal(values, np.transpose([TRUTH, GUESS]))

    @pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "latin-1"])
    def test_encodings(self, file, encoding):
        values, _ = said(file(written(";", ","), encoding), NAMES)
        assert np.array_equal(values, np.transpose([TRUTH, GUESS]))

    def test_what_was_found_out_is_said_in_one_line(self, file):
        assert (
            said(file(written(";", ","), "utf-16"))[1]
            == "t.csv: read in UTF-16, with ; between columns and with decimal commas"
        )
        assert (
            said(file(written("\t", "."), "latin-1"))[1]
            == "t.csv: read in Latin-1 and with tabs between columns"
        )

    def test_nothing_is_said_of_what_is_usual_or_given(self, file):
        assert said(file(written(",", "."), "utf-8-sig"))[1] == ""
        assert said(file(written("\t", "."), name="t.tsv"))[1] == ""
        for text, encoding in (
            (written(";", ","), "utf-16-le"),
            (written(";", ","), "utf-8-sig"),
        ):
            dialect = Dialect("semicolon", "comma", encoding.removesuffix("-sig"))
            values, words = said(file(text, encoding), NAMES, dialect=dialect)
            assert words == ""
            assert np.array_equal(values, np.transpose([TRUTH, GUESS]))

    def test_another_separator_is_said_or_announced(self, file):
        text = written("|", ".")
        assert said(file(text), dialect=Dialect("|"))[0].shape == (4, 2)
        assert said(file(f"sep=|\n{text}"))[0].shape == (4, 2)
        with pytest.raises(ValueError, match="separator must be one character"):
            read_table(file(f'sep="\n{text}'))

    @pytest.mark.parametrize("announced", ["\n", "\r", "\r\n"])
    @pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
    def test_the_line_that_announces_it_has_any_line_end(self, file, announced, end):
        lines = ["a;b", "1;2", "3;4", ""]
        path = file(f"sep=;{announced}{end.join(lines)}".encode())
        values, _ = said(path)
        assert values.tolist() == [[1, 2], [3, 4]]
        if announced == end != "\r" or (announced, end) == ("\n", "\r\n"):
            assert private(path, "b", decimal=".")[0].tolist() == [2, 4]
        else:
            with pytest.raises(ValueError, match=r"a private answer the (first )?line"):
                private(path, "b", decimal=".")

    def test_the_minus_of_typographers(self, file):
        assert said(file("a;b\n\u22121,5;\u22122\n"))[0].tolist() == [[-1.5, -2.0]]

    def test_a_separator_in_quotes_separates_nothing(self, file):
        table = read_table(file('"a;b",c\n1,"x, ""y"""\n'))
        assert table.columns == ["a;b", "c"]
        assert table.labels("c") == ['x, "y"']

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (
                {"separator": "::"},
                "separator must be one character, or tab or space, got '::'",
            ),
            ({"decimal": "'"}, "decimal must be a point or a comma"),
            ({"encoding": "utf-7000"}, "encoding must be one that Python knows"),
            ({"decimal": ",", "separator": ","}, "separator and decimal must differ"),
        ],
    )
    def test_dialects_that_cannot_be(self, options, words):
        with pytest.raises(ValueError, match=words):
            Dialect(**options)


class TestNoRowVanishes:
    """Nothing but what follows the last line end is dropped: scores that failed are
    often sorted last.
    """

    @pytest.mark.parametrize("last", ["", "   ", '""', "NA", "#N/A"])
    def test_a_last_line_without_a_number_is_a_case(self, file, last):
        path = file("score\n" + "0.5\n" * 499 + f"{last}\n")
        with pytest.raises(ValueError, match=r"in (1 of 500 rows, first in )?line 501"):
            read_column(path)
        scores, _ = private(path)
        assert scores.size == 500
        assert np.isnan(scores).tolist() == [False] * 499 + [True]

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    def test_the_last_line_may_end_or_not(self, file, end):
        for lines in (["score", "1", "2"], ["score", "1", "2", ""]):
            assert read_column(file(end.join(lines).encode())).tolist() == [1, 2]

    @pytest.mark.parametrize("columns", [1, 2])
    def test_formulas_that_nobody_computed_are_refused(self, sheet, columns):
        """At the end of a sheet these would end it earlier."""
        rows = [[0.5, 1][:columns]] * 100
        rows += [[f"=A{row}*2", f"=B{row}"][:columns] for row in range(2, 7)]
        path = sheet([["score", "id"][:columns], *rows])
        with pytest.raises(
            ValueError,
            match=r"t.xlsx: the formula in cell A102 has no stored value: open",
        ):
            read_column(path, "score")

    @pytest.mark.parametrize(
        ("cell", "calculation", "is_read"),
        [
            ("<f>1/2</f><v>0.5</v>", "<calcPr/>", True),
            ("<x:f xmlns:x='{0}'>1/2</x:f><v>0.5</v>", "<calcPr/>", True),
            ("<f>1/2</f><v>0.0</v>", "<calcPr fullCalcOnLoad='1'/>", False),
            ("<f>1/2</f><v></v>", "<calcPr/>", False),
            ("<f>1/2</f>", "<calcPr/>", False),
            ("<f t='shared' si='0'/>", "<calcPr/>", False),
            ("<f t='shared' si='0'/><v>0.5</v>", "<calcPr/>", True),
            ("<f>1/2</f>\n<v>0.5</v>", "<calcPr/>", True),
            ("<x:f xmlns:x='{0}'>1/2</x:f>", "<calcPr/>", False),
        ],
    )
    def test_values_of_formulas_are_read_if_they_are_stored(
        self, sheet, cell, calculation, is_read
    ):
        """A program that asks for all of them to be computed again stores zeros."""
        path = sheet([["score"], [0.25], [0.125]], more=["Notes"])
        space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
        with zipfile.ZipFile(path) as book:
            parts = {name: book.read(name).decode() for name in book.namelist()}
        first = "xl/worksheets/sheet1.xml"
        parts[first] = parts[first].replace("<v>0.125</v>", cell.format(space))
        parts["xl/workbook.xml"] = re.sub(
            "<calcPr[^>]*>", calculation, parts["xl/workbook.xml"]
        )
        with zipfile.ZipFile(path, "w") as book:
            for name, content in parts.items():
                book.writestr(name, content)
        if is_read:
            assert read_column(path).tolist() == [0.25, 0.5]
            return
        with pytest.raises(ValueError, match="the formula in cell A3 has no stored"):
            read_column(path)

    def test_a_text_that_a_formula_made_may_be_empty(self, sheet):
        path = sheet([["score", "note"], [0.25, "x"], [0.5, "y"]])
        with zipfile.ZipFile(path) as book:
            parts = {name: book.read(name) for name in book.namelist()}
        first = "xl/worksheets/sheet1.xml"
        cell = b'<c r="B3" t="str"><f>""</f><v></v></c>'
        parts[first] = re.sub(rb'<c r="B3".*?</c>', cell, parts[first])
        parts["xl/workbook.xml"] = re.sub(
            b"<calcPr[^>]*>", b"", parts["xl/workbook.xml"]
        )
        with zipfile.ZipFile(path, "w") as book:
            for name, content in parts.items():
                book.writestr(name, content)
        assert read_column(path, "score").tolist() == [0.25, 0.5]

    @pytest.mark.parametrize("size", [0, 500, 999, 1000, 1100, 2**20])
    def test_a_bare_formula_is_found_wherever_it_lies(self, tmp_path, size):
        """Also where it is read in two parts."""
        bare = "<c r='A{0}'><f>1</f></c>"
        fine = "<c r='A1'><f>1</f><v>1</v></c>"
        for before in (2**20 - size - 12, 2**20 - size):
            cells = fine + " " * (before - len(fine)) + bare.format(7) + fine * 50
            with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as book:
                book.writestr("xl/worksheets/sheet1.xml", f"<s>{cells}</s>")
            assert find_uncomputed(tmp_path / "t.xlsx") == "A7"

    def test_formulas_of_other_sheets_do_not_matter(self, sheet):
        import openpyxl

        path = sheet([["score"], [0.25]], more=["Notes"])
        book = openpyxl.load_workbook(path)
        book["Notes"].append(["=A1"])
        book.save(path)
        assert read_column(path).tolist() == [0.25]

    @pytest.mark.parametrize("columns", [1, 2])
    def test_errors_at_the_end_of_a_sheet_are_cases(self, sheet, columns):
        rows = [[0.5, "x"][:columns]] * 450 + [["#N/A", "x"][:columns]] * 50
        path = sheet([["score", "id"][:columns], *rows])
        with pytest.raises(
            ValueError, match=r"NaN or empty in 50 of 500 rows, first in line 452"
        ):
            read_column(path, "score")

    def test_so_are_rows_of_a_sheet_that_hold_anything_in_another_column(self, sheet):
        path = sheet([["score", "id"], [0.5, 1], [None, None], [None, 3], [None, " "]])
        with pytest.raises(
            ValueError,
            match=r"column 'score': NaN or empty in 3 of 4 rows, first in line 3",
        ):
            read_column(path, "score")

    def test_a_file_without_names_is_read_whole(self, file):
        values, words = said(file("0.5\n0.25\n1.5\n"))
        assert values.size == 3
        assert (
            words
            == "t.csv: read without a line of names, so that its first line is the"
            " first row"
        )

    def test_nor_do_empty_cells_of_all_columns(self, file):
        path = file("a,b\n1,x\n\n2,y\n,\n,\n")
        assert read_table(path).height == 5
        with pytest.raises(
            ValueError,
            match=r"column 'a': NaN or empty in 3 of 5 rows, first in line 3",
        ):
            read_table(path).numbers(["a"])
        with pytest.raises(
            ValueError, match=r"column 'b': empty in 3 of 5 rows, first in line 3"
        ):
            read_table(path).labels("b")


class TestQuotes:
    """A record is a physical line, and a quotation mark that is not closed spoils no
    other.
    """

    @pytest.mark.parametrize(
        "cell", ['"1', '1"', 'a"b', '"a"b', '"a\\"b"', '"""', ' "1"']
    )
    def test_a_broken_cell_is_refused_with_its_line_or_is_nan_in_private(
        self, file, cell
    ):
        for head, row in (("score", cell), ("id,score", f"{cell},0.5")):
            good = "0.5" if head == "score" else '"x",0.5'
            path = file("\n".join([head, *[good] * 9, row, *[good] * 90, ""]))
            with pytest.raises(
                ValueError,
                match=r"t.csv: a quotation mark is not closed or not doubled .* 11$",
            ):
                read_column(path, "score")
            scores, _ = private(path, "score")
            assert np.isnan(scores).tolist() == [i == 9 for i in range(100)]

    def test_in_the_line_of_names_it_is_refused(self, file):
        for read in (read_column, private):
            with pytest.raises(ValueError, match="not closed or not doubled in line 1"):
                read(file('"score\n0.5\n'))


class TestDecimalSigns:
    """1,200 is never silently something else."""

    @pytest.mark.parametrize(
        "text",
        [
            "a\n1,200\n950\n",
            "a\n1.200\n950\n",
            'a,b\n"1,200",1\n"3,400",2\n',
            "a;b\n1,200;1\n3,400;0,5\n",
            "a\tb\n1.200\t1\n",
        ],
    )
    def test_where_it_is_left_open_it_is_asked(self, file, text):
        words = (
            r"column 'a': 1[.,]200 in line 2 may be a thousand .* give --decimal . or"
            r" --decimal ,$"
        )
        with pytest.raises(ValueError, match=words):
            read_table(file(text)).numbers(["a"])

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (
                "a;b\n1,200;0.5\n",
                "got '1,200' in line 2: numbers here have decimal points",
            ),
            (
                "a;b\n0,5;1.200\n",
                "got '1.200' in line 2: numbers here have decimal commas",
            ),
            (
                "a;b\n0,5;1.200,5\n",
                "got '1.200,5' in line 2: numbers here have decimal commas",
            ),
            ("a\n0.5\n1 200\n", "got '1 200' in line 3$"),
            ("a\n0.5\n1'200\n", 'got "1\'200" in line 3$'),
            ("a\n0.5\n1_000\n", "got '1_000' in line 3$"),
            (
                "a;b\n0.5;2\n0,25;1\n",
                "got '0,25' in line 3: numbers here have decimal points",
            ),
            ("a;b\n1.234.567;2\n", "got '1.234.567' in line 2"),
            ("a;b\n1,5;2\n50,5 %;1\n", "got '50,5 %' in line 3"),
        ],
    )
    def test_what_is_no_number_is_refused(self, file, text, words):
        table = read_table(file(text))
        with pytest.raises(ValueError, match=words.replace("'", ".")):
            table.numbers(table.columns)

    def test_a_cell_that_can_be_read_in_one_way_decides_for_its_column(self, file):
        for text in (
            "a;b\n1,200;0\n0,5;1\n",
            "a;b\n1.200;0\n0.5;1\n",
            "a,b\n1.200,1\n0.5,2\n",
        ):
            assert said(file(text), ["a"])[0][:, 0].tolist() == [1.2, 0.5]

    def test_who_says_what_it_is_is_believed(self, file):
        path = file("a;b\n1,200;1\n3,400;2\n")
        assert read_table(path, dialect=Dialect(decimal=",")).numbers(["a"])[
            :, 0
        ].tolist() == [1.2, 3.4]
        with pytest.raises(
            ValueError, match="got '1,200' in line 2: numbers here have decimal points"
        ):
            read_table(path, dialect=Dialect(decimal=".")).numbers(["a"])

    def test_a_comma_too_many_is_not_a_column(self, file):
        with pytest.raises(
            ValueError,
            match=r"line 2 has more than the 2 cells .* thousands separators",
        ):
            read_table(file("id,score\n7,1,200\n8,0,5\n"))

    def test_no_option_is_named_that_there_is_not(self, file):
        none = Dialect(has_options=False)
        for text, words in [
            (
                "a\n1,200\n",
                r"three decimals: write it without a separator of thousands, or with",
            ),
            ("a,b\n1,2,3\n", r"cannot be distinguished from those between columns\.$"),
            (b"a\n\x81\n", "has no byte-order mark$"),
            ("a,b\n1,2\n", r"2 columns \(a, b\), and one is needed$"),
        ]:
            with pytest.raises(ValueError, match=words):
                read_column(file(text), dialect=none)


class TestExcel:
    def test_the_first_sheet(self, sheet):
        path = sheet(
            [[], [" Größe ", "prediction"], *zip(TRUTH, GUESS, strict=True)],
            more=["Notes"],
        )
        values, words = said(path)
        assert np.array_equal(values, np.transpose([TRUTH, GUESS]))
        assert words == "t.xlsx, sheet 'Sheet': read from the first of 2 sheets"
        with pytest.raises(
            ValueError,
            match=r"sheet 'Sheet': no column 'x'; there are Größe, prediction",
        ):
            read_table(path).numbers(["x"])

    @pytest.mark.parametrize(
        ("cells", "words"),
        [
            (["1.234", "5.678"], r"1.234 in line 3 may be a thousand or more"),
            ([1.5, "n/a"], r"got 'n/a' in line 4$"),
            ([2.5, "1,5"], r"got '1,5' in line 4: numbers here have decimal points"),
            (
                [datetime(2024, 1, 2)],
                r"must hold numbers, got '2024-01-02 00:00:00' in line 3",
            ),
            ([1, None, 3], r"NaN or empty in 1 of 3 rows, first in line 4"),
        ],
    )
    def test_a_row_is_named_as_the_sheet_counts_it(self, sheet, cells, words):
        path = sheet([[], ["a", "b"], *([cell, 1] for cell in cells)])
        with pytest.raises(ValueError, match=words):
            said(path, ["a"])

    def test_for_private_answers_it_is_not_read(self, sheet):
        """A sheet ends with the last row that holds anything: a blank last case would
        change the number.
        """
        for last in (0.5, None):
            with pytest.raises(
                ValueError, match=r"Excel is not read, .* save it as CSV"
            ):
                private(sheet([["score"], [0.25], [last]]))

    @pytest.mark.parametrize("content", ["far", "strings"])
    def test_a_sheet_that_grows_is_refused(self, sheet, content):
        import openpyxl

        book = openpyxl.load_workbook(sheet([["score"], [0.5]]))
        if content == "far":
            book.active["XFD1048576"] = 1
        else:
            text = "x" * 32_000
            for row in range(2, 15_000):
                book.active.cell(row, 1, text)
        book.save("t.xlsx")
        with pytest.raises(
            ValueError,
            match=r"t.xlsx: cannot be read as Excel: it takes more than \d+ s or",
        ):
            read_column(Path("t.xlsx"))

    def test_a_file_is_what_it_holds(self, sheet):
        renamed = sheet([["a"], [1.5]]).rename("t.csv")
        assert read_table(renamed).numbers(["a"]).tolist() == [[1.5]]
        Path("text.xlsx").write_text("a\n1.5\n")
        with pytest.raises(
            ValueError, match=r"text.xlsx: cannot be read as Excel: it is another kind"
        ):
            read_table(Path("text.xlsx"))
        Path("junk.xlsx").write_bytes(b"PK\x03\x04junk")
        with pytest.raises(ValueError, match=r"junk.xlsx: cannot be read as Excel: "):
            read_table(Path("junk.xlsx"))
        with pytest.raises(ValueError, match=r"t.xlsx: the sheet 'Sheet' is empty"):
            read_table(sheet([]))

    def test_labels_that_are_whole_numbers(self, sheet):
        for labels in ([1, 10], [10000000, 1234567890]):
            assert read_table(sheet([["a"], *([each] for each in labels)])).labels(
                "a"
            ) == [str(each) for each in labels]

    def test_a_time_of_day_among_numbers_is_refused(self, sheet):
        with pytest.raises(
            ValueError, match=r"column 'score' must hold numbers, got .* in line 3"
        ):
            read_column(sheet([["score"], [0.5], [timedelta(hours=3)], [0.25]]))

    def test_without_the_extra_one_line_helps(self, sheet, monkeypatch):
        path = sheet([["a"], [1]])
        monkeypatch.setitem(sys.modules, "fastexcel", None)
        with pytest.raises(
            ImportError, match=r"pip install '\.\[excel\]' in .*; or save it as CSV"
        ):
            read_table(path)

    def test_without_names_no_row_is_lost(self, sheet):
        values, words = said(sheet([[1.5, 2.5], [3, 4]]))
        assert values.tolist() == [[1.5, 2.5], [3, 4]]
        assert words.startswith("t.xlsx: read without a line of names")
        with pytest.raises(
            ValueError, match="does the first line hold names or numbers"
        ):
            read_table(sheet([[2023, 2024], [3.5, 4.5]]))


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("a, a\n1,2\n", "two columns are called 'a'"),
            ("\na\n1\n", "the first line is empty"),
            ("score\n", "no rows in it"),
            (
                b"a\n\x81\n",
                (
                    "not text in UTF-8 or Latin-1, and has no byte-order mark: give it"
                    " with --encoding"
                ),
            ),
            (b"\x00\x01\x02\x03", "is not text"),
            (
                "a\n1\n".encode("utf-16-le"),
                "has no byte-order mark: give it with --encoding",
            ),
            ('{"format": "fedconformal/plan", "x": 1}', "this is a plan, not a table"),
            ("2024\n0.25\n", "does the first line hold names or numbers"),
            ('"7"\n1\n', "does the first line hold names or numbers"),
        ],
    )
    def test_get_one_line(self, file, text, words):
        with pytest.raises(ValueError, match=words):
            read_table(file(text))

    def test_an_encoding_that_it_is_not(self, file):
        with pytest.raises(
            ValueError, match=r"t.csv: is not text in utf-8, first in line 2"
        ):
            read_table(file(b"a\n\xff\n"), dialect=Dialect(encoding="utf-8"))

    @pytest.mark.parametrize(
        ("text", "line"),
        [("a\n1\nx\n", 3), ("1.5\nx\n", 2), ("sep=;\na;b\n1;2\nx;3\n", 4)],
    )
    def test_lines_are_those_of_the_file(self, file, text, line):
        with pytest.raises(ValueError, match=f"got 'x' in line {line}"):
            said(file(text))

    def test_a_document_with_its_own_name(self, file):
        with pytest.raises(
            ValueError, match=r"^plan.json: this is a plan, not a table$"
        ):
            read_table(file('{\n  "format": "fedconformal/plan"}', name="plan.json"))


LINES = st.text(
    st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12
)
CELLS = st.lists(
    st.sampled_from(["0.5", "0,25", "1.200", "", '"', '"x"', ",", ";", "\t", "NA"]),
    max_size=4,
)


class TestPrivate:
    """Of private scores no case decides how the file is read, and no cell is
    refused.
    """

    @settings(max_examples=30, deadline=None)
    @given(
        head=st.sampled_from(
            ["score", "id,score", '"id",score,', "score\tid", "sep=;\nid;score"]
        ),
        rows=st.lists(
            LINES | CELLS.map("".join) | CELLS.map(",".join), min_size=2, max_size=6
        ),
        replaced=st.data(),
        encoding=st.sampled_from(["utf-8", "utf-8-sig", "cp1252"]),
        end=st.sampled_from(["\n", "\r\n"]),
    )
    def test_another_line_changes_one_score_at_most(
        self, tmp_path_factory, head, rows, replaced, encoding, end
    ):
        """Whatever text stands in a line: as many scores as lines, and all others as
        they were.
        """
        path = tmp_path_factory.getbasetemp() / "lines.csv"

        def scores(rows):
            text = end.join([*head.split("\n"), *rows, ""])
            path.write_bytes(text.encode(encoding, "replace"))
            return private(path, "score", decimal=".")

        before, words = scores(rows)
        place = replaced.draw(st.integers(0, len(rows) - 1))
        after, same_words = scores(
            [
                *rows[:place],
                replaced.draw(LINES | CELLS.map("".join)),
                *rows[place + 1 :],
            ]
        )
        assert words == same_words
        assert before.size == after.size == len(rows)
        assert np.array_equal(
            np.delete(before, place), np.delete(after, place), equal_nan=True
        )

    def test_bytes_that_are_no_text_spoil_their_own_line_alone(self, file):
        scores, _ = private(file(b"score\n0.5\n\xff\xe2\n7.5\n"))
        assert np.array_equal(scores, [0.5, np.nan, 7.5], equal_nan=True)

    def test_a_line_with_too_many_cells_has_none(self, file):
        scores, _ = private(file("id,score\n1,0.5\n2,0.25,7\n3,1.5\n"), "score")
        assert np.array_equal(scores, [0.5, np.nan, 1.5], equal_nan=True)

    def test_the_decimal_sign_is_asked_for_or_said(self, file):
        for separator in ";\t":
            path = file("id;score\n1;0,5\n2;0,25\n".replace(";", separator))
            with pytest.raises(
                ValueError, match="no case may decide which: give --decimal , or"
            ):
                private(path, "score")
            assert private(path, "score", decimal=",")[0].tolist() == [0.5, 0.25]
        words = "t.csv: read with decimal points (for commas give --decimal ,)"
        assert private(file("score\n0,5\n0.5\n"))[1] == words

    @pytest.mark.parametrize("last", ["1", "0.5", ""])
    def test_the_first_line_must_hold_names(self, file, last):
        with pytest.raises(
            ValueError, match="for a private answer the first line must hold names"
        ):
            private(file(f"1\n2\n{last}\n"))

    @pytest.mark.parametrize("record", ["1", "", "x\ny"])
    def test_line_ends_and_encodings_that_a_record_could_change_are_refused(
        self, file, record
    ):
        text = f"score\r0.5\r{record}\r"
        with pytest.raises(
            ValueError, match=r"must end with a line feed, got .* old Macs"
        ):
            private(file(text.encode()))
        with pytest.raises(ValueError, match=r"must be in UTF-8, or .* got utf-16"):
            private(file(f"score\n0.5\n{record}\n", "utf-16"))
        with pytest.raises(ValueError, match=r"got utf-7"):
            private(file(b"score\n0.5\n"), encoding="utf-7")

    @pytest.mark.parametrize("last", [b"", b"7", b'"', b"\xff", b"\x1a"])
    def test_what_follows_the_last_line_end_is_no_record(self, file, last):
        scores, words = private(file(b"score\r\n0.5\r\n\n\r\n1\n2\r\n" + last))
        assert np.array_equal(scores, [0.5, np.nan, np.nan], equal_nan=True)
        assert ("the last line was not read" in words) == bool(last)

    def test_text_in_an_array_is_missing(self, tmp_path):
        np.save(tmp_path / "t.npy", np.array([0.1, "x", 1e-300]))
        scores, _ = private(tmp_path / "t.npy")
        assert np.array_equal(scores, [0.1, np.nan, 1e-300], equal_nan=True)

    @pytest.mark.parametrize(
        "text", ["0.5", pytest.param("x" * 400_000_000, marks=pytest.mark.nightly)]
    )
    def test_parquet_has_columns_of_numbers_alone(self, tmp_path, text):
        """A text of any length would decide whether the file can be read."""
        path = tmp_path / "t.parquet"
        pl.DataFrame({"truth": [1.0, None], "prediction": [2.0, 3.0]}).write_parquet(
            path
        )
        assert read_table(path, private=True).height == 2
        pl.DataFrame({"truth": [1.0], "note": [text]}).write_parquet(path)
        with pytest.raises(
            ValueError, match=r"t.parquet: column 'note' must hold numbers, got String"
        ):
            read_table(path, private=True)


class TestStandardInput:
    def test_csv_parquet_and_npy(self, monkeypatch):
        parquet, npy = io.BytesIO(), io.BytesIO()
        pl.DataFrame({"a": TRUTH}).write_parquet(parquet)
        np.save(npy, TRUTH)
        csv = "a\n" + "\n".join(map(repr, TRUTH))
        for data in (
            csv.encode(),
            csv.encode("utf-16"),
            parquet.getvalue(),
            npy.getvalue(),
        ):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert read_column(Path("-")).tolist() == TRUTH


class TestHostileFiles:
    """A file is read or refused; none hangs, ends the process or takes more than its
    size explains.
    """

    def test_only_regular_files_are_opened(self, tmp_path):
        if hasattr(os, "mkfifo"):
            os.mkfifo(tmp_path / "pipe.csv")
            (tmp_path / "zero.csv").symlink_to("/dev/zero")
            for name in ("pipe.csv", "zero.csv"):
                with pytest.raises(ValueError, match="is not a regular file"):
                    read_column(tmp_path / name)
        (tmp_path / "loop.csv").symlink_to("loop.csv")
        with pytest.raises(ValueError, match="no such file"):
            read_column(tmp_path / "loop.csv")

    def test_columns_are_limited(self, file):
        wide = ",".join(f"c{i}" for i in range(25_001)) + "\n"
        with pytest.raises(
            ValueError, match="must have at most 25000 columns, got 25001"
        ):
            read_table(file(wide))
        np.save("t.npy", np.zeros((2, 25_001)))
        with pytest.raises(ValueError, match="at most 25000 columns"):
            read_table(Path("t.npy"))

    def test_lines_without_cells_are_limited(self, file):
        with pytest.raises(ValueError, match="far fewer than the 20000 cells"):
            read_table(file(",".join(f"c{i}" for i in range(20_000)) + "\n" * 100_000))

    def test_an_array_that_claims_to_be_larger_than_its_file(self, file):
        for shape in (
            "(10000000000,)",
            "(1099511627776, 1024)",
            "(-1,)",
            "(" * 3000 + "1" + ")" * 3000,
        ):
            fields = f"'descr': '<f8', 'fortran_order': False, 'shape': {shape}, "
            header = f"{{{fields}}}".encode()
            data = (
                b"\x93NUMPY\x01\x00"
                + len(header).to_bytes(2, "little")
                + header
                + b"\0" * 64
            )
            with pytest.raises(ValueError, match=r"t.npy: cannot be read as .npy"):
                read_column(file(data, name="t.npy"))

    def test_parquet_that_grows(self, tmp_path):
        path = tmp_path / "t.parquet"
        grown = pl.DataFrame({"a": ["x" * 400_000_000]})
        grown.write_parquet(path, statistics=False)  # some versions copy the cell there
        assert path.stat().st_size < 100_000
        with pytest.raises(
            ValueError, match="cannot be read as Parquet: it takes more than"
        ):
            read_table(path)

    def test_parquet_with_flipped_bytes(self, tmp_path):
        path, rng = tmp_path / "t.parquet", np.random.default_rng(0)
        pl.DataFrame({"a": rng.random(50)}).write_parquet(path)
        original = path.read_bytes()
        for _ in range(5):
            data = bytearray(original)
            for place in rng.integers(4, len(data) - 8, size=3):
                data[place] = rng.choice([0, 127, 255])
            path.write_bytes(data)
            with suppress(ValueError):
                assert read_column(path, nan=True).size < 10**6

    @pytest.mark.parametrize("cell", [timedelta(hours=3), [1, 2], b"\xff", {"a": 1}])
    def test_cells_that_are_no_labels(self, tmp_path, cell):
        pl.DataFrame({"a": [cell]}).write_parquet(tmp_path / "t.parquet")
        table = read_table(tmp_path / "t.parquet")
        for read in (table.labels, table.labels_or_none):
            with pytest.raises(
                ValueError, match="column 'a' must hold text or whole numbers"
            ):
                read("a")


def test_no_record_decides_whether_a_wide_private_file_is_read(tmp_path):
    """Most of its cells are missing; a file for another answer with so few is
    refused.
    """
    names = ",".join(f"c{i}" for i in range(2001))
    for record in ("1", "1" * 200_000):
        path = tmp_path / f"{len(record)}.csv"
        path.write_text("\n".join([names, *["1"] * 2599, record, ""]))
        assert read_column(path, "c0", nan=True).size == 2600


def test_a_wide_first_line_with_a_name_twice_is_refused_at_once(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(",".join([*(f"c{i}" for i in range(20_000)), "c19999"]) + "\n1\n")
    with pytest.raises(ValueError, match="two columns are called 'c19999'"):
        read_column(path, "c0")
