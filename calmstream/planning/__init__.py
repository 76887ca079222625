"""`plan`: central plans, pilots, allowed loss, and what the operator may expect."""
