"""The one model of tables: a record has a few hidden yes/no causes."""
