"""What all packages share: errors, settings, clock, files, metrics' definitions, HTTP."""
