"""Tests of knowledge bases: the durable store and their maintenance."""
