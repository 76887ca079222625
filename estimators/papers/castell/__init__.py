"""Joint distributions from records whose attributes are randomised block by block.

A block is a set of attributes that one randomised response perturbs together. Castell is the scheme
by Kikuchi, Domingo-Ferrer and Soria-Comas that inverts them; see docs/methods/whole-records.md.
"""
