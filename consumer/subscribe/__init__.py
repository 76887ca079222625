"""Reads snapshots: complete sets, none older after a newer one."""
