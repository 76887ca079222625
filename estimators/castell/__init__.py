"""Joint distributions from records whose attributes are randomised block by block.

`design` chooses which tables are counted, `schemes` turns one observed table into an estimate,
`model` answers queries, and `lasso` is the regression of LoPub. The methods that use them are in
:mod:`estimators.methods`; the formulas are in docs/methods/whole-records.md.
"""
