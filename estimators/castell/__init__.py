"""Joint distributions from records whose attributes are randomised block by block.

A block is a set of attributes that one randomised response perturbs together. The package has the
name of Castell, the scheme by Kikuchi, Domingo-Ferrer and Soria-Comas that inverts the responses
attribute by attribute.

`design` chooses which tables are counted, `schemes` turns one observed table into an estimate,
`model` answers queries, and `lasso` is the regression of LoPub. The methods that use them are in
`estimators.methods`; the formulas are in docs/methods/whole-records.md, the general terms in
docs/concepts.md.
"""
