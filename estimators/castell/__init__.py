"""Joint distributions from records whose attributes were randomised one by one (METHODS §5)."""
