"""What every long-running role needs: service loop, health pages, settings, topic checks."""
