"""The one table of diagnostic codes of SPARQL. A code never changes its meaning."""

from __future__ import annotations

SYNTAX = "S0001"
CHARACTER = "S0002"
NESTED = "S0003"
PREFIX = "S0101"
IRI = "S0102"
FUNCTION = "S0103"
SCOPE = "S0104"
UNSUPPORTED = "S0201"
