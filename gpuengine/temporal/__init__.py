"""DatalogMTL: rules over metric time.

`language` reads programs (`syntax`), `facts` reads facts, `timeline` encodes rational intervals as integers,
`relations` stores them, `rules` compiles rules to joins and interval operations, `procedures` has the three
procedures of the paper, `bounds` says whether they end, and `engine` is what users meet.
"""
