"""Facts from and to the memory of a device: CuPy, cuDF, DLPack, the Arrow C device interface.

`incoming` brings what others have on a device into a relation, `outgoing` hands a relation's facts out.
"""
