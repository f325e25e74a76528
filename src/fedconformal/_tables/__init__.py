"""Tables of people: CSV in any dialect, Excel, Parquet or .npy, by column."""

from fedconformal._tables._dialect import Dialect
from fedconformal._tables._read import SUFFIXES, read_column, read_table
from fedconformal._tables._table import Table

__all__ = ["SUFFIXES", "Dialect", "Table", "read_column", "read_table"]
