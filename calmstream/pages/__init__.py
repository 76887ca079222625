"""What commands print and export: tables, heat maps, generated pages."""
