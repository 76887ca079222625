"""The parts that all roles share; they do not depend on the meaning of the records."""
