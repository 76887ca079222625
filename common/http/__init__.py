"""HTTP for all roles: connections with limits, shares of peers, and problem documents."""
