"""For central plans: raw records are sent to a trusted aggregator. Nothing here perturbs."""
