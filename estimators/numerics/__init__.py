"""Numerical procedures that know no plan: projections, maximum entropy, designs, transforms."""
