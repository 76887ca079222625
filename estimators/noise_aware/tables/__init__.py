"""From posterior draws to tables and their intervals."""
