"""Tables of people: CSV, Excel, Parquet or .npy, by column."""

from fedconformal._tables._read import SUFFIXES, read_column, read_table
from fedconformal._tables._table import Dialect, SeveralColumnsError, Table
