"""Joint distributions from records whose attributes are randomised block by block.

A block is a set of attributes that one randomised response perturbs together. The room has the name
of Castell, the scheme by Kikuchi, Domingo-Ferrer and Soria-Comas that inverts the responses
attribute by attribute; docs/methods/whole-records.md has the formulas.

`design` chooses which tables are counted, `schemes` turns one observed table into an estimate, and
`model` answers queries.
"""
