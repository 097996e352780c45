"""Other engines on the same program and fact files, each as a process of its own.

A peer module is run as ``python -m bench.peers.NAME PROGRAM -F FACTS -j THREADS`` and prints one JSON
object: ``{"relations": {name: size}, "seconds": {"load": s, "evaluate": s}, "version": text}``.
"""
